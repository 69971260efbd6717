import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import {
  Anonymous,
  ReportAdmission,
  type ReportLimit,
  type Reporter,
  type ReportRoom,
  type StoredReports,
  type StoredReport,
  Unverified,
  Verified
} from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { prioritise, enqueue } from "./DeliveryRows.ts"
import { all, any, first, lock, run, type Steps } from "../Query.ts"
import { isNotRemoved } from "./ReportRemoval.ts"
import { bytesOf, countedBytes, type Holder, holderOf, makeReportSums, verified } from "./ReportSums.ts"
import { OptionalText, OptionalWhole, Whole } from "./Rows.ts"

/** Any other text counts as unverified: then every public id is removed from the issue. */
const toReporter = (text: string): Reporter => {
  if (text === "anonymous") return Anonymous()
  return text.startsWith(verified) ? Verified({ publicId: text.slice(verified.length) }) : Unverified()
}

const toText = (reporter: Reporter): string => {
  switch (reporter._tag) {
    case "Anonymous":
      return "anonymous"
    case "Unverified":
      return "unverified"
    case "Verified":
      return `${verified}${reporter.publicId}`
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
  contentDigest: Schema.String,
  reporter: Schema.String,
  content: Content,
  source: Schema.String,
  requestId: Schema.String,
  createdAt: Whole,
  marker: Schema.String,
  issueNumber: OptionalWhole,
  issueUrl: OptionalText
})
type Row = typeof Row.Type

/** With what the sums count of it. */
const Kept = Schema.Struct({ ...Row.fields, network: Schema.NullOr(Schema.String), bytes: Whole })
type Kept = typeof Kept.Type

const toReport = ({ contentDigest: _, issueNumber, issueUrl, reporter, ...row }: Row): StoredReport => ({
  ...row,
  reporter: toReporter(reporter),
  issue: Option.all({ number: issueNumber, url: issueUrl })
})

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

export const makeReports = ({ sql, read, write }: Database, wakeUp: () => void): StoredReports => {
  const sums = makeReportSums(sql)

  const underKey = (plane: string, keyDigest: string) =>
    all(Kept)(sql`
      SELECT reports.*, ${countedBytes(sql)} AS bytes FROM reports
      WHERE plane = ${plane} AND key_digest = ${keyDigest} ORDER BY created_at, id`)

  /** The limit that bytes of a holder would exceed. One at a time: two concurrent reports would use the same room. */
  function* exceeded(
    room: ReportRoom,
    holder: Holder | undefined,
    bytes: number,
    areNew: boolean
  ): Steps<ReportLimit | undefined> {
    yield* lock("reports")
    const { all: before, held } = yield* sums.allAndHeld(holder)
    const all = before + (areNew ? bytes : 0)
    const isNewcomer = holder?.kind === "reporter" && held === 0
    if (areNew && all > (isNewcomer ? room.withNewcomers : room.all)) return "room"
    // In a small room a single report may be more than a reporter's part: the first one needs only room.
    return holder !== undefined && !isNewcomer && all > room.unboundUpTo && held + bytes > room[holder.kind]
      ? holder.kind
      : undefined
  }

  /**
   * Names a reporter who was unverified at first, where the reporter has room: else an outage of the identity service would move any
   * number of reports to one reporter. Without `hasQuota` the report keeps its place in the order, and a later replay moves it up.
   * Delivery before report: the worker locks them in the same order.
   */
  function* replay(
    { bytes, network, ...row }: Kept,
    reporter: string,
    room: ReportRoom,
    hasQuota: boolean
  ): Steps<ReportAdmission> {
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
        yield* sums.subtract([{ ...named, reporter: row.reporter, network }])
        yield* sums.add([named])
      }
    }
    return ReportAdmission.Replayed({ report: toReport({ ...row, reporter }), movedUp })
  }

  /** A removed report keeps its key, but not the name of the key's owner. */
  function* hasRemoved(rows: ReadonlyArray<Row>): Steps<boolean> {
    const ids = rows.flatMap(({ id, reporter }) => (reporter === "unverified" ? [id] : []))
    return ids.length > 0 && (yield* any(sql`SELECT 1 FROM report_removals WHERE ${sql.in("id", ids)}`))
  }

  return {
    knowsKey: ({ keyDigest, plane }) =>
      read(
        "Reports.knowsKey",
        any(sql`SELECT 1 FROM reports WHERE plane = ${plane} AND key_digest = ${keyDigest} LIMIT 1`)
      ),
    admit: (report, deliver, room = unbounded, hasQuota = true) =>
      write(
        "Reports.admit",
        function* () {
          yield* lock(`reports ${report.plane} ${report.keyDigest}`)
          const reporter = toText(report.reporter)
          const rows = yield* underKey(report.plane, report.keyDigest)

          const repeated = repeatedBy(rows, reporter, report.contentDigest)
          if (repeated !== undefined) return yield* replay(repeated, reporter, room, hasQuota)
          if (rows.some((row) => row.reporter === reporter) || (yield* hasRemoved(rows)))
            return ReportAdmission.Conflict()
          if (!hasQuota) return ReportAdmission.Full({ limit: "room" })

          const content = JSON.stringify(report.content)
          const { plane } = report
          const network = reporter.startsWith(verified) ? null : (report.network ?? null)
          const counted = { plane, reporter, network, bytes: bytesOf(content) }
          const limit = yield* exceeded(room, holderOf(counted), counted.bytes, true)
          if (limit !== undefined) return ReportAdmission.Full({ limit })
          yield* run(sql`
            INSERT INTO reports
              (id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker, network)
            VALUES
              (${report.id}, ${report.plane}, ${report.keyDigest}, ${report.contentDigest}, ${reporter},
               ${content}, ${report.source}, ${report.requestId}, ${report.createdAt},
               ${report.marker}, ${network})`)
          yield* sums.add([counted])
          if (deliver) {
            yield* enqueue(sql, {
              kind: "report",
              subject: report.id,
              createdAt: report.createdAt,
              priority: report.reporter._tag === "Verified" ? "first" : "usual"
            })
          }
          const { contentDigest: _, keyDigest: __, network: ___, ...admitted } = report
          return ReportAdmission.Stored({ report: { ...admitted, issue: Option.none() } })
        },
        (admission) => {
          if (admission._tag === "Replayed" ? admission.movedUp : deliver && admission._tag === "Stored")
            wakeUp()
        }
      ),
    find: (id) =>
      read("Reports.find", first(Row)(sql`SELECT * FROM reports WHERE id = ${id}`).map(Option.map(toReport))),
    storedBytes: read("Reports.storedBytes", sums.all)
  }
}

export { Row as ReportRow, toReport }
