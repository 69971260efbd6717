/** Removes old rows, a few hundred a call, and returns how many. Bounds are milliseconds since the epoch. */
import type { Fragment } from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Num from "effect/Number"
import * as Schema from "effect/Schema"
import type { Database, Lane } from "./Database.ts"
import { changeSums, CountedRow, isAnonymous } from "./ReportRows.ts"
import { countRemoved, isFree, removedColumns, removedRows } from "./SpoolAdmission.ts"
import { all, count, run, type Statements } from "./Statements.ts"

const RemovedReport = Schema.Struct({ ...CountedRow.fields, id: Schema.String })

/** Rows of one transaction, so that it stays short. */
const batchSize = 200

export const makeRetention = ({ sql, write }: Database) => {
  /** Deletes the oldest rows, by the column `age`, that are older than `before` and fulfil the condition. */
  const removeOldest = (
    [table, key, age, condition = sql`1 = 1`]: readonly [string, key: string, age: string, Fragment?],
    before: number,
    returned: string = key
  ) => {
    const [from, columns, time] = [sql(table), sql.literal(key), sql(age)]
    return sql`
      DELETE FROM ${from} WHERE (${columns}) IN (
        SELECT ${columns} FROM ${from} WHERE ${condition} AND ${time} < ${before} ORDER BY ${time} LIMIT ${batchSize})
      RETURNING ${sql.literal(returned)}`
  }

  const sweep =
    (lane: Lane, name: string, removal: (before: number) => Statements<number>) => (before: number) =>
      removal(before).pipe(write(lane, `Retention.${name}`))
  const remove = (lane: Lane, name: string, ...rule: Parameters<typeof removeOldest>[0]) =>
    sweep(lane, name, (before) => count(removeOldest(rule, before)))

  /** Never before its delivery is over, however old the report is. With it goes a delivery that did not file it. */
  const removeReports = (name: string, condition: Fragment) =>
    sweep("reports", name, (before) => {
      const isOver = sql`${condition} AND NOT EXISTS (
        SELECT 1 FROM deliveries WHERE subject = reports.id AND finished_at IS NULL)`
      return all(RemovedReport)(
        removeOldest(["reports", "id", "created_at", isOver], before, "id, holder, bytes")
      ).pipe(
        Effect.tap((removed) => changeSums(sql, -1, removed)),
        Effect.tap((removed) => {
          const ids = removed.map(({ id }) => `report:${id}`)
          return run(sql`DELETE FROM deliveries WHERE ${sql.in("id", ids)} AND state <> 'delivered'`)
        }),
        Effect.map(({ length }) => length)
      )
    })

  return {
    reports: removeReports("reports", sql`1 = 1`),
    /** Those without a verified reporter, also removed ones. */
    anonymousReports: removeReports("anonymousReports", isAnonymous(sql)),
    /** Only deliveries that are over; that of a report that was not filed goes with the report. */
    deliveries: sweep("reports", "deliveries", (before) => {
      const removeOver = (condition: Fragment) =>
        count(removeOldest(["deliveries", "id", "finished_at", condition], before))
      const sweeps = sql`state IN ('failed', 'discarded') AND kind = 'sweep'`
      return Effect.zipWith(removeOver(sql`state = 'delivered'`), removeOver(sweeps), Num.sum)
    }),
    webhooks: remove("people", "webhooks", "webhook_inbox", "plane, event_id", "received_at"),
    /** Only inactive registrations: a missing row means the same. */
    recipients: remove(
      "people",
      "recipients",
      "recipients",
      "plane, organisation, public_id",
      "changed_at",
      sql`active = 0`
    ),
    sessionDigests: remove("people", "sessionDigests", "session_digests", "digest", "ends_at"),
    loginOutcomes: remove("logins", "loginOutcomes", "login_outcomes", "upstream_key", "recorded_at"),
    /** Leased entries will be settled, and must not be counted twice. */
    telemetry: (before: number) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const rule = ["spool", "sequence", "accepted_at", isFree(sql, now)] as const
        const oldest = removeOldest(rule, before, removedColumns)
        const expired = Effect.tap(removedRows(oldest), (rows) => countRemoved(sql, rows, "expired"))
        return Effect.map(expired, ({ length }) => length).pipe(write("spool", "Retention.telemetry"))
      }),
    /** Ids of delivered telemetry records. */
    deliveredIds: remove("spool", "deliveredIds", "spool_delivered", "record_id", "delivered_at"),
    /** The list of refused telemetry records. */
    refusals: remove("spool", "refusals", "spool_refused", "record_id", "refused_at")
  }
}
