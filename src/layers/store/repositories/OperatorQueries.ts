/** The `Records` port over either database. Every list has an index that its order follows, and goes on by the last key shown. */
import type { Fragment } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { productionId } from "../../../services/Plane.ts"
import {
  CursorInvalid,
  type DeliveryRecord,
  type Page,
  type PageRequest,
  type RecipientRecord,
  type OperatorQueriesService,
  type ReportRecord
} from "../../../services/OperatorQueries.ts"
import type { InboxEvent, StoredReport } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { DeliveryRow, enqueue, hasStatus, toDelivery } from "./Deliveries.ts"
import { ReportRow, toReport } from "./Reports.ts"
import { all, any, Flag, first, OptionalText, OptionalWhole, Whole } from "./Rows.ts"

const FinishedRow = Schema.Struct({ ...DeliveryRow.fields, finished_at: OptionalWhole })

const EventRow = Schema.Struct({
  plane: Schema.String,
  event_id: Schema.String,
  event_type: Schema.String,
  occurred_at: Schema.String,
  organisation_uuid: Schema.NullOr(Schema.String),
  aggregate_type: Schema.String,
  aggregate_id: Schema.String,
  aggregate_version: Whole,
  data: Schema.String,
  received_at: Whole
})

const RecipientRow = Schema.Struct({
  plane: Schema.String,
  organisation: Schema.String,
  organisation_uuid: Schema.String,
  public_id: Schema.String,
  subscription_id: OptionalText,
  active: Flag,
  changed_at: Whole
})

const toRecord = (row: typeof FinishedRow.Type): DeliveryRecord => ({
  ...toDelivery(row),
  finishedAt: row.finished_at
})

const toEvent = (row: typeof EventRow.Type): InboxEvent => ({
  plane: row.plane,
  eventId: row.event_id,
  eventType: row.event_type,
  occurredAt: row.occurred_at,
  organisationUuid: row.organisation_uuid,
  aggregateType: row.aggregate_type,
  aggregateId: row.aggregate_id,
  aggregateVersion: row.aggregate_version,
  data: row.data,
  receivedAt: row.received_at
})

const toRecipient = (row: typeof RecipientRow.Type): RecipientRecord => ({
  plane: row.plane,
  organisation: row.organisation,
  organisationUuid: row.organisation_uuid,
  publicId: row.public_id,
  subscriptionId: row.subscription_id,
  active: row.active,
  changedAt: row.changed_at
})

/** The key of a record in the order of its list: what a cursor holds. */
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

/** One row more than asked for was read: it shows that there is another page. */
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

