/** A request waits for the store until its deadline at most. What it began there goes on, and is idempotent. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { RequestContext } from "../../services/RequestContext.ts"
import { StoreUnavailable } from "../../services/Store.ts"

/** Milliseconds until the deadline of the request; infinite outside of requests. */
export const timeLeft: Effect.Effect<number> = Effect.clockWith((clock) =>
  Effect.map(RequestContext, ({ deadlineAt }) => Math.max(0, deadlineAt - unsafeMonotonicMillis(clock)))
)

/**
 * Like `Effect.async` for an access. Fails as `unanswered` at the request's deadline. `start` returns what ends the wait of an
 * interrupted or late caller. A timer, because a fiber beside each access would cost more than many accesses do.
 */
export const waitWithinDeadline = <A, E>(
  start: (resume: (exit: Exit.Exit<A, E | StoreUnavailable>) => void) => () => void
): Effect.Effect<A, E | StoreUnavailable> =>
  Effect.flatMap(timeLeft, (left) =>
    Effect.async<A, E | StoreUnavailable>((resume) => {
      let leave = () => {}
      const timer = Number.isFinite(left)
        ? setTimeout(() => {
            leave()
            resume(new StoreUnavailable({ kind: "unanswered" }))
          }, left)
        : undefined
      leave = start((exit) => {
        clearTimeout(timer)
        resume(exit)
      })
      return Effect.sync(() => {
        clearTimeout(timer)
        leave()
      })
    })
  )

/** An access that goes on without its caller, who may leave. Its failure is the caller's: in a log it would show the driver's message. */
export const detached = <A, E>(access: Effect.Effect<A, E>): Effect.Effect<A, E | StoreUnavailable> =>
  Effect.flatMap(Effect.forkDaemon(Effect.exit(Effect.uninterruptible(access))), (fiber) =>
    waitWithinDeadline((resume) => {
      fiber.addObserver((exit) => resume(Exit.flatten(exit)))
      return () => undefined
    })
  )
