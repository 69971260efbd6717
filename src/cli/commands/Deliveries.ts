import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { production } from "../../layers/delivery/Worker.ts"
import { type DeliveryRecord, OperatorQueries } from "../../services/store/OperatorQueries.ts"
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

const id = argument("id", "the delivery's id, report:rep_…")

const pauseText = ({ lastFailure, reason, until }: DestinationPause): string => {
  const why =
    reason === "pace"
      ? `the writes of this hour are used up; it takes ${production.hourlyWrites} in an hour`
      : Option.getOrElse(lastFailure, () => "it asked for a pause")
  return `The tracker is paused until ${formatTime(until)}: ${why}.`
}

/** Says why deliveries wait; the end of the tracker's longest pause, or 0. */
const explainPause = Effect.gen(function* () {
  const { destinations } = yield* Store
  const pauses = yield* destinations.pauses(yield* Clock.currentTimeMillis)
  const [pause] = pauses
    .filter(({ name }) => name === trackerDestination)
    .sort((one, other) => other.until - one.until)
  if (pause === undefined) return 0
  yield* (yield* Host).err(pauseText(pause))
  return pause.until
})

const explainWaiting = (shown: ReadonlyArray<DeliveryRecord>) =>
  shown.every(isOver) ? Effect.succeed(0) : explainPause

/**
 * For a retry: ends the pause of a tracker that refused the settings, which the operator has repaired. Says when the retry takes effect,
 * which is only where a server with a tracker runs.
 */
export const resumeTracker = Effect.gen(function* () {
  const { destinations } = yield* Store
  yield* destinations.resumeTracker(yield* Clock.currentTimeMillis)
  const { tracker } = yield* databasePlace
  const { err } = yield* Host
  if (Option.isNone(tracker))
    yield* err("MUSIC_GITHUB_TOKEN is not set here: the delivery waits until a server with a tracker runs.")
  else if ((yield* explainPause) === 0) yield* err("A running server sends it within 30 seconds.")
})

const filters = {
  state: choice("state", [...deliveryStates, "discarded"], "state; failed omits those that are discarded"),
  kind: choice("kind", deliveryKinds, "report: files a report; sweep: closes duplicate issues later"),
  since
}

const list = Command.make("list", { ...filters, page, json }, (given) =>
  Effect.gen(function* () {
    const found = yield* (yield* OperatorQueries).deliveries(given, given.page)
    yield* printPage(delivery(yield* explainWaiting(found.items)), found, given.json)
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
    yield* explainWaiting([found])
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
    if (items.length > 0) yield* resumeTracker
    yield* printPage(
      { ...delivery(), plural: "failed deliveries" },
      { items, next: Option.none() },
      given.json
    )
    if (given.onlyFailed && Option.isSome(failed.next))
      yield* (yield* Host).err(`There are more than ${batch}: run the command again.`)
  }).pipe(onDatabase)
).pipe(
  Command.withDescription(
    "Makes a delivery due now; the tracker is searched first for a report that it may have"
  )
)

const reason = text("reason", "text", "kept with the delivery").pipe(
  Options.withDefault("discarded by an operator")
)

const discard = Command.make("discard", { id, reason, json }, (given) =>
  Effect.gen(function* () {
    const { deliveries } = yield* Store
    const done = yield* deliveries.discard(given.id, yield* Clock.currentTimeMillis, given.reason)
    const found = yield* findChanged(given.id, done, "discard")
    yield* printRecord(toJson(delivery(), found), given.json)
  }).pipe(onDatabase)
).pipe(Command.withDescription("Ends a delivery: it is not sent any more; the report is kept"))

export const deliveries = Command.make("deliveries", {}, () => misuse("deliveries needs a command")).pipe(
  Command.withDescription("Deliveries to the tracker: list, show, retry, discard"),
  Command.withSubcommands([list, show, retry, discard])
)
