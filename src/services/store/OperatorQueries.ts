/** Queries of the operator's commands: the records of the store, a page at a time, newest first. Times are milliseconds. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { productionId } from "../Plane.ts"
import type { Database } from "./Database.ts"
import {
  deliveryColumns,
  type DeliveryStatus,
  DeliveryRow,
  enqueue,
  hasStatus,
  type StoredDelivery
} from "./Deliveries.ts"
import { type Filters, makeList, type PageRequest, when } from "./Pages.ts"
import { InboxEvent } from "./People.ts"
import { makeReportRemoval, type Removal } from "./ReportRemoval.ts"
import { isAnonymous, isNotRemoved, ReportRow, type StoredReport, toReport, verified } from "./ReportRows.ts"
import { Flag, OptionalText, OptionalWhole, Whole } from "./Rows.ts"
import { SpoolCounts } from "./SpoolAdmission.ts"
import { all, any, first } from "./Statements.ts"

export interface ReportRecord {
  readonly report: StoredReport
  /** None when the report was stored while no tracker was configured, or retention removed the delivery. */
  readonly delivery: Option.Option<StoredDelivery>
  /** Of a report whose content an operator removed. */
  readonly removal: Option.Option<Removal>
}

const RecipientRecord = Schema.Struct({
  plane: Schema.String,
  organisation: Schema.String,
  organisationUuid: Schema.String,
  publicId: Schema.String,
  subscriptionId: OptionalText,
  active: Flag,
  changedAt: Whole
})
export type RecipientRecord = typeof RecipientRecord.Type

/** A report without its content. */
const ReportSize = Schema.Struct({
  id: Schema.String,
  createdAt: Whole,
  /** As the bound of stored reports counts it. */
  bytes: Whole,
  /** Its delivery may have sent it: it is leased or delivered, or its outcome is unknown. */
  inDoubt: Flag
})
export type ReportSize = typeof ReportSize.Type

/** How much of their room reports take, in bytes. */
const ReportUse = Schema.Struct({
  bytes: Whole,
  /** Of signed-in reporters. */
  verified: Whole,
  /** Of the signed-in reporter, and of the network of anonymous reports, that has most. */
  largestReporter: Whole,
  largestNetwork: Whole
})
export type ReportUse = typeof ReportUse.Type

/** An event that the table service refused for good, with its code. */
const RefusalRecord = Schema.Struct({
  recordId: Schema.String,
  tableName: Schema.String,
  code: Schema.String,
  eventAt: Whole,
  bytes: Whole,
  refusedAt: Whole
})
export type RefusalRecord = typeof RefusalRecord.Type

type Since = Filters<"since", number>

/** Which reports a command changes; a report that was removed is none of them. */
export interface ReportSelection extends Since, Filters<"id" | "reporter"> {
  /** Only those without a verified reporter. */
  readonly anonymous: boolean
}

/** `reporter` is a public id, `anonymous` or `unverified`; a removed report has none of them. */
type ReportFilter = Since &
  Filters<"id" | "plane" | "reporter"> &
  Filters<"filed", boolean> &
  Filters<"delivery", DeliveryStatus>

