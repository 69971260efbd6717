/** What reports and deliveries have in common. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { DeliveryState, StoredDelivery } from "../../services/Store.ts"
import { databasePlace } from "../DatabaseAccess.ts"
import { type Colour, Screen } from "../Screen.ts"

export const states = [
  "waiting",
  "leased",
  "unknown",
  "delivered",
  "failed"
] as const satisfies ReadonlyArray<DeliveryState>

/** As an operator sees it: what was given up is no failure to look after. */
export const standingOf = ({ discardedAt, state }: StoredDelivery): string =>
  Option.isSome(discardedAt) ? "discarded" : state

const colours: ReadonlyMap<string, Colour> = new Map([
  ["failed", "red"],
  ["unknown", "yellow"]
])

export const standingColour = (delivery: StoredDelivery): Colour | undefined =>
  colours.get(standingOf(delivery))

/** Who retries should know who will do the work. */
export const noTrackerNote = Effect.gen(function* () {
  const { say } = yield* Screen
  const { tracker } = yield* databasePlace
  yield* say(
    Option.isSome(tracker)
      ? "A running server takes it up within 30 seconds."
      : "MUSIC_GITHUB_TOKEN is not set here: it waits until a server with a tracker runs."
  )
})
