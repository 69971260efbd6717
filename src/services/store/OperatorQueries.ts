/** Queries of the operator's commands: the records of the store, a page at a time, newest first. Times are milliseconds. */
import type { Fragment } from "@effect/sql/Statement"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type PlaneId, productionId } from "../Plane.ts"
import type { Database } from "./Database.ts"
import {
  type DeliveryKind,
  DeliveryRow,
  type DeliveryStatus,
  enqueue,
  hasStatus,
  toDelivery
} from "./DeliveryRows.ts"
import { makeList, type PageRequest } from "./Pages.ts"
import { InboxEvent } from "./People.ts"
import { makeReportRemoval, type Removal } from "./ReportRemoval.ts"
import {
  countedBytes,
  isAnonymous,
  isNotRemoved,
  ReportRow,
  type StoredReport,
  toReport,
  verified
} from "./ReportRows.ts"
import { Flag, OptionalText, OptionalWhole, Whole } from "./Rows.ts"
import { readCounts } from "./SpoolAdmission.ts"
import { all, any, first } from "./Statements.ts"

/** With the time when it was delivered or failed. */
const DeliveryRecord = Schema.Struct({ ...DeliveryRow.fields, finishedAt: OptionalWhole })
export type DeliveryRecord = ReturnType<typeof toDelivery<typeof DeliveryRecord.Type>>

export interface ReportRecord {
  readonly report: StoredReport
  /** None when the report was stored while no tracker was configured, or retention removed the delivery. */
  readonly delivery: Option.Option<DeliveryRecord>
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
  table: Schema.String,
  code: Schema.String,
  eventAt: Whole,
  bytes: Whole,
  refusedAt: Whole
})
export type RefusalRecord = typeof RefusalRecord.Type

interface Since {
  readonly since: Option.Option<number>
}

/** Which reports a command changes; a report that was removed is none of them. */
export interface ReportSelection extends Since {
  readonly id: Option.Option<string>
  /** Only those without a verified reporter. */
  readonly anonymous: boolean
  /** Public id, `anonymous` or `unverified`. */
  readonly reporter: Option.Option<string>
}

interface ReportFilter extends Since {
  readonly plane: Option.Option<PlaneId>
  /** Public id, `anonymous` or `unverified`; a removed report has none of them. */
  readonly reporter: Option.Option<string>
  readonly filed: Option.Option<boolean>
  readonly delivery: Option.Option<DeliveryStatus>
}

interface DeliveryFilter extends Since {
  readonly state: Option.Option<DeliveryStatus>
  readonly kind: Option.Option<DeliveryKind>
}

interface WebhookFilter extends Since {
  readonly plane: Option.Option<PlaneId>
  readonly eventType: Option.Option<string>
}

interface RefusalFilter extends Since {
  readonly table: Option.Option<string>
  readonly code: Option.Option<string>
}

interface RecipientFilter {
  readonly plane: Option.Option<PlaneId>
  readonly organisation: Option.Option<string>
  readonly publicId: Option.Option<string>
}

const reporterText = (reporter: string): string =>
  reporter === "anonymous" || reporter === "unverified" ? reporter : `${verified}${reporter}`

/** A condition for a filter that is set. */
const when = <A>(value: Option.Option<A>, clause: (value: A) => Fragment): ReadonlyArray<Fragment> =>
  Option.match(value, { onNone: () => [], onSome: (found) => [clause(found)] })

