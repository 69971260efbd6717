/**
 * Bounds the requests that wait for an upstream (a bulkhead). The places are a part of the requests in flight
 * (http/middleware/RequestPlaces.ts): while one upstream hangs, requests that need the other or none are still served.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { Failure } from "../../schema/Failure.ts"
import { recordNow, upstreamPlacesTaken } from "../Metrics.ts"

/** The upstreams that a request waits for; workers call the others. */
export type AwaitedUpstream = "iam" | "ting"

export interface PlaceBound {
  readonly all: number
  /** Bounds one caller's share. */
  readonly perCredential: number
}

/** Of the 1,000 requests in flight, 400 remain for those that wait for no upstream. Tests lower the bounds. */
export class PlaceBounds extends Context.Reference<PlaceBounds>()("music/PlaceBounds", {
  defaultValue: (): Readonly<Record<AwaitedUpstream, PlaceBound>> => ({
    iam: { all: 400, perCredential: 40 },
    ting: { all: 200, perCredential: 20 }
  })
}) {}

const makePlaces = (dependency: AwaitedUpstream, { all, perCredential }: PlaceBound) => {
  const gauge = upstreamPlacesTaken({ dependency })
  const byCredential = new Map<string, number>()
  let taken = 0
  const count = (credential: string, change: 1 | -1): void => {
    const held = (byCredential.get(credential) ?? 0) + change
    if (held === 0) byCredential.delete(credential)
    else byCredential.set(credential, held)
    taken += change
    recordNow(gauge, taken)
  }
  recordNow(gauge, 0)
  const full = new Failure("overloaded", { retryAfterSeconds: 1, details: { dependency } })

  return {
    take: (credential: string) =>
      Effect.suspend(() => {
        if (taken >= all || (byCredential.get(credential) ?? 0) >= perCredential) return full
        count(credential, 1)
        return Effect.void
      }),
    giveBack: (credential: string) => Effect.sync(() => count(credential, -1))
  }
}

/** The places of this process. */
export class UpstreamPlaces extends Effect.Service<UpstreamPlaces>()("music/UpstreamPlaces", {
  effect: Effect.map(PlaceBounds, (bounds) => {
    const places = { iam: makePlaces("iam", bounds.iam), ting: makePlaces("ting", bounds.ting) }
    return {
      /**
       * Runs the effect in a place of that upstream, or fails at once with `overloaded`. Every request that waits takes a place,
       * also when it only joins an execution in flight. It takes the place before anything is spent and keeps it to the end: a
       * refusal in between would lose a session. `credential` is a digest.
       */
      within:
        (dependency: AwaitedUpstream, credential: string) =>
        <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | Failure<"overloaded">, R> =>
          Effect.acquireUseRelease(
            places[dependency].take(credential),
            () => effect,
            () => places[dependency].giveBack(credential)
          )
    } as const
  })
}) {}
