import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import {
  ReportAdmission,
  type ReportLimit,
  type ReportRoom,
  type StoredReports
} from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { all, any, first, run, type Statements } from "../Statements.ts"
import { enqueue, prioritise } from "./DeliveryRows.ts"
import {
  bytesOf,
  changeSums,
  countedBytes,
  type Holder,
  holderOf,
  isNotRemoved,
  readSums,
  ReportRow,
  toReport,
  toText,
  verified
} from "./ReportRows.ts"
import { Whole } from "./Rows.ts"

/** With what the sums count of it. */
const Kept = Schema.Struct({ ...ReportRow.fields, network: Schema.NullOr(Schema.String), bytes: Whole })
type Kept = typeof Kept.Type

/** The row that a report of this reporter and content repeats; the reporter's own comes before one that may be theirs. */
const repeatedBy = (rows: ReadonlyArray<Kept>, reporter: string, contentDigest: string): Kept | undefined => {
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

export const makeReports = ({ read, sql, write }: Database, wakeUp: () => void): StoredReports => {
  const underKey = (plane: string, keyDigest: string) =>
    all(Kept)(sql`
      SELECT reports.*, ${countedBytes(sql)} AS bytes FROM reports
      WHERE plane = ${plane} AND key_digest = ${keyDigest} ORDER BY created_at, id`)

  /** The limit that bytes of a holder would exceed. */
  const exceeded = (room: ReportRoom, holder: Holder | undefined, bytes: number, areNew: boolean) =>
    Effect.map(readSums(sql, holder), ({ all: before, held }): ReportLimit | undefined => {
      const all = before + (areNew ? bytes : 0)
      const isNewcomer = holder?.kind === "reporter" && held === 0
      if (areNew && all > (isNewcomer ? room.withNewcomers : room.all)) return "room"
      // In a small room a single report may be more than a reporter's part: the first one needs only room.
      return holder !== undefined && !isNewcomer && all > room.unboundUpTo && held + bytes > room[holder.kind]
        ? holder.kind
        : undefined
    })

  /**
   * Names a reporter who was unverified at first, where the reporter has room: else an outage of the identity service would move any
   * number of reports to one reporter. Without `hasQuota` the report keeps its place in the order, and a later replay moves it up.
   */
  const replay = (
    { bytes, network, ...row }: Kept,
    reporter: string,
    room: ReportRoom,
    hasQuota: boolean
  ): Statements<ReportAdmission> =>
    Effect.gen(function* () {
      if (!reporter.startsWith(verified))
        return ReportAdmission.Replayed({ report: toReport(row), movedUp: false })
      const movedUp = hasQuota && (yield* prioritise(sql, { kind: "report", subject: row.id }))
      if (row.reporter === "unverified") {
        const named = { plane: row.plane, reporter, network: null, bytes }
        const limit = yield* exceeded(room, holderOf(named), bytes, false)
        const isNamed =
          limit === undefined &&
          (yield* any(sql`
            UPDATE reports SET reporter = ${reporter}, network = NULL
            WHERE id = ${row.id} AND ${isNotRemoved(sql, "reports.id")} RETURNING id`))
        if (isNamed) {
          yield* changeSums(sql, -1, [{ ...named, reporter: row.reporter, network }])
          yield* changeSums(sql, 1, [named])
        }
      }
      return ReportAdmission.Replayed({ report: toReport({ ...row, reporter }), movedUp })
    })

  /** A removed report keeps its key, but not the name of the key's owner. */
  const hasRemoved = (rows: ReadonlyArray<Kept>): Statements<boolean> => {
    const ids = rows.flatMap(({ id, reporter }) => (reporter === "unverified" ? [id] : []))
    return ids.length === 0
      ? Effect.succeed(false)
      : any(sql`SELECT 1 FROM report_removals WHERE ${sql.in("id", ids)}`)
  }

  return {
    knowsKey: ({ keyDigest, plane }) =>
      read(
        "Reports.knowsKey",
        any(sql`SELECT 1 FROM reports WHERE plane = ${plane} AND key_digest = ${keyDigest} LIMIT 1`)
      ),
    admit: (report, deliver, room = unbounded, hasQuota = true) =>
      write("reports")(
        "Reports.admit",
        Effect.gen(function* () {
          const { contentDigest, keyDigest, network: sentFrom, ...admitted } = report
          const { createdAt, id, marker, plane, requestId, source } = admitted
          const reporter = toText(report.reporter)
          const isVerified = report.reporter._tag === "Verified"
          const rows = yield* underKey(plane, keyDigest)

          const repeated = repeatedBy(rows, reporter, contentDigest)
          if (repeated !== undefined) return yield* replay(repeated, reporter, room, hasQuota)
          if (rows.some((row) => row.reporter === reporter) || (yield* hasRemoved(rows)))
            return ReportAdmission.Conflict()
          if (!hasQuota) return ReportAdmission.Full({ limit: "room" })

          const content = JSON.stringify(report.content)
          const network = isVerified ? null : (sentFrom ?? null)
          const counted = { plane, reporter, network, bytes: bytesOf(content) }
          const limit = yield* exceeded(room, holderOf(counted), counted.bytes, true)
          if (limit !== undefined) return ReportAdmission.Full({ limit })
          yield* run(sql`
            INSERT INTO reports
              (id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker, network)
            VALUES
              (${id}, ${plane}, ${keyDigest}, ${contentDigest}, ${reporter}, ${content}, ${source}, ${requestId},
               ${createdAt}, ${marker}, ${network})`)
          yield* changeSums(sql, 1, [counted])
          if (deliver)
            yield* enqueue(sql, {
              kind: "report",
              subject: id,
              createdAt,
              priority: isVerified ? "first" : "usual"
            })
          return ReportAdmission.Stored({ report: { ...admitted, issue: Option.none() } })
        }),
        (admission) => {
          if (admission._tag === "Replayed" ? admission.movedUp : deliver && admission._tag === "Stored")
            wakeUp()
        }
      ),
    find: (id) =>
      Effect.map(
        read("Reports.find", first(ReportRow)(sql`SELECT * FROM reports WHERE id = ${id}`)),
        Option.map(toReport)
      ),
    storedBytes: Effect.map(read("Reports.storedBytes", readSums(sql)), ({ all }) => all)
  }
}
