import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { type DeliveryRecord, OperatorQueries, type ReportSelection } from "../../services/OperatorQueries.ts"
import { type DestinationPause, Store } from "../../services/Store.ts"
import { onDatabase, onDatabaseToRead } from "../DatabaseAccess.ts"
import { type CommandFailed, notFound, usage } from "../CommandFailed.ts"
import { json, pageOf, paging, printPage, since, sinceOf } from "../Flags.ts"
import { printFacts, printJson, printTable, Screen } from "../Screen.ts"
import { toDeliveryJson } from "../JsonOutput.ts"
import { formatTime } from "../Text.ts"
import {
  deliveryStateColour,
  deliveryStateOf,
  deliveryStates,
  pauseText,
  resumeTracker,
  trackerPause
} from "./DeliveryState.ts"
import { changeEach, readChoice, selectionOptions, sizeText } from "./ReportSelection.ts"

const id = Args.text({ name: "id" }).pipe(Args.withDescription("the delivery's id, report:rep_…"))

const filters = {
  state: Options.choice("state", deliveryStates).pipe(
    Options.withDescription("state of the delivery"),
    Options.optional
  ),
  kind: Options.choice("kind", ["report", "sweep"]).pipe(
    Options.withDescription("report: files a report; sweep: closes duplicate issues later"),
    Options.optional
  ),
  discarded: Options.boolean("discarded").pipe(
    Options.withDescription("only discarded deliveries, which --state failed omits")
  ),
  since
}

const isOver = ({ state }: DeliveryRecord): boolean => state === "delivered" || state === "failed"

/** The next attempt; not before the tracker's pause is over. */
const nextOf = (item: DeliveryRecord, pause: Option.Option<DestinationPause>): string => {
  if (isOver(item)) return ""
  const pausedUntil = Option.match(pause, { onNone: () => 0, onSome: ({ until }) => until })
  return formatTime(Math.max(item.availableAt, pausedUntil))
}

const list = Command.make("list", { ...filters, ...paging, json }, (given) =>
  Effect.flatMap(Effect.all([sinceOf(given.since), pageOf(given)]), ([from, request]) =>
    Effect.gen(function* () {
      if (given.discarded && Option.isSome(given.state))
        return yield* usage("--discarded and --state together", "use only one of them")
      const state = given.discarded ? Option.some("discarded" as const) : given.state
      const filter = { state, kind: given.kind, since: from }
      const page = yield* (yield* OperatorQueries).deliveries(filter, request)
      const pause = yield* trackerPause
      yield* printPage(page, {
        json: given.json,
        toJson: toDeliveryJson,
        nouns: "deliveries",
        table: (items) =>
          printTable(
            [
              { title: "ID", of: (item) => item.id },
              { title: "CREATED", drop: 1, of: (item) => formatTime(item.createdAt) },
              { title: "STATE", of: deliveryStateOf, colour: deliveryStateColour },
              { title: "SENT", of: (item) => String(item.attempts) },
              { title: "NEXT", drop: 2, of: (item) => nextOf(item, pause) },
              {
                title: "LAST FAILURE",
                of: (item) => Option.getOrElse(item.lastFailure, () => ""),
                elastic: true
              }
            ],
            items
          )
      })
      if (given.json) return
      if (Option.isSome(pause) && !page.items.every(isOver))
        yield* (yield* Screen).err(`\n${pauseText(pause.value)}`)
    }).pipe(onDatabaseToRead)
  )
).pipe(Command.withDescription("Lists deliveries to the tracker, newest first"))

const found = (deliveryId: string) =>
  Effect.gen(function* () {
    const record = yield* (yield* OperatorQueries).delivery(deliveryId)
    return Option.isSome(record)
      ? record.value
      : yield* notFound(`no delivery ${deliveryId}`, "find it with music-backend deliveries list")
  })

const time = (at: Option.Option<number>): string | undefined =>
  Option.getOrUndefined(Option.map(at, formatTime))

const show = Command.make("show", { id, json }, (given) =>
  Effect.gen(function* () {
    const delivery = yield* found(given.id)
    if (given.json) return yield* printJson(toDeliveryJson(delivery))
    const pause = yield* trackerPause
    yield* printFacts([
      ["id", delivery.id],
      ["of", delivery.subject],
      ["state", deliveryStateOf(delivery)],
      ["created", formatTime(delivery.createdAt)],
      ["next", isOver(delivery) ? undefined : nextOf(delivery, pause)],
      ["over", time(delivery.finishedAt)],
      ["times sent", String(delivery.attempts)],
      ["last sent", time(delivery.sentAt)],
      ["looks", delivery.searches === 0 ? undefined : `${delivery.searches} found nothing`],
      ["last failure", Option.getOrUndefined(delivery.lastFailure)]
    ])
    if (Option.isSome(pause) && !isOver(delivery)) yield* (yield* Screen).err(pauseText(pause.value))
  }).pipe(onDatabaseToRead)
).pipe(Command.withDescription("Shows a delivery"))