export const makeOperatorQueries = (database: Database) => {
  const { read, sql, write } = database
  const removal = makeReportRemoval(database)
  const { removals } = removal
  const list = makeList(database)
  const byReporter = (reporter: string) =>
    sql`reporter = ${reporterText(reporter)} AND ${isNotRemoved(sql, "reports.id")}`
  /** 1 where the delivery of a report fulfils the condition, else 0. Not EXISTS: for it Postgres would read all deliveries. */
  const deliveries = (condition: Fragment) =>
    sql`(SELECT COUNT(*) FROM deliveries WHERE deliveries.id = 'report:' || reports.id AND ${condition})`

  /** Adds their deliveries and removals, which are read after the reports. */
  const withDeliveries = (reports: ReadonlyArray<StoredReport>) =>
    Effect.map(
      reports.length === 0
        ? Effect.succeed([])
        : read(
            "OperatorQueries.deliveriesOf",
            all(DeliveryRecord)(sql`
              SELECT * FROM deliveries
              WHERE ${sql.in(
                "id",
                reports.map(({ id }) => `report:${id}`)
              )}`)
          ),
      (rows) => new Map(rows.map((row) => [row.subject, toDelivery(row)]))
    ).pipe(
      Effect.zipWith(
        removals(reports.map(({ id }) => id)),
        (deliveries, removed): ReadonlyArray<ReportRecord> =>
          reports.map((report) => ({
            report,
            delivery: Option.fromNullable(deliveries.get(report.id)),
            removal: Option.fromNullable(removed.find(({ id }) => id === report.id))
          }))
      )
    )

  /** Conditions for filters that are set. */
  const is = (column: string, value: Option.Option<string>) =>
    when(value, (one) => sql`${sql(column)} = ${one}`)
  const since = (column: string, filter: { readonly since: Option.Option<number> }) =>
    when(filter.since, (from) => sql`${sql(column)} >= ${from}`)

  const byCreation = ["created_at", "id"]

  return {
    reports: (filter: ReportFilter, page: PageRequest) =>
      Effect.gen(function* () {
        const { items, next } = yield* list("reports", ReportRow, sql`* FROM reports`, byCreation, page, [
          ...since("created_at", filter),
          ...is("plane", filter.plane),
          ...when(filter.reporter, byReporter),
          ...when(filter.filed, (filed) => (filed ? sql`issue_url IS NOT NULL` : sql`issue_url IS NULL`)),
          ...when(
            filter.delivery,
            // Not EXISTS: for each report, SQLite would read all deliveries of the state.
            (state) => sql`id IN (
              SELECT subject FROM deliveries WHERE kind = 'report' AND ${hasStatus(sql, state)})`
          )
        ])
        return { items: yield* withDeliveries(items.map(toReport)), next }
      }),

    report: (id: string) =>
      Effect.gen(function* () {
        const row = yield* read(
          "OperatorQueries.report",
          first(ReportRow)(sql`SELECT * FROM reports WHERE id = ${id}`)
        )
        const [record] = yield* withDeliveries(Option.toArray(Option.map(row, toReport)))
        return Option.fromNullable(record)
      }),

    reportSizes: (selection: ReportSelection, page: PageRequest) => {
      const rows = sql`
        id, created_at, ${countedBytes(sql)} AS bytes,
          ${deliveries(sql`state NOT IN ('waiting', 'failed')`)} AS in_doubt
        FROM reports`
      return list("reportSizes", ReportSize, rows, byCreation, page, [
        isNotRemoved(sql, "reports.id"),
        ...is("id", selection.id),
        ...since("created_at", selection),
        ...(selection.anonymous ? [isAnonymous(sql)] : []),
        ...when(selection.reporter, byReporter)
      ])
    },

    reportUse: Effect.map(
      read(
        "OperatorQueries.reportUse",
        first(ReportUse)(sql`
        SELECT COALESCE((SELECT bytes FROM report_totals WHERE id = 1), 0) AS bytes,
          COALESCE(SUM(CASE WHEN plane <> '' THEN bytes END), 0) AS verified,
          COALESCE(MAX(CASE WHEN plane <> '' THEN bytes END), 0) AS largest_reporter,
          COALESCE(MAX(CASE WHEN plane = '' THEN bytes END), 0) AS largest_network
        FROM room_holders`)
      ),
      Option.getOrElse(() => ({ bytes: 0, verified: 0, largestReporter: 0, largestNetwork: 0 }))
    ),

    deliveries: (filter: DeliveryFilter, page: PageRequest) =>
      Effect.map(
        list("deliveries", DeliveryRecord, sql`* FROM deliveries`, byCreation, page, [
          ...since("created_at", filter),
          ...when(filter.state, (state) => hasStatus(sql, state)),
          ...is("kind", filter.kind)
        ]),
        ({ items, next }) => ({ items: items.map(toDelivery), next })
      ),

    delivery: (id: string) =>
      Effect.map(
        read(
          "OperatorQueries.delivery",
          first(DeliveryRecord)(sql`SELECT * FROM deliveries WHERE id = ${id}`)
        ),
        Option.map(toDelivery)
      ),

    webhooks: (filter: WebhookFilter, page: PageRequest) =>
      list("webhooks", InboxEvent, sql`* FROM webhook_inbox`, ["received_at", "plane", "event_id"], page, [
        ...since("received_at", filter),
        ...is("plane", filter.plane),
        ...is("event_type", filter.eventType)
      ]),

    recipients: (filter: RecipientFilter, page: PageRequest) => {
      const order = ["plane", "organisation", "public_id"]
      const { organisation, plane, publicId } = filter
      const conditions = [
        ...is("plane", plane),
        ...is("organisation", organisation),
        ...is("public_id", publicId)
      ]
      return list("recipients", RecipientRecord, sql`* FROM recipients`, order, page, conditions, "ASC")
    },

    refusals: (filter: RefusalFilter, page: PageRequest) => {
      const rows = sql`record_id, table_name AS "table", code, event_at, bytes, refused_at FROM spool_refused`
      return list("refusals", RefusalRecord, rows, ["refused_at", "record_id"], page, [
        ...since("refused_at", filter),
        ...is("table_name", filter.table),
        ...is("code", filter.code)
      ])
    },

    ...removal,

    /** The tables of which an event was ever accepted, with the time when the event that waits longest was accepted. */
    spool: Effect.gen(function* () {
      const counts = yield* read("OperatorQueries.spool", readCounts(sql))
      return yield* Effect.forEach(counts, (sums) =>
        Effect.map(
          read(
            "OperatorQueries.oldestOfTable",
            // Along the index by table, whose first row waits longest.
            first(Schema.Struct({ acceptedAt: Whole }))(sql`
              SELECT accepted_at FROM spool WHERE table_name = ${sums.table} ORDER BY sequence LIMIT 1`)
          ),
          (row) => ({ ...sums, oldestAt: Option.map(row, ({ acceptedAt }) => acceptedAt) })
        )
      )
    }),

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
          if (open) {
            yield* enqueue(sql, {
              kind: "report",
              subject: reportId,
              createdAt: now,
              state: "unknown",
              priority: "first"
            })
          }
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
