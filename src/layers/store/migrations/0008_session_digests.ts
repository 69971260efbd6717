/**
 * Digests of the tokens of sessions, so that a session is no stranger after a restart or at another instance; and the calls to
 * IAM of the last minute, which a process that stops leaves to its successor.
 */
import { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

export default Effect.gen(function* () {
  const sql = yield* SqlClient
  yield* sql`
    CREATE TABLE session_digests (
      digest TEXT NOT NULL PRIMARY KEY,
      plane TEXT NOT NULL,
      kind TEXT NOT NULL,
      login TEXT NOT NULL,
      actor TEXT,
      ends_at BIGINT NOT NULL
    )`
  yield* sql`CREATE INDEX session_digests_of_login ON session_digests (login)`
  yield* sql`CREATE INDEX session_digests_of_actor ON session_digests (actor)`
  yield* sql`CREATE INDEX session_digests_by_end ON session_digests (ends_at)`
  yield* sql`CREATE TABLE iam_calls (id TEXT NOT NULL PRIMARY KEY, calls TEXT NOT NULL)`
})
