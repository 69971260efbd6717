/** Removal of a report's content by an operator; the record of it, and a row that recognises a repetition, stay. */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { Database } from "./Database.ts"
import { bytesOf, changeSums, CountedRow, countedBytes } from "./ReportRows.ts"
import { Whole } from "./Rows.ts"
import { all, any, first, run } from "./Statements.ts"

/**
 * `vacuum`: the SQL statement that removes the old row from the database's files, where the removal does not.
 * `BeingFiled`: nothing was changed; its delivery is leased.
 */
type RemovalOutcome = Data.TaggedEnum<{
  Removed: { readonly vacuum: Option.Option<string> }
  RemovedBefore: object
  BeingFiled: object
  Missing: object
}>
const RemovalOutcome = Data.taggedEnum<RemovalOutcome>()

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

/** Not `anonymous`: a repetition by any reporter replays an unverified one. */
const reporter = "unverified"

const lastFailure = "its report was removed"

export const makeReportRemoval = (database: Database) => {
  const { read, sql, write } = database
  /** Ends the delivery, so that nothing is filed any more. A delivered one stays; one that is leased cannot be ended. */
  const endDelivery = (id: string, now: number) =>
    Effect.gen(function* () {
      const ended = yield* any(sql`
        UPDATE deliveries SET
          state = 'failed', finished_at = COALESCE(finished_at, ${now}), discarded_at = COALESCE(discarded_at, ${now}),
          last_failure = ${lastFailure}
        WHERE subject = ${id} AND kind = 'report' AND state IN ('waiting', 'unknown', 'failed') RETURNING id`)
      if (ended) return true
      return !(yield* any(sql`
        SELECT 1 FROM deliveries WHERE id = ${`report:${id}`} AND state <> 'delivered'`))
    })

  const { erase, overwriteFreed, vacuum } = sql.onDialectOrElse({
    // Postgres writes a new row and keeps the old one in its files; a VACUUM without FULL only frees its place. Not run here: it locks
    // the table.
    pg: () => ({
      overwriteFreed: Effect.void,
      erase: Effect.succeed(true),
      vacuum: Option.some("VACUUM FULL reports")
    }),
    // The log holds the old pages until it is emptied, for which no other process may read it.
    orElse: () => ({
      overwriteFreed: run(sql.unsafe("PRAGMA secure_delete = ON")),
      erase: Effect.map(
        read("Reports.remove", first(Busy)(sql.unsafe("PRAGMA wal_checkpoint(TRUNCATE)"))),
        Option.exists(({ busy }) => busy === 0)
      ),
      vacuum: Option.none<string>()
    })
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
      write("reports")(
        "OperatorQueries.removeReport",
        Effect.gen(function* () {
          yield* overwriteFreed
          if (yield* any(sql`SELECT 1 FROM report_removals WHERE id = ${id}`))
            return RemovalOutcome.RemovedBefore()
          const [counted] = yield* all(CountedRow)(sql`
            SELECT plane, reporter, network, ${countedBytes(sql)} AS bytes FROM reports WHERE id = ${id}`)
          if (counted === undefined) return RemovalOutcome.Missing()
          if (!(yield* endDelivery(id, now))) return RemovalOutcome.BeingFiled()
          yield* run(sql`
            UPDATE reports SET content = ${emptied}, reporter = ${reporter}, request_id = '', network = NULL
            WHERE id = ${id}`)
          yield* changeSums(sql, -1, [counted])
          yield* changeSums(sql, 1, [{ ...counted, reporter, network: null, bytes: bytesOf(emptied) }])
          yield* run(sql`
            INSERT INTO report_removals (id, removed_at, reason) VALUES (${id}, ${now}, ${reason})`)
          return RemovalOutcome.Removed({ vacuum })
        })
      ),
    /** Empties SQLite's log, which holds the old pages until then. It never fails: the server does it later as well. */
    eraseRemoved: Effect.ignore(
      Effect.repeat(erase, {
        until: (isErased) => isErased,
        schedule: Schedule.intersect(Schedule.spaced("100 millis"), Schedule.recurs(20))
      })
    )
  }
}
