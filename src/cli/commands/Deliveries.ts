import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { OperatorQueries } from "../../services/store/OperatorQueries.ts"
import {
  deliveryKinds,
  deliveryStates,
  type DestinationPause,
  Store,
  type StoredDelivery,
  type StoreService,
  type StoreUnavailable,
  trackerDestination
} from "../../services/Store.ts"
import { onDatabase, readAll } from "../DatabaseAccess.ts"
import { formatTime, Host, group, misuse, printPage, printRecord, refuse, toJson } from "../Host.ts"
import { argument, choice, flag, json, page, reason, since } from "../Options.ts"
import { delivery } from "../Records.ts"

const id = argument("id", "the delivery's id, report:rep_…")

const pauseText = ({ lastFailure, reason, until }: DestinationPause): string => {
  const why =
    reason === "pace"
      ? "the writes of this hour are used up"
      : Option.getOrElse(lastFailure, () => "it asked for a pause")
  return `The tracker is paused until ${formatTime(until)}: ${why}.`
}

/** Says why deliveries wait, while the tracker is paused. */
const explainPause = Effect.gen(function* () {
  const pauses = yield* (yield* Store).destinations.pauses(yield* Clock.currentTimeMillis)
  const ofTracker = pauses.filter(({ name }) => name === trackerDestination)
  const [longest] = ofTracker.sort((one, other) => other.until - one.until)
  if (longest !== undefined) yield* (yield* Host).err(pauseText(longest))
  return longest !== undefined
})

const explainWaiting = (shown: ReadonlyArray<StoredDelivery>) =>
  Effect.when(explainPause, () => shown.some(({ finishedAt }) => Option.isNone(finishedAt)))

/** For a retry: ends the pause of a tracker that refused the settings, which the operator has repaired. */
export const resumeTracker = Effect.gen(function* () {
  yield* (yield* Store).destinations.resume(yield* Clock.currentTimeMillis)
  if (!(yield* explainPause))
    yield* (yield* Host).err("A running server with a tracker sends it within 30 seconds.")
})

const filters = {
  state: choice("state", deliveryStates, "state of the delivery"),
  kind: choice("kind", deliveryKinds, "report: files a report; sweep: closes duplicate issues later"),
  since
}

const list = Command.make("list", { ...filters, page, json }, (given) =>
  Effect.gen(function* () {
    const found = yield* (yield* OperatorQueries).deliveries(given, given.page)
    yield* explainWaiting(found.items)
    yield* printPage(delivery, found, given.json)
  }).pipe(onDatabase)
).pipe(Command.withDescription("Lists deliveries to the tracker, newest first"))

export const findDelivery = (deliveryId: string) =>
  Effect.flatMap(
    Effect.flatMap(Store, ({ deliveries }) => deliveries.find(deliveryId)),
    Option.match({
      onNone: () => refuse(`no delivery ${deliveryId}`, "find it with music-backend deliveries list"),
      onSome: Effect.succeed
    })
  )

const show = Command.make("show", { id, json }, (given) =>
  Effect.gen(function* () {
    const found = yield* findDelivery(given.id)
    yield* explainWaiting([found])
    yield* printRecord(toJson(delivery, found), given.json)
  }).pipe(onDatabase)
).pipe(Command.withDescription("Shows a delivery"))

const advice: Readonly<Record<string, string>> = {
  leased: "it is being sent or searched; try again in a minute",
  delivered: "list others with music-backend deliveries list"
}

/** Changes a delivery, and returns it; fails when nothing was changed, for a failed one with the advice `adviceForFailed`. */
const change = (
  what: "retry" | "discard",
  adviceForFailed: string,
  deliveryId: string,
  run: (store: StoreService["deliveries"], now: number) => Effect.Effect<boolean, StoreUnavailable>
) =>
  Effect.gen(function* () {
    const done = yield* run((yield* Store).deliveries, yield* Clock.currentTimeMillis)
    const found = yield* findDelivery(deliveryId)
    if (done) return found
    const fix = advice[found.state] ?? adviceForFailed
    return yield* refuse(`${deliveryId} is ${found.state}: nothing to ${what}`, fix)
  })

export const retryById = (deliveryId: string) =>
  change("retry", "its report was removed", deliveryId, (store, now) => store.retry(deliveryId, now))

const failed = { state: Option.some("failed" as const) }

/** Another operator may discard one of them meanwhile. */
const retryFailed = readAll(100, (queries, request) => queries.deliveries(failed, request)).pipe(
  Stream.filterEffect((one) =>
    Effect.flatMap(Store, ({ deliveries }) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => deliveries.retry(one.id, now))
    )
  ),
  Stream.mapEffect((one) => findDelivery(one.id)),
  Stream.runCollect
)

const choosing = {
  id: Args.optional(id),
  onlyFailed: flag("failed", "instead of an id: all failed deliveries"),
  json
}

const retry = Command.make("retry", choosing, (given) =>
  Effect.gen(function* () {
    if (given.onlyFailed === Option.isSome(given.id)) return yield* misuse("an id or --failed is required")
    const items = Option.isSome(given.id) ? [yield* retryById(given.id.value)] : [...(yield* retryFailed)]
    if (items.length > 0) yield* resumeTracker
    yield* printPage({ ...delivery, plural: "failed deliveries" }, { items, next: Option.none() }, given.json)
  }).pipe(onDatabase)
).pipe(Command.withDescription("Makes deliveries due now; the tracker is searched for them first"))

const why = Options.withDefault(reason("kept with the delivery"), "discarded by an operator")

const discard = Command.make("discard", { id, why, json }, (given) =>
  Effect.gen(function* () {
    const kept = "its reason and time stay; see music-backend deliveries show"
    const found = yield* change("discard", kept, given.id, (store, now) =>
      store.discard(given.id, now, given.why)
    )
    yield* printRecord(toJson(delivery, found), given.json)
  }).pipe(onDatabase)
).pipe(Command.withDescription("Ends a delivery: it is not sent any more; the report is kept"))

export const deliveries = group("deliveries", "Deliveries to the tracker: list, show, retry, discard").pipe(
  Command.withSubcommands([list, show, retry, discard])
)
