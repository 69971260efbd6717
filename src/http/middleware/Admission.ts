import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Overloaded, ShuttingDown } from "../../schema/Failure.ts"
import { Drain } from "../../services/Drain.ts"
import { httpRequestsInFlight, recordNow } from "../../services/Metrics.ts"
import { type EventLoopDelay, startEventLoopDelay } from "../transport/EventLoopDelay.ts"
import { RequestQueue } from "../transport/RequestQueue.ts"
import type { Call } from "./Routes.ts"

/** Requests in flight at once; more would only wait and time out together. */
export const defaultBound = 1_000

// Made once: its stack trace costs as much as the rest of a refusal.
const overloaded = new Overloaded({ retryAfterSeconds: 1 })

interface AdmissionService {
  /**
   * Why a call is refused before its body is read: the process drains, or too many requests are in flight or wait for too long.
   * `turnedAway`: the queue has no place for it. Probes are always admitted.
   */
  readonly refusal: (call: Call, turnedAway: boolean) => Overloaded | ShuttingDown | undefined
  /**
   * Takes a place among the requests in flight, which its holder frees at its end. A request takes it once its body has
   * arrived; otherwise bodies that never arrive would keep all others out.
   */
  readonly takePlace: (call: Call) => Overloaded | undefined
  readonly freePlace: () => void
  /** Waits until nothing is in flight. */
  readonly idle: Effect.Effect<void>
  readonly isDraining: () => boolean
}

/** Counts the requests in flight, and refuses those beyond the bounds. */
export class Admission extends Context.Tag("music/http/Admission")<Admission, AdmissionService>() {
  static readonly layer = (
    bound: number = defaultBound,
    startDelay: (oldestWait: () => number) => EventLoopDelay = startEventLoopDelay
  ): Layer.Layer<Admission, never, Drain | RequestQueue> =>
    Layer.scoped(
      Admission,
      Effect.gen(function* () {
        const { isDraining } = yield* Drain
        const queue = yield* RequestQueue
        const idle = yield* Effect.makeLatch(true)
        const delay = yield* Effect.acquireRelease(
          Effect.sync(() => startDelay(queue.oldestWait)),
          ({ stop }) => Effect.sync(stop)
        )
        let inFlight = 0

        const refuseBeyondBound = ({ probe }: Call): Overloaded | undefined =>
          !probe && inFlight >= bound ? overloaded : undefined

        const count = (change: 1 | -1) => {
          inFlight += change
          recordNow(httpRequestsInFlight, inFlight)
        }

        return {
          refusal: (call, turnedAway) => {
            if (call.probe) return undefined
            if (isDraining()) return new ShuttingDown()
            if (turnedAway || delay.isOverloaded(inFlight + queue.length())) return overloaded
            return refuseBeyondBound(call)
          },
          takePlace: (call) => {
            // Checked again: many bodies may have arrived since this request was admitted.
            const refusal = refuseBeyondBound(call)
            if (refusal !== undefined) return refusal
            if (inFlight === 0) idle.unsafeClose()
            count(1)
            return undefined
          },
          freePlace: () => {
            count(-1)
            if (inFlight === 0) idle.unsafeOpen()
          },
          idle: idle.await,
          isDraining
        }
      })
    )
}
