import type { Fragment } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import type { Retention } from "../../../services/Store.ts"
import type { Database, Lane } from "../Database.ts"
import { all, count } from "../Statements.ts"
import { changeSums, CountedRow, countedBytes } from "./ReportRows.ts"
import { isAnonymous } from "./Rows.ts"

/** Rows of one transaction, so that it stays short. */
const batchSize = 200

export const makeRetention = ({ sql, write }: Database): Retention => {
  /** Deletes the oldest rows, by the column `age`, that are older than `before` and fulfil the condition. */
  const removeOldest = (
    [table, key, age, condition = sql`1 = 1`]: readonly [string, key: string, age: string, Fragment?],
    before: number,
    returned: Fragment = sql.literal(key)
  ) => {
    const [from, columns, time] = [sql(table), sql.literal(key), sql(age)]
    return sql`
      DELETE FROM ${from} WHERE (${columns}) IN (
        SELECT ${columns} FROM ${from} WHERE ${condition} AND ${time} < ${before} ORDER BY ${time} LIMIT ${batchSize})
      RETURNING ${returned}`
  }
  const remove =
    (lane: Lane, name: keyof Retention, ...rule: Parameters<typeof removeOldest>[0]) =>
    (before: number) =>
      write(lane)(`Retention.${name}`, count(removeOldest(rule, before)))

  /** Never before its delivery is over, however old the report is. */
  const removeReports = (name: keyof Retention, condition: Fragment) => (before: number) => {
    const isOver = sql`${condition} AND NOT EXISTS (
      SELECT 1 FROM deliveries WHERE subject = reports.id AND state NOT IN ('delivered', 'failed'))`
    const counted = sql`plane, reporter, network, ${countedBytes(sql)} AS bytes`
    return write("reports")(
      `Retention.${name}`,
      all(CountedRow)(removeOldest(["reports", "id", "created_at", isOver], before, counted)).pipe(
        Effect.tap((removed) => changeSums(sql, -1, removed)),
        Effect.map(({ length }) => length)
      )
    )
  }

  /** Those that wait for an operator: reads all failed ones. That of an unfiled report is kept for as long as the report. */
  const removeFailed = (before: number) =>
    count(sql`
      DELETE FROM deliveries WHERE id IN (
        SELECT id FROM deliveries
        WHERE state = 'failed' AND finished_at < ${before}
          AND (kind <> 'report' OR NOT EXISTS (SELECT 1 FROM reports WHERE reports.id = subject))
        ORDER BY created_at, id LIMIT ${batchSize})
      RETURNING id`)

  return {
    reports: removeReports("reports", sql`1 = 1`),
    anonymousReports: removeReports("anonymousReports", isAnonymous(sql)),
    deliveries: (before) =>
      write("reports")(
        "Retention.deliveries",
        Effect.flatMap(
          count(removeOldest(["deliveries", "id", "finished_at", sql`state = 'delivered'`], before)),
          (delivered) =>
            delivered === batchSize
              ? Effect.succeed(delivered)
              : Effect.map(removeFailed(before), (failed) => delivered + failed)
        )
      ),
    webhooks: remove("people", "webhooks", "webhook_inbox", "plane, event_id", "received_at"),
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
    refusals: remove("spool", "refusals", "spool_refused", "record_id", "refused_at")
  }
}
