/** Removal of a report's content by an operator; the record of it, and a row that recognises a repetition, stay. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { Database } from "./Database.ts"
import { bytesOf, changeSums, CountedRow } from "./ReportRows.ts"
import { Whole } from "./Rows.ts"
import { all, any, first, run, type Statements } from "./Statements.ts"

/** `BeingFiled`: nothing was changed; its delivery is leased. */
type RemovalOutcome = "Removed" | "RemovedBefore" | "BeingFiled" | "Missing"

/** `id` is that of the report. */
const Removal = Schema.Struct({ id: Schema.String, removedAt: Whole, reason: Schema.String })
export type Removal = typeof Removal.Type

const Busy = Schema.Struct({ busy: Whole })

/** In the form of every version's content. An older version that files it by mistake publishes only this sentence. */
const emptied = JSON.stringify({
  message: "The content of this report was removed.",
  pr: null,
  attachments: [],
  context: null
})

export const makeReportRemoval = ({ read, sql, write }: Database) => {
  const isPostgres = sql.onDialectOrElse({ pg: () => true, orElse: () => false })
  const emptyLog = read("Reports.remove", first(Busy)(sql.unsafe("PRAGMA wal_checkpoint(TRUNCATE)")))

  const remove = (id: string, reason: string, now: number): Statements<RemovalOutcome> =>
    Effect.gen(function* () {
      if (!isPostgres) yield* run(sql.unsafe("PRAGMA secure_delete = ON"))
      if (yield* any(sql`SELECT 1 FROM report_removals WHERE id = ${id}`)) return "RemovedBefore"
      const [counted] = yield* all(CountedRow)(sql`SELECT holder, bytes FROM reports WHERE id = ${id}`)
      if (counted === undefined) return "Missing"
      const delivery = sql`subject = ${id} AND kind = 'report'`
      // The holder of a lease that has ended died, and perhaps no server takes it over.
      if (yield* any(sql`SELECT 1 FROM deliveries WHERE ${delivery} AND lease_until > ${now}`))
        return "BeingFiled"
      // Nothing is filed any more. A delivered one stays.
      yield* run(sql`
        UPDATE deliveries SET
          state = 'failed', lease_until = NULL, finished_at = COALESCE(finished_at, ${now}), discarded_at = COALESCE(discarded_at, ${now}),
          last_failure = 'its report was removed'
        WHERE ${delivery} AND state <> 'delivered'`)
      // Not `anonymous`: a repetition by any reporter replays an unverified one. Several reporters may have sent the same under one key, and
      // only one of their rows can have that name: the others get one that counts as unverified, too.
      const bytes = bytesOf(emptied)
      yield* run(sql`
        UPDATE reports
        SET content = ${emptied}, request_id = '', holder = NULL, bytes = ${bytes},
          reporter = CASE WHEN EXISTS (
              SELECT 1 FROM reports AS other
              WHERE other.plane = reports.plane AND other.key_digest = reports.key_digest
                AND other.content_digest = reports.content_digest AND other.reporter = 'unverified'
                AND other.id <> reports.id)
            THEN 'unverified ' || id ELSE 'unverified' END
        WHERE id = ${id}`)
      yield* changeSums(sql, [
        { ...counted, bytes: -counted.bytes },
        { holder: null, bytes }
      ])
      yield* run(sql`
        INSERT INTO report_removals (id, removed_at, reason) VALUES (${id}, ${now}, ${reason})`)
      return "Removed"
    })

  return {
    /** Those of the reports that were removed; also when retention has removed the rest of the report since. */
    removals: (ids: ReadonlyArray<string>) =>
      ids.length === 0
        ? Effect.succeed([])
        : read(
            "OperatorQueries.removals",
            all(Removal)(sql`SELECT * FROM report_removals WHERE ${sql.in("id", ids)}`)
          ),

    /**
     * Removes content, reporter and request id of a report, ends its delivery, and records the reason. A repetition under the
     * same key still gets the report's id, and is neither stored nor filed again. After the last of them, `eraseRemoved` is due.
     */
    removeReport: (id: string, reason: string, now: number) =>
      write("reports")("OperatorQueries.removeReport", remove(id, reason, now)),

    /**
     * The SQL statement that removes the old rows from the files of Postgres, which writes a new row and keeps the old one; a VACUUM
     * without FULL only frees its place. Not run here: it locks the table.
     */
    vacuum: isPostgres ? "VACUUM FULL reports" : null,

    /**
     * Empties SQLite's log, which holds the old pages until then, and for which no other process may read it. It never fails: the server
     * does it later as well.
     */
    eraseRemoved: isPostgres
      ? Effect.void
      : Effect.ignore(
          Effect.repeat(emptyLog, {
            until: Option.exists(({ busy }) => busy === 0),
            schedule: Schedule.intersect(Schedule.spaced("100 millis"), Schedule.recurs(20))
          })
        )
  }
}
