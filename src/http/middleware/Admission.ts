import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Failure, Overloaded, ShuttingDown } from "../../schema/Failure.ts"
import { Drain } from "../../services/Drain.ts"
import { httpRequestsInFlight, recordNow } from "../../services/Metrics.ts"
import type { Call } from "./Routes.ts"
import { Work } from "./Work.ts"

/** Requests that are worked on at once; more would only wait and time out together. */
const defaultBound = 1_000

interface AdmissionService {
  /** Why a call is not let in: the process drains, or too many are in flight. Probes ask about just that and always are. */
  readonly refusal: (call: Call) => Effect.Effect<Failure | undefined>
  /** Counts as in flight while the effect runs. */
  readonly counted: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Waits until nothing is in flight. */
  readonly idle: Effect.Effect<void>
  readonly draining: Effect.Effect<boolean>
}

/** Whether a request is let in at all. */
export class Admission extends Context.Tag("music/http/Admission")<Admission, AdmissionService>() {
  static readonly layer = (bound: number = defaultBound): Layer.Layer<Admission, never, Drain | Work> =>
    Layer.effect(
      Admission,
      Effect.gen(function* () {
        const { draining } = yield* Drain
        const work = yield* Work
        const idle = yield* Effect.makeLatch(true)
        let inFlight = 0

        const refusal = (call: Call): Effect.Effect<Failure | undefined> =>
          call.probe
            ? Effect.succeed(undefined)
            : Effect.zipWith(draining, work.running, (ending, running) => {
                if (ending) return new ShuttingDown()
                return Math.max(inFlight, running) >= bound
                  ? new Overloaded({ retryAfterSeconds: 1 })
                  : undefined
              })

        const enter = () => {
          if (inFlight === 0) idle.unsafeClose()
          inFlight += 1
          recordNow(httpRequestsInFlight, inFlight)
        }
        const leave = Effect.sync(() => {
          inFlight -= 1
          recordNow(httpRequestsInFlight, inFlight)
          if (inFlight === 0) idle.unsafeOpen()
        })

        const counted = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
          Effect.suspend(() => {
            enter()
            return Effect.ensuring(effect, leave)
          })

        return { refusal, counted, idle: idle.await, draining }
      })
    )
}
