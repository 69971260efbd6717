/** Delivery states, shared by the commands of reports and deliveries. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { DeliveryState, StoredDelivery } from "../../services/Store.ts"
import { databasePlace } from "../DatabaseAccess.ts"
import { type Colour, Screen } from "../Screen.ts"

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

/** A retry only takes effect where a server with a tracker runs. */
export const noTrackerNote = Effect.gen(function* () {
  const { err } = yield* Screen
  const { tracker } = yield* databasePlace
  yield* err(
    Option.isSome(tracker)
      ? "A running server sends it within 30 seconds."
      : "MUSIC_GITHUB_TOKEN is not set here: the delivery waits until a server with a tracker runs."
  )
})
