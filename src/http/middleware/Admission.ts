import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Failure, Overloaded, ShuttingDown } from "../../schema/Failure.ts"
import { Drain } from "../../services/Drain.ts"
import { httpRequestsInFlight, recordNow } from "../../services/Metrics.ts"
import { DetachedWork } from "../../services/DetachedWork.ts"
import type { Call } from "./Routes.ts"

/** Requests in flight at once; more would only wait and time out together. */
export const defaultBound = 1_000

interface AdmissionService {
  /** Why a call is refused on arrival: the process drains, or too many requests are in flight. Probes are always admitted. */
  readonly refusal: (call: Call) => Effect.Effect<Failure | undefined>
  /**
   * Gives `use` an effect that takes a place among the requests in flight, and frees the place when `use` ends. A
   * request takes its place once its body has arrived; otherwise bodies that never arrive would keep all others out.
   */
  readonly withPlace: <A, E, R>(
    call: Call,
    use: (takePlace: Effect.Effect<void, Overloaded>) => Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E, R>
  /** Waits until nothing is in flight. */
  readonly idle: Effect.Effect<void>
  readonly draining: Effect.Effect<boolean>
}

/** Counts the requests in flight and refuses those beyond the bound. */
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

        const isFull = (detached: number) => Math.max(inFlight, detached) >= bound
        const overloaded = () => new Overloaded({ retryAfterSeconds: 1 })

        const refusal = (call: Call): Effect.Effect<Failure | undefined> =>
          call.probe
            ? Effect.succeed(undefined)
            : Effect.zipWith(draining, work.running, (ending, detached) => {
                if (ending) return new ShuttingDown()
                return isFull(detached) ? overloaded() : undefined
              })

        const increment = () => {
          if (inFlight === 0) idle.unsafeClose()
          inFlight += 1
          recordNow(httpRequestsInFlight, inFlight)
        }
        const decrement = () => {
          inFlight -= 1
          recordNow(httpRequestsInFlight, inFlight)
          if (inFlight === 0) idle.unsafeOpen()
        }

        const withPlace: AdmissionService["withPlace"] = (call, use) =>
          Effect.suspend(() => {
            let holdsPlace = false
            const takePlace = Effect.flatMap(work.running, (detached) => {
              if (holdsPlace) return Effect.void
              // Checked again: many bodies may have arrived since this request was admitted.
              if (!call.probe && isFull(detached)) return Effect.fail(overloaded())
              holdsPlace = true
              increment()
              return Effect.void
            })
            return Effect.ensuring(
              use(takePlace),
              Effect.sync(() => {
                if (holdsPlace) decrement()
              })
            )
          })

        return { refusal, withPlace, idle: idle.await, draining }
      })
    )
}