const unchanged = ({ id: deliveryId, state }: DeliveryRecord, what: string): CommandFailed =>
  notFound(
    `${deliveryId} is ${state}: nothing to ${what}`,
    state === "leased"
      ? "it is being sent; try again in a minute"
      : state === "delivered"
        ? "list others with music-backend deliveries list"
        : "its report was removed"
  )

/** Failed deliveries of one query. */
const batch = 500

/** Ids of failed deliveries that are not discarded, and whether there are more. */
const failedOnes = Effect.gen(function* () {
  const page = yield* (yield* OperatorQueries).deliveries(
    { state: Option.some("failed"), kind: Option.none(), since: Option.none() },
    { limit: batch, after: Option.none() }
  )
  return { ids: page.items.map((item) => item.id), more: Option.isSome(page.next) }
})

const ids = Args.text({ name: "id" }).pipe(
  Args.withDescription("ids of deliveries, report:rep_…"),
  Args.repeated
)
const failed = Options.boolean("failed").pipe(
  Options.withDescription("all failed deliveries that are not discarded, instead of ids")
)

const retry = Command.make("retry", { ids, failed, json }, (given) =>
  Effect.gen(function* () {
    const screen = yield* Screen
    if (given.failed === given.ids.length > 0)
      return yield* usage(
        "ids or --failed are required, but not both",
        "give ids of deliveries, or --failed for all failed ones"
      )
    const chosen = given.failed ? yield* failedOnes : { ids: given.ids, more: false }
    const { deliveries } = yield* Store
    const changed = yield* Effect.forEach(chosen.ids, (deliveryId, index) =>
      Effect.gen(function* () {
        const done = yield* deliveries.retry(deliveryId, yield* Clock.currentTimeMillis, {
          onlyFailed: given.failed
        })
        yield* screen.progress(`${index + 1} of ${chosen.ids.length}`)
        // Another operator may have discarded one of them meanwhile.
        if (!done && given.failed) return []
        const delivery = yield* found(deliveryId)
        return done ? [delivery] : yield* unchanged(delivery, "retry")
      })
    ).pipe(Effect.map((lists) => lists.flat()))
    yield* screen.progress("")
    const note = changed.length === 0 ? "No deliveries failed." : yield* resumeTracker
    if (given.json) return yield* printJson({ items: changed.map(toDeliveryJson), next: null })
    for (const delivery of changed) yield* screen.out(`${delivery.id} is due now (${delivery.state})`)
    if (chosen.more) yield* screen.err(`There are more than ${batch}: run the command again.`)
    yield* screen.err(note)
  }).pipe(onDatabase)
).pipe(
  Command.withDescription(
    "Makes deliveries due now; when a report may have been filed, the tracker is searched first"
  )
)

const reason = Options.text("reason").pipe(
  Options.withDescription("the reason, kept with the delivery"),
  Options.withDefault("discarded by an operator")
)

const discardOne = (deliveryId: string, given: { readonly reason: string; readonly json: boolean }) =>
  Effect.gen(function* () {
    const { deliveries } = yield* Store
    const done = yield* deliveries.discard(deliveryId, yield* Clock.currentTimeMillis, given.reason)
    const delivery = yield* found(deliveryId)
    if (!done) return yield* unchanged(delivery, "discard")
    if (given.json) return yield* printJson(toDeliveryJson(delivery))
    yield* (yield* Screen).out(`${delivery.id} is discarded and will not be tried again. Its report is kept.`)
  })

const discardSelected = (
  selection: ReportSelection,
  given: { readonly reason: string; readonly json: boolean; readonly dryRun: boolean }
) =>
  Effect.gen(function* () {
    const { deliveries } = yield* Store
    const discarded = yield* changeEach(selection, (report) =>
      given.dryRun || !report.discardable
        ? Effect.succeed(report.discardable)
        : Effect.flatMap(Clock.currentTimeMillis, (now) =>
            deliveries.discard(`report:${report.id}`, now, given.reason)
          )
    )
    if (given.json)
      return yield* printJson({
        dry_run: given.dryRun,
        deliveries: discarded.count,
        bytes: discarded.bytes
      })
    yield* printFacts([
      [given.dryRun ? "would discard" : "discarded", `the deliveries of ${sizeText(discarded)} and are kept`]
    ])
  })

const discard = Command.make(
  "discard",
  { id: Args.optional(id), ...selectionOptions, reason, json },
  (given) =>
    Effect.gen(function* () {
      const choice = yield* readChoice(given)
      if (given.reason.trim() === "" || given.reason.length > 500)
        return yield* usage("--reason is empty or longer than 500 characters", "use a shorter text")
      yield* Either.match(choice, {
        onLeft: (deliveryId) => discardOne(deliveryId, given),
        onRight: (selection) => discardSelected(selection, given)
      })
    }).pipe(onDatabase)
).pipe(
  Command.withDescription(
    "Discards a delivery, or those of all reports that the filters select together: they are not sent any more; the reports are kept"
  )
)

export const deliveries = Command.make("deliveries").pipe(
  Command.withDescription("Deliveries to the tracker: list, show, retry, discard"),
  Command.withSubcommands([list, show, retry, discard])
)
