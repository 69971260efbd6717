/** Delivery states, shared by the commands of reports and deliveries. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { production } from "../../layers/delivery/DeliveryLimits.ts"
import {
  type DeliveryState,
  type DestinationPause,
  Store,
  type StoredDelivery,
  type StoreUnavailable,
  trackerDestination
} from "../../services/Store.ts"
import { databasePlace } from "../DatabaseAccess.ts"
import type { Colour } from "../Screen.ts"
import { formatTime } from "../Text.ts"

export const deliveryStates = [
  "waiting",
  "leased",
  "unknown",
  "delivered",
  "failed"
] as const satisfies ReadonlyArray<DeliveryState>

/** The state that an operator sees: a discarded delivery is shown as `discarded`, not as `failed`. */
export const deliveryStateOf = ({ discardedAt, state }: StoredDelivery): string =>
  Option.isSome(discardedAt) ? "discarded" : state

const colours: ReadonlyMap<string, Colour> = new Map([
  ["failed", "red"],
  ["unknown", "yellow"]
])

export const deliveryStateColour = (delivery: StoredDelivery): Colour | undefined =>
  colours.get(deliveryStateOf(delivery))

/** The longest pause of the tracker. */
export const trackerPause: Effect.Effect<
  Option.Option<DestinationPause>,
  StoreUnavailable,
  Store
> = Effect.gen(function* () {
  const { destinations } = yield* Store
  const pauses = yield* destinations.pauses(yield* Clock.currentTimeMillis)
  const ofTracker = pauses.filter(({ name }) => name === trackerDestination)
  return Option.fromNullable(ofTracker.sort((one, other) => other.until - one.until)[0])
})

export const pauseText = ({ lastFailure, reason, until }: DestinationPause): string => {
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
  return Option.match(yield* trackerPause, {
    onNone: () => "A running server sends it within 30 seconds.",
    onSome: pauseText
  })
})
