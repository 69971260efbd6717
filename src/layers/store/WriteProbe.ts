import * as Effect from "effect/Effect"
import { recordNow, storeWritesFailed } from "../../services/Metrics.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { StoreUnavailable } from "../../services/Store.ts"
import type { Database } from "./Database.ts"
import { run } from "./Query.ts"
import { isLasting } from "./StoreErrors.ts"
import { writeMark } from "./sqlite/ApplicationId.ts"
import { migrationsTable } from "./migrations/Migrations.ts"

const failedWrites = storeWritesFailed({})

/** Milliseconds: a write that lacks room or a right so soon after a successful probe contradicts the probe. */
const contradictionWindow = 60_000
/** Milliseconds without a failed write before a contradicted probe is tried again. */
const distrustPeriod = 30_000

/**
 * After a failed write, `writable` fails until a probe can write: a full or read-only database still reads, but a server on it
 * is not ready. Successful writes prove nothing, since many change no row. The probe is small, so a nearly full disk may take it
 * and refuse larger writes: while those keep failing, `writable` fails without a probe.
 */
export const makeWriteProbe = (
  database: Database
): { readonly database: Database; readonly writable: Effect.Effect<void, StoreUnavailable> } => {
  const { sql } = database
  let failures = 0
  /** Failures before the last successful probe, and its time. */
  let probedFailures = 0
  let provenAt = Number.NEGATIVE_INFINITY
  let distrustedUntil = Number.NEGATIVE_INFINITY

  const recordFailure = (error: StoreUnavailable) =>
    Effect.map(monotonicMillis, (now) => {
      recordNow(failedWrites, 1)
      failures += 1
      const contradicts = isLasting(error) && now - provenAt < contradictionWindow
      if (contradicts || now < distrustedUntil) distrustedUntil = now + distrustPeriod
    })

  const probe = database.write("Store.check", () =>
    run(
      sql.onDialectOrElse({
        sqlite: () => sql.unsafe(writeMark),
        orElse: () => sql`UPDATE ${sql(migrationsTable)} SET name = name WHERE migration_id = 1`
      })
    )
  )

  const writable = Effect.gen(function* () {
    const before = failures
    if (before === probedFailures) return
    if ((yield* monotonicMillis) < distrustedUntil)
      return yield* new StoreUnavailable({ database: database.name, problem: { kind: "writes_failing" } })
    yield* probe
    provenAt = yield* monotonicMillis
    probedFailures = before
  })

  return {
    database: {
      ...database,
      write: (operation, body, committed) =>
        Effect.tapError(database.write(operation, body, committed), recordFailure)
    },
    writable
  }
}
