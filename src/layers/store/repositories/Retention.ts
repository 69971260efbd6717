import type { Fragment, Statement } from "@effect/sql/Statement"
import type { Retention } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { count } from "../Query.ts"
import { isAnonymous } from "./Rows.ts"

/** Rows of one transaction, so that it stays short. */
const batchSize = 200

export const makeRetention = ({ sql, write }: Database): Retention => {
  const remove = (operation: string, statement: Statement<object>) => write(operation, () => count(statement))
  /** Never before its delivery is over, however old the report is. */
  const oldReports = (condition: Fragment) => sql`
    DELETE FROM reports WHERE id IN (
      SELECT id FROM reports
      WHERE ${condition}
        AND NOT EXISTS (
          SELECT 1 FROM deliveries WHERE subject = reports.id AND state NOT IN ('delivered', 'failed'))
      ORDER BY created_at LIMIT ${batchSize})
    RETURNING id`
  return {
    reports: (createdBefore) => remove("Retention.reports", oldReports(sql`created_at < ${createdBefore}`)),
    anonymousReports: (createdBefore) =>
      remove(
        "Retention.anonymousReports",
        oldReports(sql`${isAnonymous(sql)} AND created_at < ${createdBefore}`)
      ),
    webhooks: (receivedBefore) =>
      remove(
        "Retention.webhooks",
        sql`
          DELETE FROM webhook_inbox WHERE (plane, event_id) IN (
            SELECT plane, event_id FROM webhook_inbox
            WHERE received_at < ${receivedBefore} ORDER BY received_at LIMIT ${batchSize})
          RETURNING event_id`
      ),
    deliveries: (finishedBefore) =>
      write("Retention.deliveries", function* () {
        const delivered = yield* count(sql`
          DELETE FROM deliveries WHERE id IN (
            SELECT id FROM deliveries
            WHERE state = 'delivered' AND finished_at < ${finishedBefore}
            ORDER BY finished_at LIMIT ${batchSize})
          RETURNING id`)
        if (delivered === batchSize) return delivered
        // Reads all failed ones. That of an unfiled report is kept for as long as the report.
        const failed = yield* count(sql`
          DELETE FROM deliveries WHERE id IN (
            SELECT id FROM deliveries
            WHERE state = 'failed' AND finished_at < ${finishedBefore}
              AND (kind <> 'report' OR NOT EXISTS (SELECT 1 FROM reports WHERE reports.id = subject))
            ORDER BY created_at, id LIMIT ${batchSize})
          RETURNING id`)
        return delivered + failed
      }),
    recipients: (changedBefore) =>
      remove(
        "Retention.recipients",
        sql`
          DELETE FROM recipients WHERE (plane, organisation, public_id) IN (
            SELECT plane, organisation, public_id FROM recipients
            WHERE active = 0 AND changed_at < ${changedBefore} ORDER BY changed_at LIMIT ${batchSize})
          RETURNING public_id`
      ),
    loginOutcomes: (recordedBefore) =>
      remove(
        "Retention.loginOutcomes",
        sql`
          DELETE FROM login_outcomes WHERE upstream_key IN (
            SELECT upstream_key FROM login_outcomes
            WHERE recorded_at < ${recordedBefore} ORDER BY recorded_at LIMIT ${batchSize})
          RETURNING upstream_key`
      ),
    sessionDigests: (endedBefore) =>
      remove(
        "Retention.sessionDigests",
        sql`
          DELETE FROM session_digests WHERE digest IN (
            SELECT digest FROM session_digests
            WHERE ends_at < ${endedBefore} ORDER BY ends_at LIMIT ${batchSize})
          RETURNING digest`
      ),
    refusals: (refusedBefore) =>
      remove(
        "Retention.refusals",
        sql`
          DELETE FROM spool_refused WHERE record_id IN (
            SELECT record_id FROM spool_refused
            WHERE refused_at < ${refusedBefore} ORDER BY refused_at LIMIT ${batchSize})
          RETURNING record_id`
      )
  }
}
