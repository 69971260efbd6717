/** Removal of a report's content by an operator; the record of it, and a row that recognises a repetition, stay. */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { type OperatorQueriesService, RemovalOutcome } from "../../../services/OperatorQueries.ts"
import type { Database } from "../Database.ts"
import { all, any, first, lock, run, type Steps } from "../Query.ts"
import { bytesOf, CountedRow, countedBytes, makeReportSums } from "./ReportSums.ts"
import { Whole } from "./Rows.ts"

const RemovalRow = Schema.Struct({ id: Schema.String, removedAt: Whole, reason: Schema.String })
const Found = Schema.Struct({ plane: Schema.String, keyDigest: Schema.String })
const State = Schema.Struct({ state: Schema.String })

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

/** Condition for a report or delivery that was not removed; `subject` is the column with the report's id. */
export const isNotRemoved = (sql: SqlClient, subject: "reports.id" | "deliveries.subject"): Fragment =>
  sql`NOT EXISTS (SELECT 1 FROM report_removals WHERE report_removals.id = ${sql.literal(subject)})`

export const makeReportRemoval = (
  database: Database
): Pick<OperatorQueriesService, "eraseRemoved" | "removals" | "removeReport"> => {
  const { read, sql, write } = database
  const sums = makeReportSums(sql)

  /**
   * Ends the delivery, so that nothing is filed any more. Delivery before report: the worker locks them in the same order. A
   * delivered one stays; one that is leased cannot be ended.
   */
  function* endDelivery(id: string, now: number): Steps<boolean> {
    const ended = yield* any(sql`
      UPDATE deliveries SET
        state = 'failed', finished_at = COALESCE(finished_at, ${now}), discarded_at = COALESCE(discarded_at, ${now}),
        last_failure = ${lastFailure}
      WHERE subject = ${id} AND kind = 'report' AND state IN ('waiting', 'unknown', 'failed') RETURNING id`)
    if (ended) return true
    const states = yield* all(State)(sql`SELECT state FROM deliveries WHERE id = ${`report:${id}`}`)
    return states.every(({ state }) => state === "delivered")
  }

  /** SQLite then overwrites the pages that it frees. */
  const overwriteFreed = sql.onDialectOrElse({
    pg: () => Effect.void,
    orElse: () => read("Reports.remove", run(sql.unsafe("PRAGMA secure_delete = ON")))
  })

  /** The log holds the old pages until it is emptied, for which no other process may read it: a few attempts, then the server's own. */
  const eraseRemoved = sql.onDialectOrElse({
    pg: () => Effect.void,
    orElse: () =>
      read(
        "Reports.remove",
        first(Schema.Struct({ busy: Whole }))(sql.unsafe("PRAGMA wal_checkpoint(TRUNCATE)"))
      ).pipe(
        Effect.repeat({
          until: Option.exists(({ busy }) => busy === 0),
          schedule: Schedule.intersect(Schedule.spaced("100 millis"), Schedule.recurs(20))
        }),
        Effect.ignore
      )
  })

  /**
   * Postgres writes a new row and keeps the old one in its files; a VACUUM without FULL only frees its place. Not run here: it
   * locks the table.
   */
  const vacuum = sql.onDialectOrElse({
    pg: () => Option.some("VACUUM FULL reports"),
    orElse: () => Option.none<string>()
  })

  return {
    removals: (ids) =>
      ids.length === 0
        ? Effect.succeed([])
        : read(
            "OperatorQueries.removals",
            all(RemovalRow)(sql`SELECT * FROM report_removals WHERE ${sql.in("id", ids)}`)
          ),

    removeReport: (id, reason, now) =>
      overwriteFreed.pipe(
        Effect.zipRight(
          write("OperatorQueries.removeReport", function* () {
            const found = yield* first(Found)(sql`
              SELECT plane, key_digest FROM reports WHERE id = ${id}`)
            // A repetition at the same time must not name the reporter again.
            if (Option.isSome(found)) yield* lock(`reports ${found.value.plane} ${found.value.keyDigest}`)
            const known = yield* any(sql`SELECT 1 FROM report_removals WHERE id = ${id}`)
            if (known) return RemovalOutcome.RemovedBefore()
            if (Option.isNone(found)) return RemovalOutcome.Missing()
            if (!(yield* endDelivery(id, now))) return RemovalOutcome.BeingFiled()
            yield* lock("reports")
            const counted = yield* first(CountedRow)(sql`
              SELECT plane, reporter, network, ${countedBytes(sql)} AS bytes FROM reports WHERE id = ${id}`)
            // Retention may have deleted it since.
            if (Option.isNone(counted)) return RemovalOutcome.Missing()
            yield* run(sql`
              UPDATE reports SET content = ${emptied}, reporter = ${reporter}, request_id = '', network = NULL
              WHERE id = ${id}`)
            yield* sums.subtract([counted.value])
            yield* sums.add([{ ...counted.value, reporter, network: null, bytes: bytesOf(emptied) }])
            yield* run(sql`
              INSERT INTO report_removals (id, removed_at, reason) VALUES (${id}, ${now}, ${reason})`)
            return RemovalOutcome.Removed({ vacuum })
          })
        )
      ),
    eraseRemoved
  }
}
