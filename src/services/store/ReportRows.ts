/**
 * Rows of reports and the sums of their bytes: of all, and of each holder (`holderOf`). What changes the content or the holder of a report
 * changes the sums in its transaction.
 */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { productionId } from "../Plane.ts"
import { OptionalText, OptionalWhole, values, Whole } from "./Rows.ts"
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

export const ReportRow = Schema.Struct({
  id: Schema.String,
  plane: Schema.String,
  reporter: Schema.String,
  content: Schema.parseJson(ReportContent),
  source: Schema.String,
  requestId: Schema.String,
  createdAt: Whole,
  /** 128 random bits, hex; written into the issue as `report-ref: <id>-<marker>`. */
  marker: Schema.String,
  issueNumber: OptionalWhole,
  issueUrl: OptionalText,
  /** As the sums count them. */
  bytes: Whole,
  removedAt: OptionalWhole,
  removalReason: OptionalText
})

export const toReport = ({
  issueNumber,
  issueUrl,
  removalReason,
  removedAt,
  reporter,
  ...row
}: typeof ReportRow.Type) => ({
  ...row,
  reporter: toReporter(reporter),
  issue: Option.all({ number: issueNumber, url: issueUrl }),
  /** By an operator, who removed content and reporter. */
  removal: Option.all({ at: removedAt, reason: removalReason })
})
export interface StoredReport extends ReturnType<typeof toReport> {}

/** Bytes that a report counts besides its content, for its row, keys and delivery. */
const bytesBeside = 1_000

export const bytesOf = (content: string): number => Buffer.byteLength(content) + bytesBeside

/** Who has the bytes: a verified reporter, all testing planes together, or a network, as its digest. */
export const holderOf = (plane: string, reporter: string, network: string | null): string | null => {
  if (plane !== productionId) return "testing"
  return reporter.startsWith(verified) ? `${plane} ${reporter}` : network
}

/** Condition for reports without a verified reporter, in the words of their index; also for removed ones. */
export const isAnonymous = (sql: SqlClient): Fragment => sql`reporter IN ('anonymous', 'unverified')`

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

/** What the sums count of a row. */
export const CountedRow = Schema.Struct({ holder: Schema.NullOr(Schema.String), bytes: Whole })

/** Adds rows to the sums with the sign 1, or takes them away with -1. */
export const changeSums = (
  sql: SqlClient,
  sign: 1 | -1,
  rows: ReadonlyArray<typeof CountedRow.Type>
): Statements<void> =>
  Effect.gen(function* () {
    const sums = new Map<string, number>()
    for (const { bytes, holder } of rows)
      for (const one of holder === null ? [everyone] : [everyone, holder])
        sums.set(one, (sums.get(one) ?? 0) + sign * bytes)
    if (sums.size === 0) return
    yield* run(sql`
      INSERT INTO report_sums ${values(sql, ...Array.from(sums, ([holder, bytes]) => ({ holder, bytes })))}
      ON CONFLICT (holder) DO UPDATE SET bytes = report_sums.bytes + excluded.bytes`)
    if (sign < 0)
      yield* run(sql`DELETE FROM report_sums WHERE bytes <= 0 AND ${sql.in("holder", [...sums.keys()])}`)
  })
