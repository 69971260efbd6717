/** Queries of the operator's commands: the records of the store, a page at a time, newest first. Times are milliseconds. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { productionId } from "../Plane.ts"
import type { Database } from "./Database.ts"
import {
  deliveryColumns,
  DeliveryRow,
  type DeliveryState,
  enqueue,
  hasState,
  type StoredDelivery
} from "./Deliveries.ts"
import { makeList, type PageRequest } from "./Pages.ts"
import { InboxEvent } from "./People.ts"
import { makeReportRemoval } from "./ReportRemoval.ts"
import { isAnonymous, ReportRow, type StoredReport, toReport, verified } from "./ReportRows.ts"
import { Flag, OptionalText, Whole } from "./Rows.ts"
import { all, any } from "./Statements.ts"

export interface ReportRecord {
  readonly report: StoredReport
  /** None when the report was stored while no tracker was configured, or retention removed the delivery. */
  readonly delivery: Option.Option<StoredDelivery>
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

export const makeOperatorQueries = (database: Database) => {
  const { read, sql, write } = database
  const list = makeList(database)
  const equals = (column: string) => (value: string) => sql`${sql(column)} = ${value}`
  const since = (column: string) => (time: number) => sql`${sql(column)} >= ${time}`
  const byCreation = ["created_at", "id"]
  const isNotRemoved = sql`removed_at IS NULL`

  const listReports = list("reports", {
    row: ReportRow,
    rows: sql`* FROM reports`,
    order: byCreation,
    filters: {
      since: since("created_at"),
      id: equals("id"),
      plane: equals("plane"),
      /** A public id, `anonymous` or `unverified`; a removed report has none of them. */
      reporter: (reporter: string) => {
        const stored = ["anonymous", "unverified"].includes(reporter) ? reporter : `${verified}${reporter}`
        return sql`reporter = ${stored} AND ${isNotRemoved}`
      },
      anonymous: (only: boolean) => (only ? isAnonymous(sql) : sql`1 = 1`),
      removable: (only: boolean) => (only ? isNotRemoved : sql`1 = 1`),
      filed: (isFiled: boolean) => (isFiled ? sql`issue_url IS NOT NULL` : sql`issue_url IS NULL`),
      // By the id, or SQLite would read all of the state for each page; by the subject too, so that Postgres can begin with a rare state.
      delivery: (state: DeliveryState) => sql`EXISTS (SELECT 1 FROM deliveries
        WHERE deliveries.id = 'report:' || reports.id AND subject = reports.id AND ${hasState(sql, state)})`
    }
  })

  const reports = (filters: Parameters<typeof listReports>[0], page: PageRequest) =>
    Effect.gen(function* () {
      const { items, next } = yield* listReports(filters, page)
      const ids = items.map(({ id }) => `report:${id}`)
      const deliveries = yield* ids.length === 0
        ? Effect.succeed([])
        : all(DeliveryRow)(
            sql`SELECT ${deliveryColumns(sql)} FROM deliveries WHERE ${sql.in("id", ids)}`
          ).pipe(read("OperatorQueries.deliveriesOf"))
      const records = items.map(
        (row): ReportRecord => ({
          report: toReport(row),
          delivery: Option.fromNullable(deliveries.find(({ subject }) => subject === row.id))
        })
      )
      return { items: records, next }
    })

  return {
    reports,

    report: (id: string) =>
      Effect.map(reports({ id: Option.some(id) }, { limit: 1, after: Option.none() }), ({ items }) =>
        Option.fromNullable(items[0])
      ),

    deliveries: list("deliveries", {
      row: DeliveryRow,
      rows: sql`${deliveryColumns(sql)} FROM deliveries`,
      order: byCreation,
      filters: {
        since: since("created_at"),
        kind: equals("kind"),
        state: (state: DeliveryState) => hasState(sql, state)
      }
    }),

    webhooks: list("webhooks", {
      row: InboxEvent,
      rows: sql`* FROM webhook_inbox`,
      order: ["received_at", "plane", "event_id"],
      filters: { since: since("received_at"), plane: equals("plane"), eventType: equals("event_type") }
    }),

    recipients: list("recipients", {
      row: RecipientRecord,
      rows: sql`* FROM recipients`,
      order: ["plane", "organisation", "public_id"],
      next: ">",
      filters: {
        plane: equals("plane"),
        organisation: equals("organisation"),
        publicId: equals("public_id")
      }
    }),

    refusals: list("refusals", {
      row: RefusalRecord,
      rows: sql`* FROM spool_refused`,
      order: ["refused_at", "record_id"],
      filters: { since: since("refused_at"), table: equals("table_name"), code: equals("code") }
    }),

    ...makeReportRemoval(database),

    /**
     * Creates a delivery, due now, for a report of production that is not filed and has none; false for any other report.
     * Retention may have removed an earlier delivery, so the tracker is searched before anything is sent.
     */
    enqueue: (reportId: string, now: number) =>
      Effect.gen(function* () {
        // Reports of testing planes are never filed (api.md, reports).
        const open = yield* any(sql`
          SELECT 1 FROM reports
          WHERE id = ${reportId} AND plane = ${productionId} AND issue_url IS NULL AND ${isNotRemoved}
            AND NOT EXISTS (SELECT 1 FROM deliveries WHERE subject = reports.id AND kind = 'report')`)
        if (open)
          yield* enqueue(sql, "report", reportId, { createdAt: now, state: "unknown", priority: "first" })
        return open
      }).pipe(write("reports", "OperatorQueries.enqueue"))
  }
}

export type OperatorQueriesService = ReturnType<typeof makeOperatorQueries>

export class OperatorQueries extends Context.Tag("music/OperatorQueries")<
  OperatorQueries,
  OperatorQueriesService
>() {}
