/** Simultaneous callers share one commit, and so one disk sync. */
import * as Arr from "effect/Array"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"

interface Pending<A, B, E> {
  readonly item: A
  readonly answer: Deferred.Deferred<B, E>
}

/** Yields one turn of the event loop, so that concurrent callers join this group. */
const yieldTurn = Effect.async<void>((resume) => {
  const handle = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(handle))
})

/**
 * Passes items to `commit` in groups, in order of arrival, one group at a time: all that arrived meanwhile, up to a weight of
 * `atMost` (a heavier item goes alone). `commit` answers each item of its group, in order, or fails for all of them. An
 * interrupted caller does not affect its group. When the scope closes, pending items are still committed; a later item is a
 * group of its own.
 */
export const groupCommit = <A, B, E>(
  commit: (items: Arr.NonEmptyReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, E>,
  { atMost, weight }: { readonly atMost: number; readonly weight: (item: A) => number }
): Effect.Effect<(item: A) => Effect.Effect<B, E>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const pending: Array<Pending<A, B, E>> = []
    const arrivals = yield* Queue.sliding<void>(1)
    let closed = false

    /** The oldest items that fit together. */
    const nextGroup = (): ReadonlyArray<Pending<A, B, E>> => {
      let sum = 0
      const end = pending.findIndex(({ item }, index) => {
        sum += weight(item)
        return index > 0 && sum > atMost
      })
      return pending.splice(0, end === -1 ? pending.length : end)
    }

    const answer = (group: ReadonlyArray<Pending<A, B, E>>, exit: Exit.Exit<ReadonlyArray<B>, E>) =>
      Effect.forEach(
        group,
        (one, index) =>
          Deferred.done(
            one.answer,
            Exit.flatMap(exit, (answers) => {
              const own = answers[index]
              return own === undefined ? Exit.die(new Error("A group lacks an answer")) : Exit.succeed(own)
            })
          ),
        { discard: true }
      )

    const commitAll: Effect.Effect<void> = Effect.suspend(() => {
      const group = nextGroup()
      if (!Arr.isNonEmptyReadonlyArray(group)) return Effect.void
      return commit(Arr.map(group, ({ item }) => item)).pipe(
        Effect.exit,
        Effect.flatMap((exit) => answer(group, exit)),
        Effect.uninterruptible,
        Effect.zipRight(yieldTurn),
        Effect.zipRight(commitAll)
      )
    })

    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        closed = true
        return commitAll
      })
    )
    yield* Queue.take(arrivals).pipe(
      Effect.zipRight(yieldTurn),
      Effect.zipRight(commitAll),
      Effect.forever,
      Effect.forkScoped
    )

    return (item) =>
      Effect.gen(function* () {
        const own = yield* Deferred.make<B, E>()
        pending.push({ item, answer: own })
        if (closed) yield* commitAll
        else yield* Queue.offer(arrivals, undefined)
        return yield* Deferred.await(own)
      })
  })
