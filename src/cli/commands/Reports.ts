import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { productionId } from "../../services/Plane.ts"
import { deliveryStates } from "../../services/Store.ts"
import {
  OperatorQueries,
  type OperatorQueriesService,
  type ReportRecord
} from "../../services/store/OperatorQueries.ts"
import { list, onDatabase, readAll } from "../DatabaseAccess.ts"
import { formatTime, Host, group, misuse, printJson, printRecord, refuse, toJson } from "../Host.ts"
import { argument, choice, flag, json, page, plane, reason, reporter, since } from "../Options.ts"
import { delivery, report, wholeReport } from "../Records.ts"
import { findDelivery, resumeTracker, retryById } from "./Deliveries.ts"

const id = argument("id", "the report's id, rep_…")

const filters = {
  filed: choice("status", ["stored", "filed"], "filed: its issue exists in the tracker").pipe(
    Options.map(Option.map((status) => status === "filed"))
  ),
  delivery: choice("delivery", deliveryStates, "state of the delivery"),
  reporter,
  plane,
  since
}

const listed = Command.make("list", { ...filters, page, json }, (given) =>
  list(report, given.json, (queries) => queries.reports(given, given.page))
).pipe(Command.withDescription("Lists reports, newest first"))

/** The report, or the reason why it is not there. */
const find = (reportId: string) =>
  Effect.gen(function* () {
    const queries = yield* OperatorQueries
    const found = yield* queries.report(reportId)
    if (Option.isSome(found)) return found.value
    return yield* refuse(`no report ${reportId}`, "find it with music-backend reports list")
  })

const show = Command.make("show", { id, json }, (given) =>
  find(given.id).pipe(
    Effect.flatMap((found) => printRecord(toJson(wholeReport, found), given.json)),
    onDatabase
  )
).pipe(Command.withDescription("Shows a report with its content"))

const retry = Command.make("retry", { id, json }, (given) =>
  Effect.gen(function* () {
    const { report: stored } = yield* find(given.id)
    if (stored.plane !== productionId)
      return yield* refuse(`${stored.id} is of a testing plane and is never filed`, "choose another report")
    const created = yield* (yield* OperatorQueries).enqueue(stored.id, yield* Clock.currentTimeMillis)
    const retried = yield* created ? findDelivery(`report:${stored.id}`) : retryById(`report:${stored.id}`)
    yield* resumeTracker
    yield* printRecord(toJson(delivery, retried), given.json)
  }).pipe(onDatabase)
).pipe(Command.withDescription("Delivers a report now, also one that was stored before a tracker was set"))

/** A page at a time, so that any number of reports needs little memory: one may have half a megabyte of attachments. */
const exported = Command.make("export", filters, (given) =>
  readAll(20, (queries, request) => queries.reports(given, request)).pipe(
    Stream.tap((found) => printJson(toJson(wholeReport, found), 0)),
    Stream.runCount,
    Effect.flatMap((count) => Effect.flatMap(Host, ({ err }) => err(`Reports written: ${count}`))),
    onDatabase
  )
).pipe(Command.withDescription("Writes complete reports, one JSON object a line, newest first"))

/** What an operator still has to delete in the tracker. */
const remainderOf = (
  before: ReportRecord,
  { delivery: sent, report: stored }: ReportRecord
): string | null => {
  const inDoubt = Option.exists(
    before.delivery,
    ({ state }) => !["waiting", "failed", "discarded"].includes(state)
  )
  const attempts = Option.match(sent, { onNone: () => 0, onSome: (one) => one.attempts })
  const search = `search the tracker for ${stored.id}-${stored.marker}`
  const issue = Option.getOrNull(stored.issue)
  if (issue === null)
    return inDoubt || attempts > 0 ? `perhaps an issue: ${search}, and delete it there` : null
  // Each send may have made an issue. The search for duplicates closes what the list shows later, and deletes nothing.
  return attempts > 1
    ? `the issue ${issue.url}, and perhaps others: ${search}, and delete them there`
    : `the issue ${issue.url}: delete it in the tracker`
}

