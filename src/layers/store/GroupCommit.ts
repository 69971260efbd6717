/** Callers who come at the same time share one commit, and so one wait for the disk. */
import * as Arr from "effect/Array"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"

interface Waiting<A, B, E> {
  readonly item: A
  readonly answer: Deferred.Deferred<B, E>
}

/** Whoever is ready to come joins; nobody is waited for. */
const turn = Effect.async<void>((resume) => {
  const hop = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(hop))
})

/**
 * Gives items to `commit` in groups, in the order in which they came, one group at a time: as many as came meanwhile, up to a weight
 * of `atMost` (a heavier item goes alone). `commit` answers each item of its group, in order, or fails for all of them. A caller who
 * goes away changes nothing. When the scope closes, what waits is still committed; who comes later is a group alone.
 */
export const groupCommit = <A, B, E>(
  commit: (items: Arr.NonEmptyReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, E>,
  { atMost, weight }: { readonly atMost: number; readonly weight: (item: A) => number }
): Effect.Effect<(item: A) => Effect.Effect<B, E>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const waiting: Array<Waiting<A, B, E>> = []
    const arrivals = yield* Queue.sliding<void>(1)
    let closed = false

    /** The oldest that fit together. */
    const nextGroup = (): ReadonlyArray<Waiting<A, B, E>> => {
      let sum = 0
      const end = waiting.findIndex(({ item }, index) => {
        sum += weight(item)
        return index > 0 && sum > atMost
      })
      return waiting.splice(0, end === -1 ? waiting.length : end)
    }

    const answer = (group: ReadonlyArray<Waiting<A, B, E>>, exit: Exit.Exit<ReadonlyArray<B>, E>) =>
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
        Effect.zipRight(turn),
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
      Effect.zipRight(turn),
      Effect.zipRight(commitAll),
      Effect.forever,
      Effect.forkScoped
    )

    return (item) =>
      Effect.gen(function* () {
        const own = yield* Deferred.make<B, E>()
        waiting.push({ item, answer: own })
        if (closed) yield* commitAll
        else yield* Queue.offer(arrivals, undefined)
        return yield* Deferred.await(own)
      })
  })
