import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { productionId } from "../../services/Plane.ts"
import { deliveryStates, Store } from "../../services/Store.ts"
import {
  OperatorQueries,
  type ReportRecord,
  type ReportSelection,
  type ReportSize
} from "../../services/store/OperatorQueries.ts"
import type { Removal } from "../../services/store/ReportRemoval.ts"
import { list, onDatabase, readAll } from "../DatabaseAccess.ts"
import { Host, misuse, refuse } from "../Host.ts"
import { argument, choice, flag, json, page, plane, reporter, since, text } from "../Options.ts"
import { formatCount, formatTime, printJson, printRecord, toJson } from "../Output.ts"
import { delivery, report, wholeReport } from "../Records.ts"
import { findChanged, resumeTracker } from "./Deliveries.ts"

const id = argument("id", "the report's id, rep_…")

const filters = {
  filed: Options.choiceWithValue("status", [
    ["stored", false],
    ["filed", true]
  ]).pipe(Options.withDescription("filed: its issue exists in the tracker"), Options.optional),
  delivery: choice("delivery", deliveryStates, "state of the delivery"),
  reporter,
  plane,
  since
}

const listed = Command.make("list", { ...filters, page, json }, (given) =>
  list(report, given.json, (queries) => queries.reports(given, given.page))
).pipe(Command.withDescription("Lists reports, newest first"))

const missing = (reportId: string) =>
  refuse(`no report ${reportId}`, "find it with music-backend reports list")

const removedBefore = ({ id: reportId, reason, removedAt }: Removal) =>
  refuse(
    `${reportId} was removed at ${formatTime(removedAt)}: ${reason}`,
    "its content is not stored any more"
  )

/** The report, or the reason why it is not there. */
const find = (reportId: string) =>
  Effect.gen(function* () {
    const queries = yield* OperatorQueries
    const found = yield* queries.report(reportId)
    if (Option.isSome(found)) return found.value
    const [removal] = yield* queries.removals([reportId])
    return yield* removal === undefined ? missing(reportId) : removedBefore(removal)
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
      return yield* refuse(
        `${stored.id} belongs to a testing plane and is never filed`,
        "choose another report"
      )
    const now = yield* Clock.currentTimeMillis
    const deliveryId = `report:${stored.id}`
    const queries = yield* OperatorQueries
    const { deliveries } = yield* Store
    const done = (yield* queries.enqueue(stored.id, now)) || (yield* deliveries.retry(deliveryId, now))
    const retried = yield* findChanged(deliveryId, done, "retry")
    yield* resumeTracker
    yield* printRecord(toJson(delivery(), retried), given.json)
  }).pipe(onDatabase)
).pipe(
  Command.withDescription("Delivers a report again, now; also one that was stored before a tracker was set")
)

/** A page at a time, so that any number of reports needs little memory: one may have half a megabyte of attachments. */
const exported = Command.make("export", filters, (given) =>
  readAll(20, (queries, request) => queries.reports(given, request)).pipe(
    Stream.tap((found) => printJson(toJson(wholeReport, found), 0)),
    Stream.runCount,
    Effect.flatMap((count) =>
      Effect.flatMap(Host, ({ err }) => err(`${formatCount(count, "report")} written`))
    ),
    onDatabase
  )
).pipe(Command.withDescription("Writes complete reports, one JSON object a line, newest first"))

/** What an operator still has to delete in the tracker. */
const remainderOf = (inDoubt: boolean, { delivery: sent, report: stored }: ReportRecord): string | null => {
  if (Option.isSome(stored.issue)) return `the issue ${stored.issue.value.url}: delete it in the tracker`
  return inDoubt || Option.exists(sent, ({ attempts }) => attempts > 0)
    ? `perhaps an issue: search the tracker for ${stored.id}-${stored.marker}, and delete it there`
    : null
}

/**
 * A report may have been sent, which after a restore only the state before the removal shows. It may have been sent and filed since,
 * which is read after the removal.
 */
const removeReport = ({ bytes, id: reportId, inDoubt }: ReportSize, why: string) =>
  Effect.gen(function* () {
    const queries = yield* OperatorQueries
    const outcome = yield* queries.removeReport(reportId, why, yield* Clock.currentTimeMillis)
    const after = yield* queries.report(reportId)
    return {
      id: reportId,
      bytes,
      result: outcome._tag,
      vacuum: outcome._tag === "Removed" ? Option.getOrNull(outcome.vacuum) : null,
      remains: Option.getOrNull(Option.map(after, (found) => remainderOf(inDoubt, found)))
    }
  })
type Tried = Effect.Effect.Success<ReturnType<typeof removeReport>>

const printRemoval = (tried: ReadonlyArray<Tried>, dryRun: boolean, asJson: boolean) => {
  const removed = tried.filter(({ result }) => result === "Removed")
  const summary = {
    dry_run: dryRun,
    reports: removed.length,
    bytes: removed.reduce((sum, { bytes }) => sum + bytes, 0),
    being_filed: tried.filter(({ result }) => result === "BeingFiled").map((one) => one.id),
    remains: removed.flatMap(({ id: of, remains }) => (remains === null ? [] : [{ id: of, remains }])),
    vacuum: removed[0]?.vacuum ?? null
  }
  return Effect.as(printRecord(summary, asJson), summary)
}

/** A transaction for each report, so that a running server waits for none of them, and a command that was killed can be repeated. */
const removeSelected = (
  selection: ReportSelection,
  given: { dryRun: boolean; json: boolean; reason: string }
) =>
  Effect.gen(function* () {
    const { eraseRemoved } = yield* OperatorQueries
    const tried: Array<Tried> = []
    // What was removed is shown, and erased from the log, also when the command fails or is interrupted: a repetition passes over it.
    const ran = yield* readAll(500, (queries, request) => queries.reportSizes(selection, request)).pipe(
      Stream.runForEach((report) =>
        Effect.map(
          given.dryRun
            ? Effect.succeed({ ...report, result: "Removed", vacuum: null, remains: null } as const)
            : removeReport(report, given.reason),
          (done) => void tried.push(done)
        )
      ),
      Effect.interruptible,
      Effect.exit
    )
    if (!given.dryRun) yield* eraseRemoved
    const { being_filed } = yield* printRemoval(tried, given.dryRun, given.json)
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
  reason: text("reason", "text", "kept with each report's id and the time; without personal data").pipe(
    Options.withDefault("")
  ),
  json
}

const remove = Command.make("remove", selecting, (given) =>
  Effect.gen(function* () {
    const filtered = given.anonymous || Option.isSome(given.reporter) || Option.isSome(given.since)
    if (Option.isSome(given.id) === filtered)
      return yield* misuse("either an id or a filter is required: --anonymous, --reporter or --since")
    if (!given.dryRun && (given.reason.trim() === "" || given.reason.length > 500))
      return yield* misuse("--reason is missing, empty or longer than 500 characters")
    if (Option.isSome(given.id)) {
      const { removal } = yield* find(given.id.value)
      if (Option.isSome(removal)) return yield* removedBefore(removal.value)
    }
    yield* removeSelected(given, given)
  }).pipe(onDatabase)
).pipe(
  Command.withDescription(
    "Deletes content and reporter of a report, or of all that the filters select; keeps id, time and reason; ends their deliveries"
  )
)

export const reports = Command.make("reports", {}, () => misuse("reports needs a command")).pipe(
  Command.withDescription("Bug reports: list, show, export, retry, remove"),
  Command.withSubcommands([listed, show, exported, retry, remove])
)
