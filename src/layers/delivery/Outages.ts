/** Keeps a worker's loop going while the database is away. */
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import type { StoreUnavailable } from "../../services/Store.ts"
import { type BackoffPolicy, backoffSchedule } from "./Backoff.ts"

/** Short, so that waiting work continues soon after the database returns. */
const outageBackoff: BackoffPolicy = { first: 1_000, longest: 5_000 }

/** Repeats `round` forever and retries it while the database is unavailable. Logs the begin and the end of an outage once each. */
export const repeatThroughOutages =
  (worker: string) =>
  <R>(round: Effect.Effect<unknown, StoreUnavailable, R>): Effect.Effect<never, never, R> =>
    Effect.gen(function* () {
      const away = yield* Ref.make(false)
      const logOutage = ({ reason }: StoreUnavailable) =>
        Effect.flatMap(Ref.getAndSet(away, true), (known) =>
          (known ? Effect.logDebug : Effect.logWarning)(`${worker}: waiting for the database`, { reason })
        )
      const logRecovery = Effect.flatMap(Ref.getAndSet(away, false), (wasAway) =>
        wasAway ? Effect.logInfo(`${worker}: the database answers again`) : Effect.void
      )
      return yield* round.pipe(
        Effect.tapError(logOutage),
        Effect.retry(backoffSchedule(outageBackoff)),
        // The schedule never ends, so no failure is left; the type does not show it.
        Effect.orDie,
        Effect.zipRight(logRecovery),
        Effect.forever
      )
    })
