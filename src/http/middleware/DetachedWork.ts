import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"

/**
 * Work that commits something belongs to the process, not to the connection: a client that disconnects stops waiting
 * for it, nothing more. Not `uninterruptible`, which would also take the timeouts inside it out of action.
 */
export class DetachedWork extends Effect.Service<DetachedWork>()("music/http/DetachedWork", {
  scoped: Effect.gen(function* () {
    const fibers = yield* FiberSet.make<unknown, unknown>()

    /** Runs the effect to its end, whoever still waits for it. */
    const lasting = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.flatMap(FiberSet.run(fibers, effect), Fiber.join)

    return { lasting, running: FiberSet.size(fibers), ended: FiberSet.awaitEmpty(fibers) } as const
  })
}) {}
