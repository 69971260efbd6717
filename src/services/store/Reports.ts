import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { PlaneId } from "../Plane.ts"
import type { Database } from "./Database.ts"
import { enqueue, prioritise } from "./Deliveries.ts"
import {
  bytesOf,
  changeSums,
  holderOf,
  isNotRemoved,
  isReporter,
  readSums,
  ReportRow,
  type StoredReport,
  type Sums,
  toReport,
  toText,
  verified
} from "./ReportRows.ts"
import { all, any, first, run, type Statements, together } from "./Statements.ts"

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

export type ReportAdmission = Data.TaggedEnum<{
  Stored: { readonly report: StoredReport }
  /** With `movedUp` its delivery got priority by this call. */
  Replayed: { readonly report: StoredReport; readonly movedUp: boolean }
  /** The same reporter used the key for other content. */
  Conflict: object
  /** The report is new, and there is no room or no quota for it; without quota `limit` has no meaning. */
  Full: { readonly limit: ReportLimit }
}>
export const ReportAdmission = Data.taggedEnum<ReportAdmission>()

/** The row that a report of this reporter and content repeats; the reporter's own comes before one that may be theirs. */
const repeatedBy = (
  rows: ReadonlyArray<ReportRow>,
  reporter: string,
  contentDigest: string
): ReportRow | undefined => {
  const same = rows.filter((row) => row.contentDigest === contentDigest)
  const possible = same.filter((row) => row.reporter === "unverified" || reporter === "unverified")
  return (
    same.find((row) => row.reporter === reporter) ??
    possible.find((row) => row.reporter !== "anonymous") ??
    possible[0]
  )
}

const unbounded: ReportRoom = {
  unboundUpTo: Number.POSITIVE_INFINITY,
  reporter: Number.POSITIVE_INFINITY,
  network: Number.POSITIVE_INFINITY,
  all: Number.POSITIVE_INFINITY,
  withNewcomers: Number.POSITIVE_INFINITY
}

/** The limit that bytes of a holder would exceed. */
const exceeded = (
  { all: before, held }: Sums,
  room: ReportRoom,
  holder: string | null,
  bytes: number,
  areNew: boolean
): ReportLimit | undefined => {
  const all = before + (areNew ? bytes : 0)
  const kind = holder !== null && isReporter(holder) ? "reporter" : "network"
  const isNewcomer = kind === "reporter" && held === 0
  if (areNew && all > (isNewcomer ? room.withNewcomers : room.all)) return "room"
  // In a small room a single report may be more than a reporter's part: the first one needs only room.
  return holder !== null && !isNewcomer && all > room.unboundUpTo && held + bytes > room[kind]
    ? kind
    : undefined
}

