import type { Fragment } from "@effect/sql/Statement"
import type { Retention } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { all, count, lock } from "../Query.ts"
import { CountedRow, countedBytes, makeReportSums } from "./ReportSums.ts"
import { isAnonymous } from "./Rows.ts"

/** Rows of one transaction, so that it stays short. */
const batchSize = 200

export const makeRetention = ({ sql, write }: Database): Retention => {
  const sums = makeReportSums(sql)

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
    (name: keyof Retention, ...rule: Parameters<typeof removeOldest>[0]) =>
    (before: number) =>
      write(`Retention.${name}`, () => count(removeOldest(rule, before)))

  /** Never before its delivery is over, however old the report is. */
  const removeReports = (name: keyof Retention, condition: Fragment) => (before: number) =>
    write(`Retention.${name}`, function* () {
      yield* lock("reports")
      const isOver = sql`${condition} AND NOT EXISTS (
        SELECT 1 FROM deliveries WHERE subject = reports.id AND state NOT IN ('delivered', 'failed'))`
      const counted = sql`plane, reporter, network, ${countedBytes(sql)} AS bytes`
      const removed = yield* all(CountedRow)(
        removeOldest(["reports", "id", "created_at", isOver], before, counted)
      )
      yield* sums.subtract(removed)
      return removed.length
    })

  return {
    reports: removeReports("reports", sql`1 = 1`),
    anonymousReports: removeReports("anonymousReports", isAnonymous(sql)),
    deliveries: (before) =>
      write("Retention.deliveries", function* () {
        const delivered = yield* count(
          removeOldest(["deliveries", "id", "finished_at", sql`state = 'delivered'`], before)
        )
        if (delivered === batchSize) return delivered
        // Reads all failed ones. That of an unfiled report is kept for as long as the report.
        const failed = yield* count(sql`
          DELETE FROM deliveries WHERE id IN (
            SELECT id FROM deliveries
            WHERE state = 'failed' AND finished_at < ${before}
              AND (kind <> 'report' OR NOT EXISTS (SELECT 1 FROM reports WHERE reports.id = subject))
            ORDER BY created_at, id LIMIT ${batchSize})
          RETURNING id`)
        return delivered + failed
      }),
    webhooks: remove("webhooks", "webhook_inbox", "plane, event_id", "received_at"),
    recipients: remove(
      "recipients",
      "recipients",
      "plane, organisation, public_id",
      "changed_at",
      sql`active = 0`
    ),
    loginOutcomes: remove("loginOutcomes", "login_outcomes", "upstream_key", "recorded_at"),
    sessionDigests: remove("sessionDigests", "session_digests", "digest", "ends_at"),
    refusals: remove("refusals", "spool_refused", "record_id", "refused_at")
  }
}
