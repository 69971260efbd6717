import * as Effect from "effect/Effect"
import { Deadlines } from "./Deadlines.ts"
import { monotonicMillis } from "./MonotonicTime.ts"
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
        Effect.flatMap(monotonicMillis, (now) =>
          Effect.matchEffect(
            endAt(
              now + bestEffortMillis,
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
