/** Every list follows the order of an index, and continues after the last key of the previous page. */
import type { Fragment } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { productionId } from "../../../services/Plane.ts"
import {
  CursorInvalid,
  type Page,
  type PageRequest,
  type OperatorQueriesService,
  type ReportRecord
} from "../../../services/OperatorQueries.ts"
import type { StoredReport } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { DeliveryRow, enqueue, hasStatus, toDelivery } from "./DeliveryRows.ts"
import { isNotRemoved, makeReportRemoval } from "./ReportRemoval.ts"
import { bytesBeside, ReportRow, toReport } from "./Reports.ts"
import { all, any, first, lock } from "../Query.ts"
import { makeCounts } from "./SpoolRows.ts"
import { Flag, isAnonymous, OptionalText, OptionalWhole, Whole } from "./Rows.ts"

const RecordRow = Schema.Struct({ ...DeliveryRow.fields, finishedAt: OptionalWhole })

const EventRow = Schema.Struct({
  plane: Schema.String,
  eventId: Schema.String,
  eventType: Schema.String,
  occurredAt: Schema.String,
  organisationUuid: Schema.NullOr(Schema.String),
  aggregateType: Schema.String,
  aggregateId: Schema.String,
  aggregateVersion: Whole,
  data: Schema.String,
  receivedAt: Whole
})

const RecipientRow = Schema.Struct({
  plane: Schema.String,
  organisation: Schema.String,
  organisationUuid: Schema.String,
  publicId: Schema.String,
  subscriptionId: OptionalText,
  active: Flag,
  changedAt: Whole
})

const SizeRow = Schema.Struct({
  id: Schema.String,
  createdAt: Whole,
  bytes: Whole,
  inDoubt: Flag,
  discardable: Flag
})

const UseRow = Schema.Struct({
  bytes: Whole,
  verified: Whole,
  largestReporter: Whole,
  largestNetwork: Whole
})

const RefusalRow = Schema.Struct({
  recordId: Schema.String,
  table: Schema.String,
  code: Schema.String,
  eventAt: Whole,
  bytes: Whole,
  refusedAt: Whole
})

/** Keys of the lists, which cursors hold. */
const timed = Schema.Tuple(Schema.Int, Schema.String)
const timedInPlane = Schema.Tuple(Schema.Int, Schema.String, Schema.String)
const named = Schema.Tuple(Schema.String, Schema.String, Schema.String)

const cursorOf = (key: ReadonlyArray<string | number>): string =>
  Buffer.from(JSON.stringify(key)).toString("base64url")

const keyIn = <A extends ReadonlyArray<string | number>, I>(
  schema: Schema.Schema<A, I>,
  { after }: PageRequest
): Effect.Effect<Option.Option<A>, CursorInvalid> =>
  Option.match(after, {
    onNone: () => Effect.succeedNone,
    onSome: (cursor) =>
      Schema.decodeUnknownEither(Schema.parseJson(schema))(
        Buffer.from(cursor, "base64url").toString("utf8")
      ).pipe(Either.mapBoth({ onLeft: () => new CursorInvalid(), onRight: Option.some }))
  })

/** One row beyond the limit was read: it shows whether there is another page. */
const pageOf = <A>(
  items: ReadonlyArray<A>,
  { limit }: PageRequest,
  keyOf: (item: A) => ReadonlyArray<string | number>
): Page<A> => {
  const shown = items.slice(0, limit)
  const last = shown.at(-1)
  return {
    items: shown,
    next: items.length > limit && last !== undefined ? Option.some(cursorOf(keyOf(last))) : Option.none()
  }
}

const reporterText = (reporter: string): string =>
  reporter === "anonymous" || reporter === "unverified" ? reporter : `verified:${reporter}`

