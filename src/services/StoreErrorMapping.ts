/** Maps failures of the database to the failure that a caller sees, and runs writes that may be lost. */
import * as Effect from "effect/Effect"
import { DependencyUnavailable, type Failure } from "../schema/Failure.ts"
import { StoreUnavailable } from "./Store.ts"

/** Without the database's own reason, which is for the log only. */
export const mapStoreFailure = (_: StoreUnavailable): Failure =>
  new DependencyUnavailable({ details: { dependency: "database" } })

/** Logs the database's own reason under the request id, and fails with `dependency_unavailable`. */
export const logAndMapStoreFailure = <A, R>(
  effect: Effect.Effect<A, StoreUnavailable, R>
): Effect.Effect<A, Failure, R> =>
  effect.pipe(
    Effect.tapError(({ reason }) => Effect.logError("Database unavailable", { reason })),
    Effect.mapError(mapStoreFailure)
  )

/** Milliseconds; bounds how long a write that may be lost delays the response. */
const bestEffortMillis = 2_000

/** Runs a write that may be lost: a failure, or no answer within 2 s, is logged as `message` and ignored. */
export const writeBestEffort =
  (message: string) =>
  <A, R>(write: Effect.Effect<A, StoreUnavailable, R>): Effect.Effect<void, never, R> =>
    write.pipe(
      Effect.timeoutFail({
        duration: bestEffortMillis,
        onTimeout: () => new StoreUnavailable({ problem: { kind: "timed_out" } })
      }),
      Effect.catchAll(({ reason }) => Effect.logWarning(message, reason)),
      Effect.asVoid
    )
