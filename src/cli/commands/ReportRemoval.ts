import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { OperatorQueries, type ReportRecord, type ReportSelection } from "../../services/OperatorQueries.ts"
import { notFound, usage } from "../CommandFailed.ts"
import { onDatabase } from "../DatabaseAccess.ts"
import { json } from "../Flags.ts"
import { toWholeReportJson } from "../JsonOutput.ts"
import { printFacts, printJson } from "../Screen.ts"
import { found, id, missing, removedBefore } from "./FoundReport.ts"
import { changeEach, readChoice, selectionOptions, sizeText } from "./ReportSelection.ts"

const reason = Options.text("reason").pipe(
  Options.withDescription(
    "the reason, kept with each report's id and the time; required, without personal data"
  ),
  Options.withDefault("")
)

/**
 * What an operator still has to delete elsewhere. Only before the removal, the state shows a report whose outcome a restore made
 * unknown (`inDoubt`); it may have been sent and filed since, which is read after the removal.
 */
const remainderOf = (inDoubt: boolean, { delivery, report }: ReportRecord): Option.Option<string> => {
  if (Option.isSome(report.issue))
    return Option.some(`the issue ${report.issue.value.url}: delete it in the tracker`)
  return inDoubt || Option.exists(delivery, ({ attempts }) => attempts > 0)
    ? Option.some(
        `perhaps an issue: search the tracker for ${report.id}-${report.marker}, and delete it there`
      )
    : Option.none()
}

const noRemainder = () => "no issue: it was never sent to the tracker"

const copies = (vacuum: Option.Option<string>) =>
  [
    [
      "files",
      Option.getOrUndefined(
        Option.map(
          vacuum,
          (statement) =>
            `the database's files hold the old row until you run in it, at a quiet time: ${statement}`
        )
      )
    ],
    ["backups", "those from before hold it until they are deleted"]
  ] as const

const removeOne = (reportId: string, given: { readonly reason: string; readonly json: boolean }) =>
  Effect.gen(function* () {
    // Before the removal, which ends the delivery.
    const before = yield* found(reportId)
    const queries = yield* OperatorQueries
    const outcome = yield* queries.removeReport(reportId, given.reason, yield* Clock.currentTimeMillis)
    const after = yield* found(reportId)
    switch (outcome._tag) {
      case "Missing":
        return yield* missing(reportId)
      case "RemovedBefore":
        return yield* Option.match(after.removal, { onNone: () => missing(reportId), onSome: removedBefore })
      case "BeingFiled":
        return yield* notFound(
          `${reportId} is being filed at this moment: nothing was removed`,
          "try again in a minute"
        )
      case "Removed": {
        const inDoubt = Option.exists(
          before.delivery,
          ({ state }) => state !== "waiting" && state !== "failed"
        )
        const remains = Option.getOrElse(remainderOf(inDoubt, after), noRemainder)
        if (given.json)
          return yield* printJson({
            ...toWholeReportJson(after),
            remains,
            vacuum: Option.getOrNull(outcome.vacuum)
          })
        yield* printFacts([
          ["removed", `${reportId}: its content and its reporter are deleted from this database`],
          ["remains", remains],
          ...copies(outcome.vacuum)
        ])
      }
    }
  })

/** A transaction for each report, so that a running server waits for none of them, and a command that was killed can be repeated. */
const removeSelected = (
  selection: ReportSelection,
  given: { readonly reason: string; readonly json: boolean; readonly dryRun: boolean }
) =>
  Effect.gen(function* () {
    const queries = yield* OperatorQueries
    const beingFiled: Array<string> = []
    const remainders: Array<{ readonly id: string; readonly remains: string }> = []
    let vacuum = Option.none<string>()
    const removed = yield* changeEach(selection, ({ id: reportId, inDoubt }) =>
      Effect.gen(function* () {
        if (given.dryRun) return true
        const outcome = yield* queries.removeReport(reportId, given.reason, yield* Clock.currentTimeMillis)
        if (outcome._tag === "BeingFiled") beingFiled.push(reportId)
        if (outcome._tag !== "Removed") return false
        vacuum = outcome.vacuum
        const remains = Option.flatMap(yield* queries.report(reportId), (after) =>
          remainderOf(inDoubt, after)
        )
        if (Option.isSome(remains)) remainders.push({ id: reportId, remains: remains.value })
        return true
      })
    )
    if (given.json)
      yield* printJson({
        dry_run: given.dryRun,
        reports: removed.count,
        bytes: removed.bytes,
        being_filed: beingFiled,
        remains: remainders,
        vacuum: Option.getOrNull(vacuum)
      })
    else if (given.dryRun) yield* printFacts([["would remove", sizeText(removed)]])
    else
      yield* printFacts([
        ["removed", `${sizeText(removed)}: their content and their reporters are deleted from this database`],
        ...remainders.map((each) => ["remains", `of ${each.id} ${each.remains}`] as const),
        ...(removed.count === 0 ? [] : copies(vacuum))
      ])
    if (beingFiled.length > 0)
      return yield* notFound(
        `not removed, because at this moment they are being filed: ${beingFiled.join(", ")}`,
        "run the command again in a minute"
      )
  })

export const remove = Command.make(
  "remove",
  { id: Args.optional(id), ...selectionOptions, reason, json },
  (given) =>
    Effect.gen(function* () {
      const choice = yield* readChoice(given)
      if (!given.dryRun && (given.reason.trim() === "" || given.reason.length > 500))
        return yield* usage("--reason is missing, empty or longer than 500 characters", "give a short text")
      const { eraseRemoved } = yield* OperatorQueries
      yield* Either.match(choice, {
        onLeft: (reportId) => removeOne(reportId, given),
        onRight: (selection) => removeSelected(selection, given)
      }).pipe(Effect.ensuring(given.dryRun ? Effect.void : eraseRemoved))
    }).pipe(onDatabase)
).pipe(
  Command.withDescription(
    "Deletes content and reporter of a report, or of all that the filters select together, and keeps id, time and reason; they are not filed any more"
  )
)
