import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { PlaneId } from "../Plane.ts"
import type { Database } from "./Database.ts"
import { enqueue } from "./Deliveries.ts"
import {
  bytesOf,
  changeSums,
  holderOf,
  readSums,
  ReportRow,
  type StoredReport,
  type Sums,
  toReport,
  toText,
  verified
} from "./ReportRows.ts"
import { OptionalText, OptionalWhole, values, Whole } from "./Rows.ts"
import { all, any, first, run, together } from "./Statements.ts"

/** The bound that a new report would exceed: of all reports, or of its reporter or network. */
export type ReportLimit = "room" | "reporter" | "network"

/**
 * Bounds of stored bytes. Those of one reporter and of one network bind where all reports together, with the new one, take more than
 * `unboundUpTo`; a reporter who has none stored may store one of any size.
 */
export interface ReportRoom {
  readonly unboundUpTo: number
  readonly reporter: number
  readonly network: number
  readonly all: number
  /** All reports together, for a verified reporter who has none stored. */
  readonly withNewcomers: number
}

export interface NewReport extends Omit<StoredReport, "issue" | "removal" | "bytes"> {
  readonly plane: PlaneId
  readonly keyDigest: string
  readonly contentDigest: string
  /** Counts a report without a verified reporter; without it that counts in none. */
  readonly network?: string | undefined
}

/** Without the content, which a repetition need not read. */
const KnownRow = Schema.Struct({
  id: Schema.String,
  reporter: Schema.String,
  contentDigest: Schema.String,
  createdAt: Whole,
  issueUrl: OptionalText,
  removedAt: OptionalWhole
})
type KnownRow = typeof KnownRow.Type

export type ReportAdmission = Data.TaggedEnum<{
  Stored: object
  Replayed: { readonly report: Pick<KnownRow, "id" | "createdAt" | "issueUrl"> }
  /** The same reporter used the key for other content, or an operator removed the report under it. */
  Conflict: object
  /** The report is new, and there is no room or no quota for it; without quota `limit` has no meaning. */
  Full: { readonly limit: ReportLimit }
}>
export const ReportAdmission = Data.taggedEnum<ReportAdmission>()

/** The row that a report of this reporter and content repeats; the reporter's own comes before an unverified or removed one, which may be theirs. */
const repeatedBy = (
  rows: ReadonlyArray<KnownRow>,
  reporter: string,
  contentDigest: string
): KnownRow | undefined => {
  const same = rows.filter((row) => row.contentDigest === contentDigest)
  return (
    same.find((row) => row.reporter === reporter) ??
    same.find((row) => [row.reporter, reporter].includes("unverified") || Option.isSome(row.removedAt))
  )
}

/** The limit that the bytes of a new report would exceed. */
const exceeded = (
  { all: stored, held }: Sums,
  room: ReportRoom,
  { bytes, holder, isVerified }: { bytes: number; holder: string | null; isVerified: boolean }
): ReportLimit | undefined => {
  const total = stored + bytes
  const isNewcomer = isVerified && held === 0
  if (total > (isNewcomer ? room.withNewcomers : room.all)) return "room"
  const kind = isVerified ? "reporter" : "network"
  // In a small room a single report may be more than a reporter's part: the first one needs only room.
  return holder !== null && !isNewcomer && total > room.unboundUpTo && held + bytes > room[kind]
    ? kind
    : undefined
}

export const makeReports = ({ read, sql, write }: Database, wakeUp: () => void) => ({
  /** Whether a report was stored under this key, of whatever reporter and content. */
  knowsKey: ({ keyDigest, plane }: Pick<NewReport, "plane" | "keyDigest">) =>
    any(sql`SELECT 1 FROM reports WHERE plane = ${plane} AND key_digest = ${keyDigest} LIMIT 1`).pipe(
      read("Reports.knowsKey")
    ),

  /**
   * Stores a report, or finds the one that the same key stored (api.md, reports): it replays when the content is equal and the reporters
   * are equal or either is unverified. With `deliver`, the delivery is enqueued in the same transaction. A new report beyond `room` is
   * refused, and without `hasQuota` any new one. `content` is read only of a report that is new and has quota.
   */
  admit: (report: NewReport, deliver: boolean, room?: ReportRoom, hasQuota = true) =>
    Effect.gen(function* () {
      const { contentDigest, createdAt, id, keyDigest, marker, plane, requestId, source } = report
      const { network = null } = report
      const reporter = toText(report.reporter)
      const isVerified = reporter.startsWith(verified)
      const holder = holderOf(plane, reporter, network)
      const underKey = all(KnownRow)(sql`
        SELECT id, reporter, content_digest, created_at, issue_url, removed_at FROM reports
        WHERE plane = ${plane} AND key_digest = ${keyDigest} ORDER BY created_at, id`)
      const [rows, sums] = yield* together(sql, [underKey, readSums(sql, holder)])

      const repeated = repeatedBy(rows, reporter, contentDigest)
      if (repeated !== undefined) return ReportAdmission.Replayed({ report: repeated })
      if (rows.some((row) => row.reporter === reporter || Option.isSome(row.removedAt)))
        return ReportAdmission.Conflict()
      if (!hasQuota) return ReportAdmission.Full({ limit: "room" })

      const content = JSON.stringify(report.content)
      const bytes = bytesOf(content)
      const limit = room && exceeded(sums, room, { bytes, holder, isVerified })
      if (limit !== undefined) return ReportAdmission.Full({ limit })
      const keyed = { id, plane, keyDigest, contentDigest, reporter }
      const row = { ...keyed, content, source, requestId, createdAt, marker, holder, bytes }
      yield* run(sql`INSERT INTO reports ${values(sql, row)}`)
      yield* changeSums(sql, 1, [{ holder, bytes }])
      if (deliver) yield* enqueue(sql, "report", id, { createdAt, priority: isVerified ? "first" : "usual" })
      return ReportAdmission.Stored()
    }).pipe(
      write("reports", "Reports.admit", ({ _tag }) => {
        if (deliver && _tag === "Stored") wakeUp()
      })
    ),

  find: (id: string) =>
    first(ReportRow)(sql`SELECT * FROM reports WHERE id = ${id}`).pipe(
      read("Reports.find"),
      Effect.map(Option.map(toReport))
    ),

  /** Bytes of all stored reports, as their bound counts them: the content, and 1,000 each for the rest of the record. */
  storedBytes: readSums(sql, null).pipe(
    read("Reports.storedBytes"),
    Effect.map(({ all }) => all)
  )
})

export type StoredReports = ReturnType<typeof makeReports>
