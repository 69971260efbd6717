import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import { Failure } from "../../schema/Failure.ts"
import { httpRequestsInFlight, recordNow } from "../../services/Metrics.ts"
import type { Exchange } from "./Exchange.ts"

/** Requests in flight at once; more would only wait and time out together. */
const defaultBound = 1_000

// Made once: its stack trace costs as much as the rest of a refusal.
const overloaded = new Failure("overloaded", { retryAfterSeconds: 1 })

/** The requests in flight, from their head on, so that bodies that arrive are bounded too. */
export class RequestPlaces extends Context.Tag("music/http/RequestPlaces")<
  RequestPlaces,
  {
    /** Runs a request in a place of its own, refused beyond the bound. Without its client it goes on where it may commit something. */
    readonly run: <A, E, R>(
      exchange: Pick<Exchange, "committing">,
      request: Effect.Effect<A, E, R>
    ) => Effect.Effect<A, E | Failure<"overloaded">, R>
    /** Waits until nothing is in flight. */
    readonly awaitNone: Effect.Effect<void>
  }
>() {
  /** The end of the scope interrupts what is in flight. */
  static readonly layer = (bound: number = defaultBound): Layer.Layer<RequestPlaces> =>
    Layer.scoped(
      RequestPlaces,
      Effect.map(FiberSet.make<unknown, unknown>(), (running) => {
        let count = 0
        const change = (by: 1 | -1) => {
          count += by
          recordNow(httpRequestsInFlight, count)
        }
        return {
          run: <A, E, R>(exchange: Pick<Exchange, "committing">, request: Effect.Effect<A, E, R>) =>
            Effect.suspend((): Effect.Effect<A, E | Failure<"overloaded">, R> => {
              if (count >= bound) return Effect.fail(overloaded)
              change(1)
              return Effect.flatMap(Effect.forkDaemon(Effect.interruptible(request)), (fiber) => {
                FiberSet.unsafeAdd(running, fiber)
                const answer = Effect.async<A, E>((resume) => {
                  fiber.addObserver((exit) => {
                    change(-1)
                    resume(exit)
                  })
                  // The client is gone.
                  return Effect.suspend(() =>
                    exchange.committing ? Effect.void : Fiber.interruptFork(fiber)
                  )
                })
                return Effect.interruptible(answer)
              })
            }),
          awaitNone: FiberSet.awaitEmpty(running)
        }
      })
    )
}