export const makeOperatorQueries = ({
  alone,
  announce,
  read,
  sql,
  write
}: Database): OperatorQueriesService => {
  const given = <A>(value: Option.Option<A>, clause: (value: A) => Fragment): ReadonlyArray<Fragment> =>
    Option.match(value, { onNone: () => [], onSome: (found) => [clause(found)] })

  /** The deliveries of these reports, by report; read a moment after them. */
  const withDeliveries = (reports: ReadonlyArray<StoredReport>) =>
    Effect.map(
      reports.length === 0
        ? Effect.succeed([])
        : read(
            "OperatorQueries.deliveriesOf",
            all(DeliveryRow)(sql`
              SELECT * FROM deliveries
              WHERE kind = 'report' AND ${sql.in(
                "subject",
                reports.map(({ id }) => id)
              )}`)
          ),
      (rows): ReadonlyArray<ReportRecord> => {
        const deliveries = new Map(rows.map((row) => [row.subject, toDelivery(row)]))
        return reports.map((report) => ({ report, delivery: Option.fromNullable(deliveries.get(report.id)) }))
      }
    )

  return {
    reports: (filter, page) =>
      Effect.gen(function* () {
        const after = yield* keyIn(timed, page)
        const clauses = [
          ...given(after, ([at, id]) => sql`(created_at, id) < (${at}, ${id})`),
          ...given(filter.since, (since) => sql`created_at >= ${since}`),
          ...given(filter.plane, (plane) => sql`plane = ${plane}`),
          ...given(filter.reporter, (reporter) => sql`reporter = ${reporterText(reporter)}`),
          ...given(filter.filed, (filed) => (filed ? sql`issue_url IS NOT NULL` : sql`issue_url IS NULL`)),
          ...given(
            filter.delivery,
            (state) => sql`EXISTS (
              SELECT 1 FROM deliveries
              WHERE subject = reports.id AND kind = 'report' AND ${hasStatus(sql, state)})`
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

    deliveries: (filter, page) =>
      Effect.gen(function* () {
        const after = yield* keyIn(timed, page)
        const clauses = [
          ...given(after, ([at, id]) => sql`(created_at, id) < (${at}, ${id})`),
          ...given(filter.since, (since) => sql`created_at >= ${since}`),
          ...given(filter.state, (state) => hasStatus(sql, state)),
          ...given(filter.kind, (kind) => sql`kind = ${kind}`)
        ]
        const rows = yield* read(
          "OperatorQueries.deliveries",
          all(FinishedRow)(sql`
            SELECT * FROM deliveries WHERE ${sql.and(clauses)}
            ORDER BY created_at DESC, id DESC LIMIT ${page.limit + 1}`)
        )
        return pageOf(rows.map(toRecord), page, ({ createdAt, id }) => [createdAt, id])
      }),

    delivery: (id) =>
      read(
        "OperatorQueries.delivery",
        first(FinishedRow)(sql`SELECT * FROM deliveries WHERE id = ${id}`)
      ).pipe(Effect.map(Option.map(toRecord))),

    webhooks: (filter, page) =>
      Effect.gen(function* () {
        const after = yield* keyIn(timedInPlane, page)
        const clauses = [
          ...given(
            after,
            ([at, plane, id]) => sql`(received_at, plane, event_id) < (${at}, ${plane}, ${id})`
          ),
          ...given(filter.since, (since) => sql`received_at >= ${since}`),
          ...given(filter.plane, (plane) => sql`plane = ${plane}`),
          ...given(filter.eventType, (type) => sql`event_type = ${type}`)
        ]
        const rows = yield* read(
          "OperatorQueries.webhooks",
          all(EventRow)(sql`
            SELECT * FROM webhook_inbox WHERE ${sql.and(clauses)}
            ORDER BY received_at DESC, plane DESC, event_id DESC LIMIT ${page.limit + 1}`)
        )
        return pageOf(rows.map(toEvent), page, ({ eventId, plane, receivedAt }) => [
          receivedAt,
          plane,
          eventId
        ])
      }),

    recipients: (filter, page) =>
      Effect.gen(function* () {
        const after = yield* keyIn(named, page)
        const clauses = [
          ...given(
            after,
            ([plane, organisation, id]) =>
              sql`(plane, organisation, public_id) > (${plane}, ${organisation}, ${id})`
          ),
          ...given(filter.plane, (plane) => sql`plane = ${plane}`),
          ...given(filter.organisation, (organisation) => sql`organisation = ${organisation}`),
          ...given(filter.publicId, (publicId) => sql`public_id = ${publicId}`)
        ]
        const rows = yield* read(
          "OperatorQueries.recipients",
          all(RecipientRow)(sql`
            SELECT * FROM recipients WHERE ${sql.and(clauses)}
            ORDER BY plane, organisation, public_id LIMIT ${page.limit + 1}`)
        )
        return pageOf(rows.map(toRecipient), page, ({ organisation, plane, publicId }) => [
          plane,
          organisation,
          publicId
        ])
      }),

    enqueue: (reportId, now) =>
      write(
        "OperatorQueries.enqueue",
        Effect.gen(function* () {
          yield* alone(`deliveries of ${reportId}`)
          // A plane's report is never filed (api.md, reports).
          const open = yield* any(sql`
            SELECT 1 FROM reports
            WHERE id = ${reportId} AND plane = ${productionId} AND issue_url IS NULL
              AND NOT EXISTS (SELECT 1 FROM deliveries WHERE subject = reports.id AND kind = 'report')`)
          if (open) {
            // One that it had, and that was cleaned, may have filed it: it is looked for first.
            yield* enqueue(sql, {
              kind: "report",
              subject: reportId,
              createdAt: now,
              state: "unknown",
              priority: "first"
            })
            yield* announce("deliveries")
          }
          return open
        })
      )
  }
}
