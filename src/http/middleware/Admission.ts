import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Failure, Overloaded, ShuttingDown } from "../../schema/Failure.ts"
import { Drain } from "../../services/Drain.ts"
import { httpRequestsInFlight, recordNow } from "../../services/Metrics.ts"
import type { Call } from "./Routes.ts"
import { DetachedWork } from "../../services/DetachedWork.ts"

/** Requests that are worked on at once; more would only wait and time out together. */
export const defaultBound = 1_000

interface AdmissionService {
  /** Why a call is not let in: the process drains, or too many are in flight. Probes ask about just that and always are. */
  readonly refusal: (call: Call) => Effect.Effect<Failure | undefined>
  /**
   * Gives a way to take a place among the requests in flight, and gives the place back at the end. What still waits for
   * its body holds none: whoever never sends it would keep everybody else out.
   */
  readonly counted: <A, E, R>(
    call: Call,
    use: (enter: Effect.Effect<void, Overloaded>) => Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E, R>
  /** Waits until nothing is in flight. */
  readonly idle: Effect.Effect<void>
  readonly draining: Effect.Effect<boolean>
}

/** Whether a request is let in at all. */
export class Admission extends Context.Tag("music/http/Admission")<Admission, AdmissionService>() {
  static readonly layer = (
    bound: number = defaultBound
  ): Layer.Layer<Admission, never, Drain | DetachedWork> =>
    Layer.effect(
      Admission,
      Effect.gen(function* () {
        const { draining } = yield* Drain
        const work = yield* DetachedWork
        const idle = yield* Effect.makeLatch(true)
        let inFlight = 0

        const full = (running: number) => Math.max(inFlight, running) >= bound
        const overloaded = () => new Overloaded({ retryAfterSeconds: 1 })

        const refusal = (call: Call): Effect.Effect<Failure | undefined> =>
          call.probe
            ? Effect.succeed(undefined)
            : Effect.zipWith(draining, work.running, (ending, running) => {
                if (ending) return new ShuttingDown()
                return full(running) ? overloaded() : undefined
              })

        const taken = () => {
          if (inFlight === 0) idle.unsafeClose()
          inFlight += 1
          recordNow(httpRequestsInFlight, inFlight)
        }
        const left = () => {
          inFlight -= 1
          recordNow(httpRequestsInFlight, inFlight)
          if (inFlight === 0) idle.unsafeOpen()
        }

        const counted: AdmissionService["counted"] = (call, use) =>
          Effect.suspend(() => {
            let inside = false
            const enter = Effect.flatMap(work.running, (running) =>
              Effect.suspend(() => {
                if (inside) return Effect.void
                // Asked again: many bodies may have become complete since the request was let in.
                if (!call.probe && full(running)) return Effect.fail(overloaded())
                inside = true
                taken()
                return Effect.void
              })
            )
            return Effect.ensuring(
              use(enter),
              Effect.sync(() => {
                if (inside) left()
              })
            )
          })

        return { refusal, counted, idle: idle.await, draining }
      })
    )
}
