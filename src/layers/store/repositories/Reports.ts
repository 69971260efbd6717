import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import {
  Anonymous,
  ReportAdmission,
  type Reporter,
  type Reports,
  type StoredReport,
  Unrecognised,
  Unverified,
  Verified
} from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { bringToFront, enqueue } from "./Deliveries.ts"
import { all, first, OptionalText, OptionalWhole, Whole } from "./Rows.ts"

const verified = "verified:"

const toReporter = (text: string): Reporter => {
  if (text === "anonymous") return Anonymous()
  if (text === "unverified") return Unverified()
  return text.startsWith(verified)
    ? Verified({ publicId: text.slice(verified.length) })
    : Unrecognised({ text })
}

const toText = (reporter: Reporter): string => {
  switch (reporter._tag) {
    case "Anonymous":
      return "anonymous"
    case "Unverified":
      return "unverified"
    case "Verified":
      return `${verified}${reporter.publicId}`
    case "Unrecognised":
      return reporter.text
  }
}

const Content = Schema.parseJson(
  Schema.Struct({
    message: Schema.String,
    pr: Schema.NullOr(Schema.String),
    attachments: Schema.Array(Schema.Struct({ name: Schema.String, content: Schema.String })),
    context: Schema.NullOr(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
  })
)

const Row = Schema.Struct({
  id: Schema.String,
  plane: Schema.String,
  content_digest: Schema.String,
  reporter: Schema.String,
  content: Content,
  source: Schema.String,
  request_id: Schema.String,
  created_at: Whole,
  marker: Schema.String,
  issue_number: OptionalWhole,
  issue_url: OptionalText
})
type Row = typeof Row.Type

const toReport = (row: Row): StoredReport => ({
  id: row.id,
  plane: row.plane,
  reporter: toReporter(row.reporter),
  content: row.content,
  source: row.source,
  requestId: row.request_id,
  createdAt: row.created_at,
  marker: row.marker,
  issue: Option.all({ number: row.issue_number, url: row.issue_url })
})

/** The row that a report of this reporter and content repeats; the reporter's own before another's that may be theirs. */
const repeatedBy = (rows: ReadonlyArray<Row>, reporter: string, contentDigest: string): Row | undefined => {
  const same = rows.filter((row) => row.content_digest === contentDigest)
  const open = same.filter((row) => row.reporter === "unverified" || reporter === "unverified")
  return (
    same.find((row) => row.reporter === reporter) ??
    open.find((row) => row.reporter !== "anonymous") ??
    open[0]
  )
}

/** What a report counts besides its content: its row, its keys and its delivery; triggers keep the sum (migration 0004). */
const bytesBeside = 1_000

export const makeReports = (
  { sql, read, write, alone, announce }: Database,
  wake: Effect.Effect<void>
): Reports => {
  const underKey = (plane: string, keyDigest: string) =>
    all(Row)(sql`
      SELECT * FROM reports WHERE plane = ${plane} AND key_digest = ${keyDigest} ORDER BY created_at, id`)

  const stored = Effect.map(
    first(Schema.Struct({ bytes: Whole }))(sql`SELECT bytes FROM report_totals WHERE id = 1`),
    Option.match({ onNone: () => 0, onSome: ({ bytes }) => bytes })
  )

  /** Who was unverified at first is known now. The delivery first: who files the report locks the two in that order. */
  const withName = (row: Row, reporter: string) =>
    row.reporter === "unverified" && reporter.startsWith(verified)
      ? bringToFront(sql, { kind: "report", subject: row.id }).pipe(
          Effect.zipRight(sql`UPDATE reports SET reporter = ${reporter} WHERE id = ${row.id}`),
          Effect.as({ ...row, reporter })
        )
      : Effect.succeed(row)

  return {
    admit: (report, deliver, limitBytes = Number.POSITIVE_INFINITY) =>
      write(
        "Reports.admit",
        Effect.gen(function* () {
          yield* alone(`reports ${report.plane} ${report.keyDigest}`)
          const reporter = toText(report.reporter)
          const rows = yield* underKey(report.plane, report.keyDigest)

          const repeated = repeatedBy(rows, reporter, report.contentDigest)
          if (repeated !== undefined)
            return ReportAdmission.Replayed({ report: toReport(yield* withName(repeated, reporter)) })
          if (rows.some((row) => row.reporter === reporter)) return ReportAdmission.Conflict()

          const content = JSON.stringify(report.content)
          // One at a time, so that no two of them take the same room.
          yield* alone("reports")
          if ((yield* stored) + Buffer.byteLength(content) + bytesBeside > limitBytes)
            return ReportAdmission.Full()
          yield* sql`
            INSERT INTO reports
              (id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker)
            VALUES
              (${report.id}, ${report.plane}, ${report.keyDigest}, ${report.contentDigest}, ${reporter},
               ${content}, ${report.source}, ${report.requestId}, ${report.createdAt},
               ${report.marker})`
          if (deliver) {
            yield* enqueue(sql, {
              kind: "report",
              subject: report.id,
              createdAt: report.createdAt,
              priority: report.reporter._tag === "Verified" ? "first" : "usual"
            })
            yield* announce("deliveries")
          }
          const { contentDigest: _, keyDigest: __, ...admitted } = report
          return ReportAdmission.Stored({ report: { ...admitted, issue: Option.none() } })
        }),
        ({ _tag }) => (deliver && _tag === "Stored" ? wake : Effect.void)
      ),
    find: (id) =>
      read("Reports.find", first(Row)(sql`SELECT * FROM reports WHERE id = ${id}`)).pipe(
        Effect.map(Option.map(toReport))
      ),
    storedBytes: read("Reports.storedBytes", stored)
  }
}

/** For whoever lists reports. */
export { Row as ReportRow, toReport }
