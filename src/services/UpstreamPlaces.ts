/**
 * Bounds the requests that wait for an upstream (a bulkhead). The places are a part of the requests in flight
 * (http/middleware/RequestPlaces.ts): while one upstream hangs, requests that need the other or none are still served.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { Failure } from "../schema/Failure.ts"
import { recordNow, upstreamPlacesTaken } from "./Metrics.ts"
import { RequestContext } from "./RequestContext.ts"
import { Settings } from "./Settings.ts"

/** The upstreams that a request waits for; workers call the others. */
export type AwaitedUpstream = "iam" | "ting"

export interface PlaceBound {
  readonly all: number
  /** Bounds one caller's share. */
  readonly perCredential: number
  /**
   * Of one client address (a /64 of IPv6): a logout accepts any string in a token's form, so credentials can be invented. Not
   * applied when `MUSIC_RATE_LIMIT` is off, since all clients may share an address there, nor to work without a request.
   */
  readonly perAddress: number
}

/** Of the 1,000 requests in flight, 400 remain for those that wait for no upstream. Tests lower the bounds. */
export class PlaceBounds extends Context.Reference<PlaceBounds>()("music/PlaceBounds", {
  defaultValue: (): Readonly<Record<AwaitedUpstream, PlaceBound>> => ({
    iam: { all: 400, perCredential: 40, perAddress: 100 },
    ting: { all: 200, perCredential: 20, perAddress: 50 }
  })
}) {}

/** Counts places per holder; a holder without places is dropped. */
const makeHolders = () => {
  const places = new Map<string, number>()
  const heldBy = (holder: string): number => places.get(holder) ?? 0
  const count = (holder: string, change: 1 | -1): void => {
    const held = heldBy(holder) + change
    if (held === 0) places.delete(holder)
    else places.set(holder, held)
  }
  return { heldBy, count }
}

/** The credential and address that a place is counted for; an empty address is not bounded. */
interface Holder {
  readonly credential: string
  readonly address: string
}

const makePlaces = (dependency: AwaitedUpstream, bound: PlaceBound) => {
  const gauge = upstreamPlacesTaken({ dependency })
  const credentials = makeHolders()
  const addresses = makeHolders()
  let taken = 0
  recordNow(gauge, taken)

  const count = ({ credential, address }: Holder, change: 1 | -1): void => {
    taken += change
    recordNow(gauge, taken)
    credentials.count(credential, change)
    addresses.count(address, change)
  }
  const isFull = ({ credential, address }: Holder): boolean =>
    taken >= bound.all ||
    credentials.heldBy(credential) >= bound.perCredential ||
    (address !== "" && addresses.heldBy(address) >= bound.perAddress)

  const take = (holder: Holder): Either.Either<Holder, Failure<"overloaded">> => {
    if (isFull(holder))
      return Either.left(new Failure("overloaded", { retryAfterSeconds: 1, details: { dependency } }))
    count(holder, 1)
    return Either.right(holder)
  }
  const giveBack = (holder: Holder): void => count(holder, -1)

  return { take, giveBack }
}

/** The places of this process. */
export class UpstreamPlaces extends Effect.Service<UpstreamPlaces>()("music/UpstreamPlaces", {
  effect: Effect.gen(function* () {
    const bounds = yield* PlaceBounds
    const { rateLimit } = yield* Settings
    const places = { iam: makePlaces("iam", bounds.iam), ting: makePlaces("ting", bounds.ting) }

    /**
     * Runs the effect in a place of that upstream, or fails at once with `overloaded`. Every request that waits takes a place,
     * also when it only joins an execution in flight. It takes the place before anything is spent and keeps it to the end: a
     * refusal in between would lose a session. `credential` is a digest.
     */
    const within =
      (dependency: AwaitedUpstream, credential: string) =>
      <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | Failure<"overloaded">, R> =>
        Effect.acquireUseRelease(
          Effect.flatMap(RequestContext, ({ clientNetwork }) =>
            places[dependency].take({ credential, address: rateLimit ? clientNetwork : "" })
          ),
          () => effect,
          (holder) => Effect.sync(() => places[dependency].giveBack(holder))
        )

    return { within } as const
  })
}) {}
