import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import { Failure } from "../../schema/Failure.ts"
import { failures, httpRequestsInFlight, recordNow } from "../../services/Metrics.ts"
import { Bounds } from "./Bounds.ts"
import type { Exchange } from "./Exchange.ts"

// Made once: its stack trace costs as much as the rest of a refusal.
const overloaded = new Failure("overloaded", { retryAfterSeconds: 1 })

/** Of a request whose client is gone. */
const logDefect = (fiber: Fiber.Fiber<unknown, unknown>) =>
  Effect.flatMap(Fiber.await(fiber), (exit) => {
    if (Exit.isSuccess(exit) || !Cause.isDie(exit.cause)) return Effect.void
    recordNow(failures({ code: "internal" }), 1)
    return Effect.logError("Request failed", exit.cause)
  })

/** The requests in flight, from their head on, so that bodies that arrive are bounded too. The end of the scope interrupts them. */
export class RequestPlaces extends Effect.Service<RequestPlaces>()("music/http/RequestPlaces", {
  scoped: Effect.gen(function* () {
    const { inFlight } = yield* Bounds
    const running = yield* FiberSet.make<unknown, unknown>()
    let count = 0
    const change = (by: 1 | -1) => {
      count += by
      recordNow(httpRequestsInFlight, count)
    }

    /** Runs a request in a place of its own, refused beyond the bound. Without its client it goes on where it may commit something. */
    const run = <A, E, R>(exchange: Pick<Exchange, "committing">, request: Effect.Effect<A, E, R>) =>
      Effect.suspend((): Effect.Effect<A, E | typeof overloaded, R> => {
        if (count >= inFlight) return Effect.fail(overloaded)
        change(1)
        return Effect.flatMap(Effect.forkDaemon(Effect.interruptible(request)), (fiber) => {
          FiberSet.unsafeAdd(running, fiber)
          const answer = Effect.async<A, E>((resume) => {
            fiber.addObserver((exit) => {
              change(-1)
              resume(exit)
            })
            // The client is gone, and no one else reads how its work ends.
            return Effect.suspend(() =>
              exchange.committing ? Effect.forkDaemon(logDefect(fiber)) : Fiber.interruptFork(fiber)
            )
          })
          return Effect.interruptible(answer)
        })
      })

    /** `awaitNone` waits until nothing is in flight. */
    return { run, awaitNone: FiberSet.awaitEmpty(running) } as const
  })
}) {}