export const makeReports = ({ read, sql, write }: Database, wakeUp: () => void) => {
  const underKey = (plane: string, keyDigest: string) =>
    all(ReportRow)(sql`
      SELECT * FROM reports
      WHERE plane = ${plane} AND key_digest = ${keyDigest} ORDER BY created_at, id`)

  /**
   * Names a reporter who was unverified at first, where the reporter has room: else an outage of the identity service would move any
   * number of reports to one reporter. Without `hasQuota` the report keeps its place in the order, and a later replay moves it up.
   */
  const replay = (
    row: ReportRow,
    reporter: string,
    room: ReportRoom,
    hasQuota: boolean
  ): Statements<ReportAdmission> =>
    Effect.gen(function* () {
      if (!reporter.startsWith(verified))
        return ReportAdmission.Replayed({ report: toReport(row), movedUp: false })
      const movedUp = hasQuota && (yield* prioritise(sql, { kind: "report", subject: row.id }))
      if (row.reporter === "unverified") {
        const { bytes, id, plane } = row
        const holder = holderOf(plane, reporter, null)
        const limit = exceeded(yield* readSums(sql, holder), room, holder, bytes, false)
        const isNamed =
          limit === undefined &&
          (yield* any(sql`
            UPDATE reports SET reporter = ${reporter}, holder = ${holder}
            WHERE id = ${id} AND ${isNotRemoved(sql, "reports.id")} RETURNING id`))
        if (isNamed)
          yield* changeSums(sql, [
            { ...row, bytes: -bytes },
            { holder, bytes }
          ])
      }
      return ReportAdmission.Replayed({ report: toReport({ ...row, reporter }), movedUp })
    })

  /** A removed report keeps its key, but not the name of the key's owner. */
  const hasRemoved = (rows: ReadonlyArray<ReportRow>): Statements<boolean> => {
    const ids = rows.flatMap(({ id, reporter }) => (reporter === "unverified" ? [id] : []))
    return ids.length === 0
      ? Effect.succeed(false)
      : any(sql`SELECT 1 FROM report_removals WHERE ${sql.in("id", ids)}`)
  }

  return {
    /** Whether a report was stored under this key, of whatever reporter and content. */
    knowsKey: ({ keyDigest, plane }: { readonly plane: PlaneId; readonly keyDigest: string }) =>
      read(
        "Reports.knowsKey",
        any(sql`SELECT 1 FROM reports WHERE plane = ${plane} AND key_digest = ${keyDigest} LIMIT 1`)
      ),
    /**
     * Stores a report, or finds the one that the same key stored (api.md, reports). It replays when the content is equal
     * and the reporters are equal or either is unverified; the row then takes the verified name, and its waiting delivery
     * gets priority. With `deliver`, the delivery is enqueued in the same transaction. A new report beyond `room` is refused,
     * and a replay that would bring its reporter beyond it leaves the report unnamed. Without `hasQuota` a new report is
     * refused, and a replay gives no priority. `network` counts reports without a verified reporter; without it they count in none.
     * `content` is read only of a report that is new and has quota.
     */
    admit: (
      report: Omit<StoredReport, "issue"> & {
        readonly keyDigest: string
        readonly contentDigest: string
        readonly network?: string | undefined
      },
      deliver: boolean,
      room: ReportRoom = unbounded,
      hasQuota = true
    ) =>
      write("reports")(
        "Reports.admit",
        Effect.gen(function* () {
          const { contentDigest, createdAt, id, keyDigest, marker, plane, requestId, source } = report
          const { network = null } = report
          const reporter = toText(report.reporter)
          const holder = holderOf(plane, reporter, network)
          const [rows, sums] = yield* together(sql, [underKey(plane, keyDigest), readSums(sql, holder)])

          const repeated = repeatedBy(rows, reporter, contentDigest)
          if (repeated !== undefined) return yield* replay(repeated, reporter, room, hasQuota)
          if (rows.some((row) => row.reporter === reporter) || (yield* hasRemoved(rows)))
            return ReportAdmission.Conflict()
          if (!hasQuota) return ReportAdmission.Full({ limit: "room" })

          const given = report.content
          const content = JSON.stringify(given)
          const bytes = bytesOf(content)
          const limit = exceeded(sums, room, holder, bytes, true)
          if (limit !== undefined) return ReportAdmission.Full({ limit })
          yield* run(sql`
            INSERT INTO reports
              (id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker, holder,
               bytes)
            VALUES
              (${id}, ${plane}, ${keyDigest}, ${contentDigest}, ${reporter}, ${content}, ${source}, ${requestId},
               ${createdAt}, ${marker}, ${holder}, ${bytes})`)
          yield* changeSums(sql, [{ holder, bytes }])
          if (deliver)
            yield* enqueue(sql, {
              kind: "report",
              subject: id,
              createdAt,
              priority: reporter.startsWith(verified) ? "first" : "usual"
            })
          const stored = { id, plane, reporter: report.reporter, content: given, source, requestId }
          return ReportAdmission.Stored({ report: { ...stored, createdAt, marker, issue: Option.none() } })
        }),
        (admission) => {
          if (admission._tag === "Replayed" ? admission.movedUp : deliver && admission._tag === "Stored")
            wakeUp()
        }
      ),
    find: (id: string) =>
      Effect.map(
        read("Reports.find", first(ReportRow)(sql`SELECT * FROM reports WHERE id = ${id}`)),
        Option.map(toReport)
      ),
    /** Bytes of all stored reports, as their bound counts them: the content, and 1,000 each for the rest of the record. */
    storedBytes: Effect.map(read("Reports.storedBytes", readSums(sql, null)), ({ all }) => all)
  }
}

export type StoredReports = ReturnType<typeof makeReports>
