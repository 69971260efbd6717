import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Arr from "effect/Array"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { production } from "../../layers/delivery/Worker.ts"
import {
  type DeliveryRecord,
  OperatorQueries,
  type ReportSelection
} from "../../services/store/OperatorQueries.ts"
import {
  deliveryKinds,
  deliveryStates,
  type DestinationPause,
  Store,
  trackerDestination
} from "../../services/Store.ts"
import { databasePlace, onDatabase } from "../DatabaseAccess.ts"
import { Host, misuse, refuse } from "../Host.ts"
import { argument, choice, flag, json, page, since, text } from "../Options.ts"
import { formatTime, printPage, printRecord, toJson } from "../Output.ts"
import { delivery, isOver } from "../Records.ts"
import { type Change, changing, selected, sumBytes } from "./Changes.ts"

const id = argument("id", "the delivery's id, report:rep_…")

/** The longest pause of the tracker. */
const trackerPause = Effect.gen(function* () {
  const { destinations } = yield* Store
  const pauses = yield* destinations.pauses(yield* Clock.currentTimeMillis)
  const ofTracker = pauses.filter(({ name }) => name === trackerDestination)
  return Option.fromNullable(ofTracker.sort((one, other) => other.until - one.until)[0])
})

const pauseText = ({ lastFailure, reason, until }: DestinationPause): string => {
  const why =
    reason === "pace"
      ? `the writes of this hour are used up; it takes ${production.hourlyWrites} in an hour`
      : Option.getOrElse(lastFailure, () => "it asked for a pause")
  return `The tracker is paused until ${formatTime(until)}: ${why}.`
}

/**
 * For a retry: ends the pause of a tracker that refused the settings, which the operator has repaired. Says when the retry takes effect,
 * which is only where a server with a tracker runs.
 */
export const resumeTracker = Effect.gen(function* () {
  const { destinations } = yield* Store
  yield* destinations.resumeTracker(yield* Clock.currentTimeMillis)
  const { tracker } = yield* databasePlace
  if (Option.isNone(tracker))
    return "MUSIC_GITHUB_TOKEN is not set here: the delivery waits until a server with a tracker runs."
  const pause = Option.map(yield* trackerPause, pauseText)
  return Option.getOrElse(pause, () => "A running server sends it within 30 seconds.")
})

/** Says why the deliveries wait; the end of the tracker's pause, or 0. */
const explainPause = (shown: ReadonlyArray<DeliveryRecord>) =>
  Effect.gen(function* () {
    const pause = yield* trackerPause
    if (Option.isNone(pause)) return 0
    if (!shown.every(isOver)) yield* (yield* Host).err(pauseText(pause.value))
    return pause.value.until
  })

const filters = {
  state: choice("state", [...deliveryStates, "discarded"], "state; failed omits those that are discarded"),
  kind: choice("kind", deliveryKinds, "report: files a report; sweep: closes duplicate issues later"),
  since
}

const list = Command.make("list", { ...filters, page, json }, (given) =>
  Effect.gen(function* () {
    const found = yield* (yield* OperatorQueries).deliveries(given, given.page)
    yield* printPage(delivery(yield* explainPause(found.items)), found, given.json)
  }).pipe(onDatabase)
).pipe(Command.withDescription("Lists deliveries to the tracker, newest first"))

const find = (deliveryId: string) =>
  Effect.flatMap(
    Effect.flatMap(OperatorQueries, (queries) => queries.delivery(deliveryId)),
    Option.match({
      onNone: () => refuse(`no delivery ${deliveryId}`, "find it with music-backend deliveries list"),
      onSome: Effect.succeed
    })
  )

const show = Command.make("show", { id, json }, (given) =>
  Effect.gen(function* () {
    const found = yield* find(given.id)
    yield* explainPause([found])
    yield* printRecord(toJson(delivery(), found), given.json)
  }).pipe(onDatabase)
).pipe(Command.withDescription("Shows a delivery"))

