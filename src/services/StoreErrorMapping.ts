/** Maps failures of the database to the failure that a caller sees. */
import * as Effect from "effect/Effect"
import { Failure } from "../schema/Failure.ts"
import type { StoreUnavailable } from "./Store.ts"

/** Seconds: a database that restarts, or gets a new primary, is back soon, and a client's later pauses grow. */
const retryAfterSeconds = 2

/** Without the database's own reason, which is for the log only. */
export const mapStoreFailure = (_: StoreUnavailable): Failure<"dependency_unavailable"> =>
  new Failure("dependency_unavailable", { retryAfterSeconds, details: { dependency: "database" } })

/** Logs the database's own reason under the request id, and fails with `dependency_unavailable`. */
export const logAndMapStoreFailure = <A, R>(
  effect: Effect.Effect<A, StoreUnavailable, R>
): Effect.Effect<A, Failure<"dependency_unavailable">, R> =>
  Effect.catchAll(effect, (failure) =>
    Effect.zipRight(
      Effect.logError("Database unavailable", { reason: failure.reason }),
      Effect.fail(mapStoreFailure(failure))
    )
  )
