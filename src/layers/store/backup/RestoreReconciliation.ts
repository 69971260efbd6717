/**
 * A restored database does not know what was sent after it was copied. A report that was not filed in it may be an issue by now, so each
 * of them is looked for in the tracker, from the report's creation on, before it is sent.
 */
import type { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import type { DatabaseFailure } from "../StoreErrors.ts"

/**
 * As if each of them had been sent once more, at its report's creation, by a sender that was lost: all looks are taken, and a second
 * request brings the late one. One that failed stays so, and one in a state of a later version too; what tries it again finds the same. Works on every version's schema, whose
 * columns are the first one's. Tells how many will be looked for, or would be when they are tried again.
 */
export const markUnfiledUnknown = (sql: SqlClient): Effect.Effect<number, DatabaseFailure> => {
  const created = sql`
    COALESCE((SELECT reports.created_at FROM reports WHERE reports.id = deliveries.subject), created_at)`
  return Effect.map(
    sql`
      UPDATE deliveries SET
        state = CASE WHEN state IN ('waiting', 'leased') THEN 'unknown' ELSE state END,
        attempts = attempts + 1, looks = 0,
        sent_at = ${created}, sending_at = NULL, available_at = ${created},
        fence = fence + 1, leased_from = NULL, lease_owner = NULL, lease_until = NULL
      WHERE kind = 'report' AND state <> 'delivered'
      RETURNING id`,
    ({ length }) => length
  )
}

/** The same in a database that was restored by other means, before a server starts on it. */
export const finishRestore = ({ sql, write }: Database): Effect.Effect<number, StoreUnavailable> =>
  write("Restore.finish", markUnfiledUnknown(sql))
