import * as Effect from "effect/Effect"
import { Deadlines } from "./Deadlines.ts"
import { monotonicNow } from "./FiberContext.ts"
import { StoreUnavailable } from "./Store.ts"

/** Milliseconds; bounds how long a write that may be lost delays the response. */
const bestEffortMillis = 2_000

/** Writes without which a request succeeds. */
export class BestEffort extends Effect.Service<BestEffort>()("music/BestEffort", {
  effect: Effect.map(Deadlines, ({ endAt }) => {
    /** Runs a write that may be lost: a failure, or no answer within 2 s, is logged as `message` and ignored. */
    const writeBestEffort =
      (message: string) =>
      <A, R>(write: Effect.Effect<A, StoreUnavailable, R>): Effect.Effect<void, never, R> =>
        Effect.withFiberRuntime((fiber) =>
          Effect.matchEffect(
            endAt(
              monotonicNow(fiber) + bestEffortMillis,
              () => new StoreUnavailable({ problem: { kind: "timed_out" } })
            )(write),
            {
              onSuccess: () => Effect.void,
              onFailure: ({ reason }) => Effect.logWarning(message, reason)
            }
          )
        )

    return { writeBestEffort } as const
  })
}) {}
