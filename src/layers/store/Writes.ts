import * as Effect from "effect/Effect"
import { recordNow, storeWritesFailed } from "../../services/Metrics.ts"
import type { StoreUnavailable } from "../../services/Store.ts"
import type { Database } from "./Database.ts"
import { writeMark } from "./Mark.ts"
import { migrationsTable } from "./Migrations.ts"

const failedWrites = storeWritesFailed({})

/**
 * Remembers that a write failed: a full or read-only database still reads, but a server on it is not ready. From then on
 * `writable` tries to write something, until it can; that others could tells little, for many a write has nothing to change.
 */
export const watchWrites = (
  database: Database
): { readonly database: Database; readonly writable: Effect.Effect<void, StoreUnavailable> } => {
  const { sql } = database
  let failing = false
  const note = (failed: boolean) =>
    Effect.sync(() => {
      failing = failed
    })
  const probe = database.write(
    "Store.check",
    sql.onDialectOrElse({
      sqlite: () => sql.unsafe(writeMark),
      orElse: () => sql`UPDATE ${sql(migrationsTable)} SET name = name WHERE migration_id = 1`
    })
  )
  return {
    database: {
      ...database,
      write: (operation, body, committed) =>
        Effect.tapError(database.write(operation, body, committed), () => {
          recordNow(failedWrites, 1)
          return note(true)
        })
    },
    writable: Effect.suspend(() => (failing ? Effect.zipRight(probe, note(false)) : Effect.void))
  }
}
