/** Removes old rows, a few hundred a call, and returns how many. Bounds are milliseconds since the epoch. */
import type { Fragment } from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Database, Lane } from "./Database.ts"
import { changeSums, CountedRow, isAnonymous } from "./ReportRows.ts"
import { countRemoved, removedRows } from "./SpoolAdmission.ts"
import { all, count, type Statements } from "./Statements.ts"

/** Rows of one transaction, so that it stays short. */
const batchSize = 200

type Removal = (before: number) => Statements<number>

export const makeRetention = ({ sql, write }: Database) => {
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
    (...rule: Parameters<typeof removeOldest>[0]): Removal =>
    (before) =>
      count(removeOldest(rule, before))

  /** Never before its delivery is over, however old the report is. */
  const removeReports =
    (condition: Fragment): Removal =>
    (before) => {
      const isOver = sql`${condition} AND NOT EXISTS (
        SELECT 1 FROM deliveries WHERE subject = reports.id AND state NOT IN ('delivered', 'failed'))`
      const counted = sql`holder, bytes`
      return all(CountedRow)(removeOldest(["reports", "id", "created_at", isOver], before, counted)).pipe(
        Effect.tap((removed) =>
          changeSums(
            sql,
            removed.map(({ bytes, holder }) => ({ holder, bytes: -bytes }))
          )
        ),
        Effect.map(({ length }) => length)
      )
    }

  /** Only deliveries that are over; those of a report that was not filed only once the report is gone. */
  const removeDeliveries: Removal = (before) =>
    Effect.gen(function* () {
      const isDelivered = sql`state = 'delivered'`
      const delivered = yield* count(removeOldest(["deliveries", "id", "finished_at", isDelivered], before))
      if (delivered === batchSize) return delivered
      // Those that wait for an operator: reads all failed ones.
      const failed = yield* count(sql`
        DELETE FROM deliveries WHERE id IN (
          SELECT id FROM deliveries
          WHERE state = 'failed' AND finished_at < ${before}
            AND (kind <> 'report' OR NOT EXISTS (SELECT 1 FROM reports WHERE reports.id = subject))
          ORDER BY created_at, id LIMIT ${batchSize})
        RETURNING id`)
      return delivered + failed
    })

  /** Leased entries will be settled, and must not be counted twice. */
  const removeTelemetry =
    (now: number): Removal =>
    (before) => {
      const notLeased = sql`(lease_until IS NULL OR lease_until <= ${now})`
      const removed = sql`record_id, table_name, event_at, bytes`
      return removedRows(removeOldest(["spool", "sequence", "accepted_at", notLeased], before, removed)).pipe(
        Effect.tap((rows) => countRemoved(sql, rows, "expired")),
        Effect.map(({ length }) => length)
      )
    }

  const sweep = (lane: Lane, name: string, removal: Removal) => (before: number) =>
    write(lane)(`Retention.${name}`, removal(before))
  return {
    reports: sweep("reports", "reports", removeReports(sql`1 = 1`)),
    /** Those without a verified reporter, which removed ones are too: of those with one key and content only the first. */
    anonymousReports: sweep("reports", "anonymousReports", removeReports(isAnonymous(sql))),
    deliveries: sweep("reports", "deliveries", removeDeliveries),
    webhooks: sweep("people", "webhooks", remove("webhook_inbox", "plane, event_id", "received_at")),
    /** Only inactive registrations: a missing row means the same. */
    recipients: sweep(
      "people",
      "recipients",
      remove("recipients", "plane, organisation, public_id", "changed_at", sql`active = 0`)
    ),
    sessionDigests: sweep("people", "sessionDigests", remove("session_digests", "digest", "ends_at")),
    loginOutcomes: sweep("logins", "loginOutcomes", remove("login_outcomes", "upstream_key", "recorded_at")),
    telemetry: (before: number) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        sweep("spool", "telemetry", removeTelemetry(now))(before)
      ),
    /** Ids of delivered telemetry records. */
    deliveredIds: sweep("spool", "deliveredIds", remove("spool_delivered", "record_id", "delivered_at")),
    /** The list of refused telemetry records. */
    refusals: sweep("spool", "refusals", remove("spool_refused", "record_id", "refused_at"))
  }
}
