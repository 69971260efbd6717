/** Simultaneous callers share one commit, and so one disk sync. */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

export interface Groups<Item> {
  /** The item is part of the next commit. */
  readonly add: (item: Item) => void
  /** Withdraws an item whose commit has not begun. */
  readonly remove: (item: Item) => void
}

/**
 * Passes items to `commit` in groups, in order of arrival, one group at a time: all that arrived before it begins, up to a weight
 * of `atMost` (a heavier item goes alone). `commit` calls `done` once, when the next one may begin. When the scope closes,
 * pending items are still committed; a later item is a group of its own.
 */
export const makeGroups = <Item>(
  commit: (group: Arr.NonEmptyReadonlyArray<Item>, done: () => void) => void,
  { atMost, weight }: { readonly atMost: number; readonly weight: (item: Item) => number } = {
    atMost: Number.POSITIVE_INFINITY,
    weight: () => 1
  }
): Effect.Effect<Groups<Item>, never, Scope.Scope> =>
  Effect.suspend(() => {
    const pending: Array<Item> = []
    let scheduled: NodeJS.Immediate | undefined
    let running = false
    let closing: (() => void) | undefined

    /** The oldest items that fit together. */
    const takeGroup = (): ReadonlyArray<Item> => {
      let sum = 0
      const end = pending.findIndex((item, index) => {
        sum += weight(item)
        return index > 0 && sum > atMost
      })
      return pending.splice(0, end === -1 ? pending.length : end)
    }

    const commitNext = (): void => {
      scheduled = undefined
      const group = takeGroup()
      if (Arr.isNonEmptyReadonlyArray(group)) {
        running = true
        commit(group, () => {
          running = false
          schedule()
        })
      } else closing?.()
    }

    /** After a turn of the event loop: callers of the same turn join the group, and other work runs between two groups. */
    const schedule = (): void => {
      if (running) return
      if (closing !== undefined) commitNext()
      else if (pending.length > 0) scheduled ??= setImmediate(commitNext)
    }

    const close = Effect.async<void>((resume) => {
      closing = () => resume(Effect.void)
      if (scheduled !== undefined) clearImmediate(scheduled)
      schedule()
    })

    const groups: Groups<Item> = {
      add: (item) => {
        pending.push(item)
        schedule()
      },
      remove: (item) => {
        const index = pending.indexOf(item)
        if (index !== -1) pending.splice(index, 1)
      }
    }
    return Effect.as(
      Effect.addFinalizer(() => close),
      groups
    )
  })
