/** Records of an operator's commands: reports that were removed and why, the last backup; and the order of the refused telemetry. */
import { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

export default Effect.gen(function* () {
  const sql = yield* SqlClient

  // The report's row stays without its content until retention removes it, so that every version recognises a repetition.
  yield* sql`
    CREATE TABLE report_removals (
      id TEXT NOT NULL PRIMARY KEY,
      removed_at BIGINT NOT NULL,
      reason TEXT NOT NULL
    )`
  yield* sql`CREATE TABLE last_backup (id INTEGER NOT NULL PRIMARY KEY, completed_at BIGINT NOT NULL)`

  // Without the later column SQLite sorts all rows for a page.
  yield* sql`CREATE INDEX spool_refused_in_order ON spool_refused (refused_at, record_id)`
  yield* sql`DROP INDEX spool_refused_by_age`
})
