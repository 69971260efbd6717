/**
 * Rows of reports and the sums of their bytes: of all, of each signed-in reporter in a plane, and of each network for the others. What
 * changes the content, the reporter or the network of a report changes the sums in its transaction.
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

export const toText = (reporter: Reporter): string => {
  switch (reporter._tag) {
    case "Anonymous":
      return "anonymous"
    case "Unverified":
      return "unverified"
    case "Verified":
      return `${verified}${reporter.publicId}`
  }
}

const ReportContent = Schema.Struct({
  message: Schema.String,
  pr: Schema.NullOr(Schema.String),
  attachments: Schema.Array(Schema.Struct({ name: Schema.String, content: Schema.String })),
  context: Schema.NullOr(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
})
export type ReportContent = typeof ReportContent.Type

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
  issueUrl: OptionalText
})
type ReportRow = typeof ReportRow.Type

export interface StoredReport
  extends Omit<ReportRow, "contentDigest" | "issueNumber" | "issueUrl" | "reporter"> {
  readonly reporter: Reporter
  readonly issue: Option.Option<{ readonly number: number; readonly url: string }>
}

export const toReport = ({
  contentDigest: _,
  issueNumber,
  issueUrl,
  reporter,
  ...row
}: ReportRow): StoredReport => ({
  ...row,
  reporter: toReporter(reporter),
  issue: Option.all({ number: issueNumber, url: issueUrl })
})

/** Bytes that a report counts besides its content, for its row, keys and delivery. */
const bytesBeside = 1_000

export const bytesOf = (content: string): number => Buffer.byteLength(content) + bytesBeside

/** The same of the column `content`. */
export const countedBytes = (sql: SqlClient): Fragment =>
  sql.onDialectOrElse({
    pg: () => sql`(OCTET_LENGTH(content) + ${sql.literal(String(bytesBeside))})`,
    orElse: () => sql`(LENGTH(CAST(content AS BLOB)) + ${sql.literal(String(bytesBeside))})`
  })

/** What the sums count of a report. */
export const CountedRow = Schema.Struct({
  plane: Schema.String,
  reporter: Schema.String,
  network: Schema.NullOr(Schema.String),
  bytes: Whole
})
type CountedRow = typeof CountedRow.Type

/** Whose bytes a report counts: a reporter of a plane, or a network of all planes. */
export interface Holder {
  readonly kind: "reporter" | "network"
  readonly plane: string
  readonly holder: string
}

export const holderOf = ({ network, plane, reporter }: Omit<CountedRow, "bytes">): Holder | undefined => {
  if (reporter.startsWith(verified)) return { kind: "reporter", plane, holder: reporter }
  return network === null ? undefined : { kind: "network", plane: "", holder: network }
}

/** Condition for reports without a verified reporter, in the words of their index. A removed report is one of them. */
export const isAnonymous = (sql: SqlClient): Fragment => sql`reporter IN ('anonymous', 'unverified')`

/** Condition for a report or delivery that was not removed; `subject` is the column with the report's id. */
export const isNotRemoved = (sql: SqlClient, subject: "reports.id" | "deliveries.subject"): Fragment =>
  sql`NOT EXISTS (SELECT 1 FROM report_removals WHERE report_removals.id = ${sql.literal(subject)})`

export interface Sums extends Schema.Schema.Type<typeof Sums> {}
const Sums = Schema.Struct({ all: Whole, held: Whole })

/** The bytes of all reports, and of a holder. */
export const readSums = (sql: SqlClient, holder?: Holder): Statements<Sums> =>
  Effect.map(
    all(Sums)(sql`
      SELECT COALESCE((SELECT bytes FROM report_totals WHERE id = 1), 0) AS "all",
        COALESCE((SELECT bytes FROM room_holders
          WHERE plane = ${holder?.plane ?? ""} AND holder = ${holder?.holder ?? ""}), 0) AS held`),
    ([sums = { all: 0, held: 0 }]) => sums
  )

/** Adds the rows to the sums, or with -1 subtracts them. */
export const changeSums = (sql: SqlClient, sign: 1 | -1, rows: ReadonlyArray<CountedRow>): Statements<void> =>
  Effect.gen(function* () {
    if (rows.length === 0) return
    const sum = rows.reduce((all, { bytes }) => all + bytes, 0)
    yield* run(sql`
      INSERT INTO report_totals (id, bytes) VALUES (1, ${sign * sum})
      ON CONFLICT (id) DO UPDATE SET bytes = report_totals.bytes + excluded.bytes`)
    for (const row of rows) {
      const held = holderOf(row)
      if (held === undefined) continue
      yield* run(sql`
        INSERT INTO room_holders (plane, holder, bytes) VALUES (${held.plane}, ${held.holder}, ${sign * row.bytes})
        ON CONFLICT (plane, holder) DO UPDATE SET bytes = room_holders.bytes + excluded.bytes`)
      if (sign === -1)
        yield* run(sql`
          DELETE FROM room_holders WHERE plane = ${held.plane} AND holder = ${held.holder} AND bytes <= 0`)
    }
  })
