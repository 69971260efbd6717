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
  type ReportSelection
} from "../../services/store/OperatorQueries.ts"
import type { Removal } from "../../services/store/ReportRemoval.ts"
import { list, onDatabase, readAll } from "../DatabaseAccess.ts"
import { Host, misuse, refuse } from "../Host.ts"
import { argument, choice, json, page, plane, reporter, since, text } from "../Options.ts"
import { formatCount, formatTime, printJson, printRecord, toJson } from "../Output.ts"
import { delivery, report, wholeReport } from "../Records.ts"
import { type Change, changing, selected, sumBytes } from "./Changes.ts"
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
    const note = yield* resumeTracker
    yield* printRecord(toJson(delivery(), retried), given.json)
    yield* (yield* Host).err(note)
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
 * `inDoubt`: the report may have been sent, which after a restore only the state before the removal shows. It may have been sent and
 * filed since, which is read after the removal.
 */
const removeReport = (reportId: string, inDoubt: boolean, why: string) =>
  Effect.gen(function* () {
    const queries = yield* OperatorQueries
    const outcome = yield* queries.removeReport(reportId, why, yield* Clock.currentTimeMillis)
    const after = yield* queries.report(reportId)
    return {
      result: outcome._tag,
      vacuum: outcome._tag === "Removed" ? Option.getOrNull(outcome.vacuum) : null,
      remains: Option.getOrNull(Option.map(after, (found) => remainderOf(inDoubt, found)))
    }
  })

const removeOne = (reportId: string, { json: asJson, reason: why }: Change) =>
  Effect.gen(function* () {
    // Before the removal, which ends the delivery.
    const { delivery: before } = yield* find(reportId)
    const inDoubt = Option.exists(before, ({ state }) => state !== "waiting" && state !== "failed")
    const { remains: left, result, vacuum } = yield* removeReport(reportId, inDoubt, why)
    const after = yield* find(reportId)
    if (result === "BeingFiled")
      return yield* refuse(`${reportId} is being filed now: nothing was removed`, "try again in a minute")
    if (result !== "Removed")
      return yield* Option.match(after.removal, { onNone: () => missing(reportId), onSome: removedBefore })
    const remains = left ?? "no issue: it was never sent to the tracker"
    const shown = asJson ? toJson(wholeReport, after) : { removed: reportId }
    yield* printRecord({ ...shown, remains, vacuum }, asJson)
  })

interface ReportSize {
  readonly id: string
  readonly bytes: number
}

/** A transaction for each report, so that a running server waits for none of them, and a command that was killed can be repeated. */
const removeSelected = (selection: ReportSelection, { dryRun, json: asJson, reason: why }: Change) =>
  Effect.gen(function* () {
    const counted = { result: "Removed", vacuum: null, remains: null } as const
    const tried: Array<Effect.Effect.Success<ReturnType<typeof removeReport>> & ReportSize> = []
    // What was removed is shown also when the command fails or is interrupted: a repetition passes over it.
    const ran = yield* selected(selection).pipe(
      Stream.runForEach(({ bytes, id: reportId, inDoubt }) =>
        Effect.map(dryRun ? Effect.succeed(counted) : removeReport(reportId, inDoubt, why), (done) => {
          tried.push({ ...done, id: reportId, bytes })
        })
      ),
      Effect.interruptible,
      Effect.exit
    )
    const removed = tried.filter(({ result }) => result === "Removed")
    const beingFiled = tried.filter(({ result }) => result === "BeingFiled").map((one) => one.id)
    const remains = removed.flatMap((one) =>
      one.remains === null ? [] : [{ id: one.id, remains: one.remains }]
    )
    const vacuum = removed[0]?.vacuum ?? null
    yield* printRecord(
      {
        dry_run: dryRun,
        reports: removed.length,
        bytes: sumBytes(removed),
        being_filed: beingFiled,
        remains,
        vacuum
      },
      asJson
    )
    yield* ran
    if (beingFiled.length > 0)
      return yield* refuse(
        `not removed, because at this moment they are being filed: ${beingFiled.join(", ")}`,
        "run the command again in a minute"
      )
  }).pipe(Effect.uninterruptible)

/** Erases what was removed from the log, also when the command fails or is interrupted. */
const thenErase = <A, E, R>(removal: Effect.Effect<A, E, R>) =>
  Effect.flatMap(OperatorQueries, ({ eraseRemoved }) => Effect.ensuring(removal, eraseRemoved))

const reason = text("reason", "text", "kept with each report's id and the time; without personal data")

const remove = changing(
  "remove",
  id,
  Options.withDefault(reason, ""),
  (reportId, given) => thenErase(removeOne(reportId, given)),
  (selection, given) =>
    given.dryRun ? removeSelected(selection, given) : thenErase(removeSelected(selection, given))
).pipe(
  Command.withDescription(
    "Deletes content and reporter of a report, or of all that the filters select; keeps id, time and reason; ends their deliveries"
  )
)

export const reports = Command.make("reports", {}, () => misuse("reports needs a command")).pipe(
  Command.withDescription("Bug reports: list, show, export, retry, remove"),
  Command.withSubcommands([listed, show, exported, retry, remove])
)
