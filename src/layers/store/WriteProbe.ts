import * as Effect from "effect/Effect"
import { recordNow, storeWritesFailed } from "../../services/Metrics.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { StoreUnavailable } from "../../services/Store.ts"
import type { Database } from "./Database.ts"
import { isLasting } from "./StoreErrors.ts"
import { writeMark } from "./sqlite/ApplicationId.ts"
import { migrationsTable } from "./migrations/Migrations.ts"

const failedWrites = storeWritesFailed({})

/** Milliseconds: a write that lacks room or a right so soon after a probe that succeeded shows that the probe proves nothing. */
const provenFor = 60_000
/** Milliseconds without a failed write before such a probe is tried again. */
const distrust = 30_000

/**
 * Remembers that a write failed: a full or read-only database still reads, but a server on it is not ready. From then on
 * `writable` tries to write something, until it can; that others could tells little, for many a write has nothing to change.
 * What the probe writes is small: a nearly full disk may take it and refuse everything else. So it is not asked while writes
 * go on to fail.
 */
export const makeWriteProbe = (
  database: Database
): { readonly database: Database; readonly writable: Effect.Effect<void, StoreUnavailable> } => {
  const { sql } = database
  let failures = 0
  /** How many of them a probe that succeeded came after, and when it did. */
  let outlived = 0
  let provenAt = Number.NEGATIVE_INFINITY
  let distrustedUntil = Number.NEGATIVE_INFINITY

  const noteFailure = (error: StoreUnavailable) =>
    Effect.map(monotonicMillis, (now) => {
      recordNow(failedWrites, 1)
      failures += 1
      const contradicts = isLasting(error) && now - provenAt < provenFor
      if (contradicts || now < distrustedUntil) distrustedUntil = now + distrust
    })

  const probe = database.write(
    "Store.check",
    sql.onDialectOrElse({
      sqlite: () => sql.unsafe(writeMark),
      orElse: () => sql`UPDATE ${sql(migrationsTable)} SET name = name WHERE migration_id = 1`
    })
  )

  const writable = Effect.gen(function* () {
    const before = failures
    if (before === outlived) return
    if ((yield* monotonicMillis) < distrustedUntil)
      return yield* new StoreUnavailable({ database: database.name, problem: { kind: "writes_failing" } })
    yield* probe
    provenAt = yield* monotonicMillis
    outlived = before
  })

  return {
    database: {
      ...database,
      write: (operation, body, committed) =>
        Effect.tapError(database.write(operation, body, committed), noteFailure)
    },
    writable
  }
}
