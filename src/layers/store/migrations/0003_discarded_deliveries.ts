/** Which deliveries an operator gave up, so that they are told from those that failed by themselves. */
import { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

export default Effect.gen(function* () {
  const sql = yield* SqlClient
  yield* sql`ALTER TABLE deliveries ADD COLUMN discarded_at BIGINT`
  // What was discarded before looks like any other failure, but for the reason that nobody had to give.
  yield* sql`
    UPDATE deliveries SET discarded_at = finished_at
    WHERE state = 'failed' AND last_failure = 'discarded by an operator'`
})
