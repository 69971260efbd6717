/** What a failure of the database means for a request: the failure that a caller sees, or nothing. */
import * as Effect from "effect/Effect"
import { Failure } from "../schema/Failure.ts"
import { StoreUnavailable } from "./Store.ts"

/** Seconds: a database that restarts, or gets a new primary, is back soon, and a client's later pauses grow. */
const retryAfterSeconds = 2

/** Logs the database's own reason under the request id, and fails with `dependency_unavailable`, which does not tell it. */
export const logAndMapStoreFailure = <A, R>(
  effect: Effect.Effect<A, StoreUnavailable, R>
): Effect.Effect<A, Failure<"dependency_unavailable">, R> =>
  Effect.catchAll(effect, ({ fix, reason }) =>
    Effect.zipRight(
      Effect.logError("Database unavailable", { reason, advice: fix }),
      new Failure("dependency_unavailable", { retryAfterSeconds, details: { dependency: "database" } })
    )
  )

/** Bounds how long a write that may be lost delays the response. */
const longestWrite = "2 seconds"

/** Runs a write without which the request succeeds: a failure, or no answer within 2 s, is logged as `message` and ignored. */
export const writeBestEffort =
  (message: string) =>
  <A, R>(write: Effect.Effect<A, StoreUnavailable, R>): Effect.Effect<void, never, R> =>
    write.pipe(
      Effect.timeoutFail({
        duration: longestWrite,
        onTimeout: () => new StoreUnavailable({ kind: "unanswered" })
      }),
      Effect.catchAll(({ reason }) => Effect.logWarning(message, reason)),
      Effect.asVoid
    )