export const makeOperatorQueries = (database: Database): OperatorQueriesService => {
  const { read, sql, write } = database
  const removal = makeReportRemoval(database)
  const { removals } = removal
  const contentBytes = sql.literal(
    sql.onDialectOrElse({ pg: () => "OCTET_LENGTH(content)", orElse: () => "LENGTH(CAST(content AS BLOB))" })
  )
  const byReporter = (reporter: string) =>
    sql`reporter = ${reporterText(reporter)} AND ${isNotRemoved(sql, "reports.id")}`
  /** 1 where the delivery of a report fulfils the condition, else 0. Not EXISTS: for it Postgres would read all deliveries. */
  const deliveries = (condition: Fragment) =>
    sql`(SELECT COUNT(*) FROM deliveries WHERE deliveries.id = 'report:' || reports.id AND ${condition})`

  /** A condition for a filter that is set. */
  const when = <A>(value: Option.Option<A>, clause: (value: A) => Fragment): ReadonlyArray<Fragment> =>
    Option.match(value, { onNone: () => [], onSome: (found) => [clause(found)] })

  /** Adds their deliveries and removals, which are read after the reports. */
  const withDeliveries = (reports: ReadonlyArray<StoredReport>) =>
    Effect.map(
      reports.length === 0
        ? Effect.succeed([])
        : read(
            "OperatorQueries.deliveriesOf",
            all(RecordRow)(sql`
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

  return {
    reports: (filter, page) =>
      Effect.gen(function* () {
        const after = yield* keyIn(timed, page)
        const clauses = [
          ...when(after, ([at, id]) => sql`(created_at, id) < (${at}, ${id})`),
          ...when(filter.since, (since) => sql`created_at >= ${since}`),
          ...when(filter.plane, (plane) => sql`plane = ${plane}`),
          ...when(filter.reporter, byReporter),
          ...when(filter.filed, (filed) => (filed ? sql`issue_url IS NOT NULL` : sql`issue_url IS NULL`)),
          ...when(
            filter.delivery,
            // Not EXISTS: for each report, SQLite would read all deliveries of the state.
            (state) => sql`id IN (
              SELECT subject FROM deliveries WHERE kind = 'report' AND ${hasStatus(sql, state)})`
          )
        ]
        const rows = yield* read(
          "OperatorQueries.reports",
          all(ReportRow)(sql`
            SELECT * FROM reports WHERE ${sql.and(clauses)}
            ORDER BY created_at DESC, id DESC LIMIT ${page.limit + 1}`)
        )
        const records = yield* withDeliveries(rows.map(toReport))
        return pageOf(records, page, ({ report }) => [report.createdAt, report.id])
      }),

    report: (id) =>
      Effect.gen(function* () {
        const row = yield* read(
          "OperatorQueries.report",
          first(ReportRow)(sql`SELECT * FROM reports WHERE id = ${id}`)
        )
        const [record] = yield* withDeliveries(Option.toArray(Option.map(row, toReport)))
        return Option.fromNullable(record)
      }),

    reportSizes: (selection, page) =>
      Effect.gen(function* () {
        const after = yield* keyIn(timed, page)
        const clauses = [
          isNotRemoved(sql, "reports.id"),
          ...when(after, ([at, id]) => sql`(created_at, id) < (${at}, ${id})`),
          ...when(selection.since, (since) => sql`created_at >= ${since}`),
          ...(selection.anonymous ? [isAnonymous(sql)] : []),
          ...when(selection.reporter, byReporter)
        ]
        const rows = yield* read(
          "OperatorQueries.reportSizes",
          all(SizeRow)(sql`
            SELECT id, created_at, ${contentBytes} + ${sql.literal(String(bytesBeside))} AS bytes,
              ${deliveries(sql`state NOT IN ('waiting', 'failed')`)} AS in_doubt,
              ${deliveries(sql`(state IN ('waiting', 'unknown') OR ${hasStatus(sql, "failed")})`)} AS discardable
            FROM reports WHERE ${sql.and(clauses)}
            ORDER BY created_at DESC, id DESC LIMIT ${page.limit + 1}`)
        )
        return pageOf(rows, page, ({ createdAt, id }) => [createdAt, id])
      }),

    reportUse: read(
      "OperatorQueries.reportUse",
      first(UseRow)(sql`
        SELECT COALESCE((SELECT bytes FROM report_totals WHERE id = 1), 0) AS bytes,
          COALESCE(SUM(CASE WHEN plane <> '' THEN bytes END), 0) AS verified,
          COALESCE(MAX(CASE WHEN plane <> '' THEN bytes END), 0) AS largest_reporter,
          COALESCE(MAX(CASE WHEN plane = '' THEN bytes END), 0) AS largest_network
        FROM room_holders`).map(
        Option.getOrElse(() => ({ bytes: 0, verified: 0, largestReporter: 0, largestNetwork: 0 }))
      )
    ),

    deliveries: (filter, page) =>
      Effect.gen(function* () {
        const after = yield* keyIn(timed, page)
        const clauses = [
          ...when(after, ([at, id]) => sql`(created_at, id) < (${at}, ${id})`),
          ...when(filter.since, (since) => sql`created_at >= ${since}`),
          ...when(filter.state, (state) => hasStatus(sql, state)),
          ...when(filter.kind, (kind) => sql`kind = ${kind}`)
        ]
        const rows = yield* read(
          "OperatorQueries.deliveries",
          all(RecordRow)(sql`
            SELECT * FROM deliveries WHERE ${sql.and(clauses)}
            ORDER BY created_at DESC, id DESC LIMIT ${page.limit + 1}`)
        )
        return pageOf(rows.map(toDelivery), page, ({ createdAt, id }) => [createdAt, id])
      }),

    delivery: (id) =>
      read(
        "OperatorQueries.delivery",
        first(RecordRow)(sql`SELECT * FROM deliveries WHERE id = ${id}`).map(Option.map(toDelivery))
      ),

    webhooks: (filter, page) =>
      Effect.gen(function* () {
        const after = yield* keyIn(timedInPlane, page)
        const clauses = [
          ...when(after, ([at, plane, id]) => sql`(received_at, plane, event_id) < (${at}, ${plane}, ${id})`),
          ...when(filter.since, (since) => sql`received_at >= ${since}`),
          ...when(filter.plane, (plane) => sql`plane = ${plane}`),
          ...when(filter.eventType, (type) => sql`event_type = ${type}`)
        ]
        const rows = yield* read(
          "OperatorQueries.webhooks",
          all(EventRow)(sql`
            SELECT * FROM webhook_inbox WHERE ${sql.and(clauses)}
            ORDER BY received_at DESC, plane DESC, event_id DESC LIMIT ${page.limit + 1}`)
        )
        return pageOf(rows, page, ({ eventId, plane, receivedAt }) => [receivedAt, plane, eventId])
      }),

    recipients: (filter, page) =>
      Effect.gen(function* () {
        const after = yield* keyIn(named, page)
        const clauses = [
          ...when(
            after,
            ([plane, organisation, id]) =>
              sql`(plane, organisation, public_id) > (${plane}, ${organisation}, ${id})`
          ),
          ...when(filter.plane, (plane) => sql`plane = ${plane}`),
          ...when(filter.organisation, (organisation) => sql`organisation = ${organisation}`),
          ...when(filter.publicId, (publicId) => sql`public_id = ${publicId}`)
        ]
        const rows = yield* read(
          "OperatorQueries.recipients",
          all(RecipientRow)(sql`
            SELECT * FROM recipients WHERE ${sql.and(clauses)}
            ORDER BY plane, organisation, public_id LIMIT ${page.limit + 1}`)
        )
        return pageOf(rows, page, ({ organisation, plane, publicId }) => [plane, organisation, publicId])
      }),

    ...removal,

    refusals: (filter, page) =>
      Effect.gen(function* () {
        const after = yield* keyIn(timed, page)
        const clauses = [
          ...when(after, ([at, id]) => sql`(refused_at, record_id) < (${at}, ${id})`),
          ...when(filter.since, (since) => sql`refused_at >= ${since}`),
          ...when(filter.table, (table) => sql`table_name = ${table}`),
          ...when(filter.code, (code) => sql`code = ${code}`)
        ]
        const rows = yield* read(
          "OperatorQueries.refusals",
          all(RefusalRow)(sql`
            SELECT record_id, table_name AS "table", code, event_at, bytes, refused_at
            FROM spool_refused WHERE ${sql.and(clauses)}
            ORDER BY refused_at DESC, record_id DESC LIMIT ${page.limit + 1}`)
        )
        return pageOf(rows, page, ({ recordId, refusedAt }) => [refusedAt, recordId])
      }),

    spool: Effect.gen(function* () {
      const counts = yield* read("OperatorQueries.spool", makeCounts(sql).counts)
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

    enqueue: (reportId, now) =>
      write("OperatorQueries.enqueue", function* () {
        yield* lock(`deliveries of ${reportId}`)
        // Reports of testing planes are never filed (api.md, reports).
        const open = yield* any(sql`
            SELECT 1 FROM reports
            WHERE id = ${reportId} AND plane = ${productionId} AND issue_url IS NULL AND ${isNotRemoved(sql, "reports.id")}
              AND NOT EXISTS (SELECT 1 FROM deliveries WHERE subject = reports.id AND kind = 'report')`)
        if (open) {
          // A delivery that retention removed may have filed it: search first.
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
  }
}