export const makeOperatorQueries = (database: Database) => {
  const { read, sql, write } = database
  const removal = makeReportRemoval(database)
  const list = makeList(database)
  const byReporter = (reporter: string) =>
    sql`reporter = ${reporter === "anonymous" || reporter === "unverified" ? reporter : `${verified}${reporter}`}
      AND ${isNotRemoved(sql, "reports.id")}`
  const byCreation = ["created_at", "id"]

  /** Adds their deliveries and removals, which are read after the reports. */
  const withDeliveries = (reports: ReadonlyArray<StoredReport>) =>
    Effect.gen(function* () {
      const ids = reports.map(({ id }) => id)
      const deliveries = yield* ids.length === 0
        ? Effect.succeed([])
        : read(
            "OperatorQueries.deliveriesOf",
            all(DeliveryRow)(sql`
              SELECT ${deliveryColumns(sql)} FROM deliveries WHERE kind = 'report' AND ${sql.in("subject", ids)}`)
          )
      const removals = yield* removal.removals(ids)
      return reports.map(
        (report): ReportRecord => ({
          report,
          delivery: Option.fromNullable(deliveries.find(({ subject }) => subject === report.id)),
          removal: Option.fromNullable(removals.find(({ id }) => id === report.id))
        })
      )
    })

  const reports = ({ delivery, filed, id, plane, reporter, since }: ReportFilter, page: PageRequest) =>
    Effect.gen(function* () {
      const listed = { name: "reports", row: ReportRow, rows: sql`* FROM reports`, order: byCreation }
      const others = [
        ...when(reporter, byReporter),
        ...when(filed, (isFiled) => (isFiled ? sql`issue_url IS NOT NULL` : sql`issue_url IS NULL`)),
        ...when(
          delivery,
          // Not EXISTS: for each report, SQLite would read all deliveries of the state.
          (state) => sql`id IN (
            SELECT subject FROM deliveries WHERE kind = 'report' AND ${hasStatus(sql, state)})`
        )
      ]
      const { items, next } = yield* list(listed, page, { since, equal: { id, plane }, others })
      return { items: yield* withDeliveries(items.map(toReport)), next }
    })

  return {
    reports,

    report: (id: string) =>
      Effect.map(reports({ id: Option.some(id) }, { limit: 1, after: Option.none() }), ({ items }) =>
        Option.fromNullable(items[0])
      ),

    reportSizes: ({ anonymous, id, reporter, since }: ReportSelection, page: PageRequest) => {
      // Not EXISTS: for it Postgres would read all deliveries.
      const rows = sql`
        id, created_at, bytes, (SELECT COUNT(*) FROM deliveries
          WHERE deliveries.id = 'report:' || reports.id
            AND (lease_until IS NOT NULL OR state NOT IN ('waiting', 'failed'))) AS in_doubt
        FROM reports`
      const listed = { name: "reportSizes", row: ReportSize, rows, order: byCreation }
      const others = [
        isNotRemoved(sql, "reports.id"),
        ...(anonymous ? [isAnonymous(sql)] : []),
        ...when(reporter, byReporter)
      ]
      return list(listed, page, { since, equal: { id }, others })
    },

    reportUse: Effect.map(
      read(
        "OperatorQueries.reportUse",
        first(ReportUse)(sql`
          SELECT COALESCE(SUM(CASE WHEN holder = '' THEN bytes END), 0) AS bytes,
            COALESCE(SUM(CASE WHEN holder LIKE '% verified:%' THEN bytes END), 0) AS verified,
            COALESCE(MAX(CASE WHEN holder LIKE '% verified:%' THEN bytes END), 0) AS largest_reporter,
            COALESCE(MAX(CASE WHEN holder <> '' AND holder NOT LIKE '% verified:%' THEN bytes END), 0) AS largest_network
          FROM report_sums`)
      ),
      Option.getOrElse(() => ({ bytes: 0, verified: 0, largestReporter: 0, largestNetwork: 0 }))
    ),

    deliveries: (
      { kind, since, state }: Since & Filters<"kind"> & Filters<"state", DeliveryStatus>,
      page: PageRequest
    ) => {
      const rows = sql`${deliveryColumns(sql)} FROM deliveries`
      const others = when(state, (status) => hasStatus(sql, status))
      return list({ name: "deliveries", row: DeliveryRow, rows, order: byCreation }, page, {
        since,
        equal: { kind },
        others
      })
    },

    webhooks: ({ eventType, plane, since }: Since & Filters<"plane" | "eventType">, page: PageRequest) => {
      const order = ["received_at", "plane", "event_id"]
      const listed = { name: "webhooks", row: InboxEvent, rows: sql`* FROM webhook_inbox`, order }
      return list(listed, page, { since, equal: { plane, event_type: eventType } })
    },

    recipients: (
      { organisation, plane, publicId }: Filters<"plane" | "organisation" | "publicId">,
      page: PageRequest
    ) => {
      const order = ["plane", "organisation", "public_id"]
      const listed = { name: "recipients", row: RecipientRecord, rows: sql`* FROM recipients`, order }
      return list({ ...listed, next: ">" }, page, { equal: { plane, organisation, public_id: publicId } })
    },

    refusals: ({ code, since, table }: Since & Filters<"table" | "code">, page: PageRequest) => {
      const order = ["refused_at", "record_id"]
      const listed = { name: "refusals", row: RefusalRecord, rows: sql`* FROM spool_refused`, order }
      return list(listed, page, { since, equal: { table_name: table, code } })
    },

    ...removal,

    /** The tables of which an event was ever accepted, with the time when the event that waits longest was accepted. */
    spool: read(
      "OperatorQueries.spool",
      // Along the index by table, whose first row waits longest.
      all(Schema.Struct({ ...SpoolCounts.fields, oldestAt: OptionalWhole }))(sql`
        SELECT table_name AS "table", *,
          (SELECT accepted_at FROM spool WHERE spool.table_name = spool_counts.table_name
            ORDER BY sequence LIMIT 1) AS oldest_at
        FROM spool_counts ORDER BY table_name`)
    ),

    /**
     * Creates a delivery, due now, for a report of production that is not filed and has none; false for any other report.
     * Retention may have removed an earlier delivery, so the tracker is searched before anything is sent.
     */
    enqueue: (reportId: string, now: number) =>
      write("reports")(
        "OperatorQueries.enqueue",
        Effect.gen(function* () {
          // Reports of testing planes are never filed (api.md, reports).
          const open = yield* any(sql`
            SELECT 1 FROM reports
            WHERE id = ${reportId} AND plane = ${productionId} AND issue_url IS NULL AND ${isNotRemoved(sql, "reports.id")}
              AND NOT EXISTS (SELECT 1 FROM deliveries WHERE subject = reports.id AND kind = 'report')`)
          if (open)
            yield* enqueue(sql, {
              kind: "report",
              subject: reportId,
              createdAt: now,
              state: "unknown",
              priority: "first"
            })
          return open
        })
      )
  }
}

export type OperatorQueriesService = ReturnType<typeof makeOperatorQueries>
export type SpoolRecord = Effect.Effect.Success<OperatorQueriesService["spool"]>[number]

export class OperatorQueries extends Context.Tag("music/OperatorQueries")<
  OperatorQueries,
  OperatorQueriesService
>() {}
