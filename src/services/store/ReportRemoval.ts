/** Removal of a report's content by an operator. A row that recognises a repetition stays, with the time and the reason. */
import * as Effect from "effect/Effect"
import type { Database } from "./Database.ts"
import { isInFlight } from "./Deliveries.ts"
import { changeSums, CountedRow, isAnonymous } from "./ReportRows.ts"
import { all, any, run, type Statements } from "./Statements.ts"

/** In the form of every version's content. An older version that files it by mistake publishes only this sentence. */
const emptied = JSON.stringify({
  message: "The content of this report was removed.",
  pr: null,
  attachments: [],
  context: null
})

export const makeReportRemoval = ({ read, sql, write }: Database) => {
  const isPostgres = sql.onDialectOrElse({ pg: () => true, orElse: () => false })

  const remove = (id: string, reason: string, now: number): Statements<"removed" | "being filed" | "gone"> =>
    Effect.gen(function* () {
      if (!isPostgres) yield* run(sql.unsafe("PRAGMA secure_delete = ON"))
      const stored = yield* all(CountedRow)(sql`
        SELECT holder, bytes FROM reports WHERE id = ${id} AND removed_at IS NULL`)
      if (stored.length === 0) return "gone"
      const delivery = sql`subject = ${id} AND kind = 'report'`
      if (yield* any(sql`SELECT 1 FROM deliveries WHERE ${delivery} AND ${isInFlight(sql, now)}`))
        return "being filed"
      // Nothing is filed any more. A delivered one stays.
      yield* run(sql`
        UPDATE deliveries
        SET state = 'discarded', lease_until = NULL, finished_at = ${now}, last_failure = 'its report was removed'
        WHERE ${delivery} AND state <> 'delivered'`)
      // Retention of reports without a verified reporter does not take what had one.
      yield* run(sql`
        UPDATE reports
        SET content = ${emptied}, request_id = '', holder = NULL, bytes = 0, removed_at = ${now}, removal_reason = ${reason},
          reporter = CASE WHEN ${isAnonymous(sql)} THEN 'unverified' ELSE 'removed' END
        WHERE id = ${id}`)
      yield* changeSums(sql, -1, stored)
      return "removed"
    })

  return {
    /**
     * Removes content, reporter and request id of a report, ends its delivery, and records the reason. A repetition under the
     * same key still gets the report's id, and is neither stored nor filed again. After the last of them, `eraseRemoved` is due.
     */
    removeReport: (id: string, reason: string, now: number) =>
      remove(id, reason, now).pipe(write("reports", "OperatorQueries.removeReport")),

    /**
     * Empties SQLite's log, which holds the old pages until then; for Postgres, docs/cli.md has a statement. It waits two seconds for other
     * processes that read the log, which blocks the thread of a command. It never fails: later writes replace what a log that stays holds.
     */
    eraseRemoved: isPostgres
      ? Effect.void
      : Effect.ignore(
          Effect.forEach(
            ["PRAGMA busy_timeout = 2000", "PRAGMA wal_checkpoint(TRUNCATE)"],
            (statement) => run(sql.unsafe(statement)),
            { discard: true }
          ).pipe(read("OperatorQueries.eraseRemoved"))
        )
  }
}
