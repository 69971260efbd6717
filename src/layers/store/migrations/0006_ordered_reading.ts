/** Indexes in the order of the operator's lists and of retention, in the place of those that gave only a part of it. */
import { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

export default Effect.gen(function* () {
  const sql = yield* SqlClient

  // Without the later columns SQLite sorts all rows for a page.
  // Failed deliveries stay for as long as their reports: an index of both would read all of them before the first that may go.
  yield* sql`CREATE INDEX deliveries_delivered ON deliveries (finished_at) WHERE state = 'delivered'`
  yield* sql`CREATE INDEX deliveries_failed ON deliveries (created_at, id) WHERE state = 'failed'`
  // Without the later columns SQLite sorts all rows for a page.
  yield* sql`CREATE INDEX reports_in_order ON reports (created_at, id)`
  yield* sql`CREATE INDEX webhook_inbox_in_order ON webhook_inbox (received_at, plane, event_id)`

  // Last, and in the order in which the server locks these tables: on Postgres a drop keeps an older process away until the commit.
  yield* sql`DROP INDEX deliveries_by_end`
  yield* sql`DROP INDEX reports_by_age`
  yield* sql`DROP INDEX webhook_inbox_by_age`
})
