/**
 * Work that belongs to the process and not to the connection that began it: a caller that disconnects stops waiting, and the work
 * goes on. Not `uninterruptible`, which would also disable the timeouts inside it.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"

/** Fibers that the end of the scope interrupts, and nothing before it. */
export const makeDetachedWork = Effect.map(FiberSet.make<unknown, unknown>(), (fibers) => {
  /** Starts the effect. After the end of the scope it is interrupted at once. */
  const start = <A, E, R>(
    effect: Effect.Effect<A, E, R>
  ): Effect.Effect<Fiber.RuntimeFiber<A, E>, never, R> => FiberSet.run(fibers, effect)

  /** Starts the effect and waits for its result. */
  const run = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(start(effect), Fiber.join)

  return { start, run, running: FiberSet.size(fibers), ended: FiberSet.awaitEmpty(fibers) } as const
})

/** The requests that commit something. They count among the requests in flight, also when their client has disconnected. */
export class DetachedWork extends Effect.Service<DetachedWork>()("music/DetachedWork", {
  scoped: makeDetachedWork
}) {}
