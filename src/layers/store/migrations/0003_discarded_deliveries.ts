/** Marks deliveries that an operator discarded, to distinguish them from those that failed by themselves. */
import { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

export default Effect.gen(function* () {
  const sql = yield* SqlClient
  yield* sql`ALTER TABLE deliveries ADD COLUMN discarded_at BIGINT`
  // Only the default reason identifies deliveries that were discarded before.
  yield* sql`
    UPDATE deliveries SET discarded_at = finished_at
    WHERE state = 'failed' AND last_failure = 'discarded by an operator'`
})
