/**
 * Rows of reports and the sums of their bytes: of all, of each signed-in reporter in a plane, and of each network for the others. What
 * changes the content or the holder of a report changes the sums in its transaction.
 */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { OptionalText, OptionalWhole, Whole } from "./Rows.ts"
import { all, run, type Statements } from "./Statements.ts"

/** `Unverified` was signed in while IAM did not answer. */
export type Reporter = Data.TaggedEnum<{
  Anonymous: object
  Unverified: object
  Verified: { readonly publicId: string }
}>
export const { Anonymous, Unverified, Verified } = Data.taggedEnum<Reporter>()

/** Before the public id of a signed-in reporter. */
export const verified = "verified:"

/** Any other text counts as unverified: then every public id is removed from the issue. */
const toReporter = (text: string): Reporter => {
  if (text === "anonymous") return Anonymous()
  return text.startsWith(verified) ? Verified({ publicId: text.slice(verified.length) }) : Unverified()
}

export const toText = (reporter: Reporter): string =>
  reporter._tag === "Verified" ? `${verified}${reporter.publicId}` : reporter._tag.toLowerCase()

const ReportContent = Schema.Struct({
  message: Schema.String,
  pr: Schema.NullOr(Schema.String),
  attachments: Schema.Array(Schema.Struct({ name: Schema.String, content: Schema.String })),
  context: Schema.NullOr(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
})
export type ReportContent = typeof ReportContent.Type

/** What the sums count of a report. */
const counted = {
  /** Who has the bytes: a reporter of a plane, or a network of all planes, as its digest. */
  holder: Schema.NullOr(Schema.String),
  bytes: Whole
}
export const CountedRow = Schema.Struct(counted)
type CountedRow = typeof CountedRow.Type

export const ReportRow = Schema.Struct({
  id: Schema.String,
  plane: Schema.String,
  contentDigest: Schema.String,
  reporter: Schema.String,
  content: Schema.parseJson(ReportContent),
  source: Schema.String,
  requestId: Schema.String,
  createdAt: Whole,
  /** 128 random bits, hex; written into the issue as `report-ref: <id>-<marker>`. */
  marker: Schema.String,
  issueNumber: OptionalWhole,
  issueUrl: OptionalText,
  ...counted
})
export type ReportRow = typeof ReportRow.Type

export const toReport = ({
  bytes: _bytes,
  contentDigest: _contentDigest,
  holder: _holder,
  issueNumber,
  issueUrl,
  reporter,
  ...row
}: ReportRow) => ({
  ...row,
  reporter: toReporter(reporter),
  issue: Option.all({ number: issueNumber, url: issueUrl })
})
export interface StoredReport extends ReturnType<typeof toReport> {}

/** Bytes that a report counts besides its content, for its row, keys and delivery. */
const bytesBeside = 1_000

export const bytesOf = (content: string): number => Buffer.byteLength(content) + bytesBeside

/** `network` counts a report without a verified reporter. */
export const holderOf = (plane: string, reporter: string, network: string | null): string | null =>
  reporter.startsWith(verified) ? `${plane} ${reporter}` : network

export const isReporter = (holder: string): boolean => holder.includes(verified)

/** Condition for reports without a verified reporter, in the words of their index. A removed report is one of them. */
export const isAnonymous = (sql: SqlClient): Fragment => sql`reporter IN ('anonymous', 'unverified')`

/** Condition for a report or delivery that was not removed; `subject` is the column with the report's id. */
export const isNotRemoved = (sql: SqlClient, subject: "reports.id" | "deliveries.subject"): Fragment =>
  sql`NOT EXISTS (SELECT 1 FROM report_removals WHERE report_removals.id = ${sql.literal(subject)})`

/** The holder of the sum of all. */
const everyone = ""

/** The bytes of all reports, and of a holder. */
const Sums = Schema.Struct({ all: Whole, held: Whole })
export interface Sums extends Schema.Schema.Type<typeof Sums> {}

export const readSums = (sql: SqlClient, holder: string | null): Statements<Sums> =>
  Effect.map(
    all(Sums)(sql`
      SELECT COALESCE((SELECT bytes FROM report_sums WHERE holder = ${everyone}), 0) AS "all",
        COALESCE((SELECT bytes FROM report_sums WHERE holder = ${holder ?? everyone}), 0) AS held`),
    ([sums = { all: 0, held: 0 }]) => sums
  )

/** Adds the bytes of each row, which may be less than 0, to the sums. */
export const changeSums = (sql: SqlClient, rows: ReadonlyArray<CountedRow>): Statements<void> =>
  Effect.gen(function* () {
    const changes = new Map<string, number>()
    for (const { bytes, holder } of rows)
      for (const one of holder === null ? [everyone] : [everyone, holder])
        changes.set(one, (changes.get(one) ?? 0) + bytes)
    if (rows.length === 0) return
    yield* run(sql`
      INSERT INTO report_sums ${sql.insert(Array.from(changes, ([holder, bytes]) => ({ holder, bytes })))}
      ON CONFLICT (holder) DO UPDATE SET bytes = report_sums.bytes + excluded.bytes`)
    if (rows.some(({ bytes }) => bytes < 0))
      yield* run(sql`DELETE FROM report_sums WHERE bytes <= 0 AND ${sql.in("holder", [...changes.keys()])}`)
  })
