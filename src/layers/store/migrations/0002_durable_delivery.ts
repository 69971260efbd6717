/** The state of destinations that processes share, records that the table service refused, and indexes for cleaning and listing. */
import { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

export default Effect.gen(function* () {
  const sql = yield* SqlClient

  yield* sql`
    CREATE TABLE destinations (
      name TEXT NOT NULL PRIMARY KEY,
      failures BIGINT NOT NULL,
      stopped INTEGER NOT NULL,
      paused_until BIGINT NOT NULL,
      last_failure TEXT,
      changed_at BIGINT NOT NULL
    )`
  yield* sql`
    CREATE TABLE destination_writes (
      destination TEXT NOT NULL,
      written_at BIGINT NOT NULL,
      PRIMARY KEY (destination, written_at)
    )`

  yield* sql`
    CREATE TABLE spool_refused (
      record_id TEXT NOT NULL PRIMARY KEY,
      table_name TEXT NOT NULL,
      code TEXT NOT NULL,
      event_at BIGINT NOT NULL,
      bytes BIGINT NOT NULL,
      refused_at BIGINT NOT NULL
    )`
  yield* sql`CREATE INDEX spool_refused_by_age ON spool_refused (refused_at)`
  yield* sql`CREATE INDEX spool_by_table ON spool (table_name, sequence)`

  yield* sql`CREATE INDEX deliveries_by_subject ON deliveries (subject)`
  yield* sql`CREATE INDEX deliveries_by_end ON deliveries (finished_at)`
  yield* sql`CREATE INDEX deliveries_by_creation ON deliveries (created_at, id)`
  yield* sql`CREATE INDEX recipients_by_change ON recipients (active, changed_at)`
})
