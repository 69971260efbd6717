/**
 * What is done to a restored database before a server works on it. Its digests of sessions are removed: they may be of sessions
 * that ended since.
 *
 * A restored database lacks the deliveries after its backup: a report that is not filed in it may have an issue by now.
 * Each of them is searched for in the tracker, from the report's creation on, before it is sent.
 */
import type { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { StoreUnavailable } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { count, first, run, type Statements } from "../Statements.ts"
import { Whole } from "../repositories/Rows.ts"

/**
 * Marks each unfiled report as sent once more, at its creation, by a sender that was lost: all searches are made, and a second
 * request brings the sweep. A failed delivery stays failed; a retry makes the same searches. Returns how many were marked.
 */
export const markUnfiledUnknown = (sql: SqlClient): Statements<number> => {
  const created = sql`
    COALESCE((SELECT reports.created_at FROM reports WHERE reports.id = deliveries.subject), created_at)`
  return count(sql`
      UPDATE deliveries SET
        state = CASE WHEN state IN ('waiting', 'leased') THEN 'unknown' ELSE state END,
        attempts = attempts + 1, looks = 0,
        sent_at = ${created}, sending_at = NULL, available_at = ${created},
        fence = fence + 1, leased_from = NULL, lease_owner = NULL, lease_until = NULL
      WHERE kind = 'report' AND state <> 'delivered'
      RETURNING id`)
}

export const removeSessionDigests = (sql: SqlClient): Statements<void> =>
  run(sql`DELETE FROM session_digests`)

const Sessions = Schema.Struct({ sessions: Whole })

/**
 * Sessions of the user of this one on the database, except those of this name: servers, whatever their name. 0 on SQLite, where
 * files show who has them open.
 */
export const countSessions = (
  { read, sql }: Database,
  ownName: string
): Effect.Effect<number, StoreUnavailable> =>
  sql.onDialectOrElse({
    pg: () =>
      Effect.map(
        read(
          "Restore.sessions",
          first(Sessions)(sql`
            SELECT COUNT(*) AS sessions FROM pg_stat_activity
            WHERE datname = current_database() AND usename = current_user AND application_name <> ${ownName}`)
        ),
        Option.match({ onNone: () => 0, onSome: ({ sessions }) => sessions })
      ),
    orElse: () => Effect.succeed(0)
  })

/** The same in a database that another tool restored, before a server starts on it. */
export const finishRestore = ({ sql, write }: Database): Effect.Effect<number, StoreUnavailable> =>
  Effect.zipRight(
    write("people")("Restore.forgetSessions", removeSessionDigests(sql)),
    write("reports")("Restore.finish", markUnfiledUnknown(sql))
  )