/** A transaction for each report, so that a running server waits for none of them, and a command that was killed can be repeated. */
const removeSelected = (
  selection: Parameters<OperatorQueriesService["reports"]>[0],
  { dryRun, json: asJson, why }: { readonly dryRun: boolean; readonly json: boolean; readonly why: string }
) =>
  Effect.gen(function* () {
    const queries = yield* OperatorQueries
    const being_filed: Array<string> = []
    const remains: Array<{ readonly id: string; readonly remains: string }> = []
    const sums = { reports: 0, bytes: 0 }
    const countOne = ({ report: { bytes } }: ReportRecord) =>
      Effect.sync(() => {
        sums.reports += 1
        sums.bytes += bytes
      })
    const removeOne = (before: ReportRecord) =>
      Effect.gen(function* () {
        const reportId = before.report.id
        const outcome = yield* queries.removeReport(reportId, why, yield* Clock.currentTimeMillis)
        if (outcome === "being filed") being_filed.push(reportId)
        if (outcome !== "removed") return
        yield* countOne(before)
        // It may have been sent, which after a restore only the state before the removal shows, or sent and filed since.
        const after = Option.getOrNull(yield* queries.report(reportId))
        const left = after === null ? null : remainderOf(before, after)
        if (left !== null) remains.push({ id: reportId, remains: left })
      })
    // What was removed is shown, and erased from the log, also when the command fails or is interrupted: a repetition passes over it.
    const ran = yield* readAll(20, (_, request) => queries.reports(selection, request)).pipe(
      Stream.runForEach(dryRun ? countOne : removeOne),
      Effect.interruptible,
      Effect.exit
    )
    if (!dryRun) yield* queries.eraseRemoved
    yield* printRecord({ dry_run: dryRun, ...sums, being_filed, remains }, asJson)
    yield* ran
    if (being_filed.length > 0)
      return yield* refuse(
        `not removed, because at this moment they are being filed: ${being_filed.join(", ")}`,
        "run the command again in a minute"
      )
  }).pipe(Effect.uninterruptible)

const selecting = {
  id: Args.optional(id),
  anonymous: flag("anonymous", "instead of an id: reports without a verified reporter"),
  reporter,
  since,
  dryRun: flag("dry-run", "counts what is selected, and changes nothing"),
  reason: Options.optional(reason("kept with each report's id and the time; without personal data")),
  json
}

const remove = Command.make("remove", selecting, (given) =>
  Effect.gen(function* () {
    const filtered = given.anonymous || Option.isSome(given.reporter) || Option.isSome(given.since)
    if (Option.isSome(given.id) === filtered)
      return yield* misuse("either an id or a filter is required: --anonymous, --reporter or --since")
    if (!given.dryRun && Option.isNone(given.reason)) return yield* misuse("--reason is missing")
    if (Option.isSome(given.id)) {
      const { removal } = (yield* find(given.id.value)).report
      if (Option.isSome(removal)) {
        const { at, reason: earlier } = removal.value
        return yield* refuse(
          `${given.id.value} was removed at ${formatTime(at)}: ${earlier}`,
          "its content is gone"
        )
      }
    }
    const { dryRun, id: reportId, json: asJson, reporter: of, since: from } = given
    const selection = { id: reportId, reporter: of, since: from, removable: Option.some(true) }
    const why = Option.getOrElse(given.reason, () => "")
    yield* removeSelected(
      { ...selection, anonymous: Option.some(given.anonymous) },
      { dryRun, json: asJson, why }
    )
  }).pipe(onDatabase)
).pipe(Command.withDescription("Deletes content and reporter of what is selected; keeps id, time and reason"))

export const reports = group("reports", "Bug reports: list, show, export, retry, remove").pipe(
  Command.withSubcommands([listed, show, exported, retry, remove])
)