const advice: Readonly<Record<string, string>> = {
  leased: "it is being sent; try again in a minute",
  delivered: "list others with music-backend deliveries list"
}

/** The delivery after a change; fails when nothing was changed. */
export const findChanged = (deliveryId: string, done: boolean, what: string) =>
  Effect.filterOrFail(
    find(deliveryId),
    () => done,
    ({ state }) =>
      refuse(`${deliveryId} is ${state}: nothing to ${what}`, advice[state] ?? "its report was removed")
  )

const allFailed = { state: Option.some("failed" as const), kind: Option.none(), since: Option.none() }
/** Failed deliveries of one `retry --failed`. */
const batch = 500

const optionalId = Args.optional(id)
const onlyFailed = flag("failed", "instead of an id: all failed deliveries that are not discarded")

const retry = Command.make("retry", { id: optionalId, onlyFailed, json }, (given) =>
  Effect.gen(function* () {
    if (given.onlyFailed === Option.isSome(given.id)) return yield* misuse("an id or --failed is required")
    const { deliveries } = yield* Store
    const failed = yield* (yield* OperatorQueries).deliveries(allFailed, {
      limit: batch,
      after: Option.none()
    })
    const chosen = Option.match(given.id, { onNone: () => failed.items.map((one) => one.id), onSome: Arr.of })
    const retried = yield* Effect.forEach(chosen, (deliveryId) =>
      Effect.gen(function* () {
        const done = yield* deliveries.retry(deliveryId, yield* Clock.currentTimeMillis, given)
        // Another operator may have discarded one of them meanwhile.
        return given.onlyFailed && !done ? [] : [yield* findChanged(deliveryId, done, "retry")]
      })
    )
    const items = retried.flat()
    const note = items.length === 0 ? "" : yield* resumeTracker
    yield* printPage(
      { ...delivery(), plural: "failed deliveries" },
      { items, next: Option.none() },
      given.json
    )
    const { err } = yield* Host
    if (given.onlyFailed && Option.isSome(failed.next))
      yield* err(`There are more than ${batch}: run the command again.`)
    if (note !== "") yield* err(note)
  }).pipe(onDatabase)
).pipe(
  Command.withDescription(
    "Makes a delivery due now; the tracker is searched first for a report that it may have"
  )
)

const discardOne = (deliveryId: string, given: Change) =>
  Effect.gen(function* () {
    const { deliveries } = yield* Store
    const done = yield* deliveries.discard(deliveryId, yield* Clock.currentTimeMillis, given.reason)
    const found = yield* findChanged(deliveryId, done, "discard")
    yield* printRecord(toJson(delivery(), found), given.json)
  })

const discardSelected = (selection: ReportSelection, { dryRun, json: asJson, reason: why }: Change) =>
  Effect.gen(function* () {
    const { deliveries } = yield* Store
    const discarded = yield* selected(selection).pipe(
      Stream.filter(({ discardable }) => discardable),
      Stream.filterEffect((report) =>
        dryRun
          ? Effect.succeed(true)
          : Effect.flatMap(Clock.currentTimeMillis, (now) =>
              deliveries.discard(`report:${report.id}`, now, why)
            )
      ),
      Stream.runCollect,
      Effect.map(Chunk.toReadonlyArray)
    )
    const bytes = sumBytes(discarded)
    yield* printRecord({ dry_run: dryRun, deliveries: discarded.length, bytes }, asJson)
  })

const reason = text("reason", "text", "kept with the delivery").pipe(
  Options.withDefault("discarded by an operator")
)

const discard = changing("discard", id, reason, discardOne, discardSelected).pipe(
  Command.withDescription(
    "Ends a delivery, or those of all reports that the filters select: they are not sent any more; the reports are kept"
  )
)

export const deliveries = Command.make("deliveries", {}, () => misuse("deliveries needs a command")).pipe(
  Command.withDescription("Deliveries to the tracker: list, show, retry, discard"),
  Command.withSubcommands([list, show, retry, discard])
)
