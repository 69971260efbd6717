/** Why a login was refused, in a column of its own instead of the column of the registration's error. */
import { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

export default Effect.gen(function* () {
  const sql = yield* SqlClient
  yield* sql`ALTER TABLE login_outcomes ADD COLUMN refusal TEXT`
  // Earlier versions wrote a refusal as the error `login:<refusal>`.
  yield* sql`
    UPDATE login_outcomes SET refusal = SUBSTR(error, 7), error = NULL
    WHERE error LIKE 'login:%'`
})
