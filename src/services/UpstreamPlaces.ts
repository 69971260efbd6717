/**
 * Places for requests that wait for an upstream. They are a part of the requests in flight (http/middleware/Admission.ts), so
 * a request that waits for no upstream is served while an upstream hangs, and one upstream's requests leave the other's alone.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { Overloaded } from "../schema/Failure.ts"
import { recordNow, upstreamPlacesTaken } from "./Metrics.ts"

/** The upstreams that a request waits for; the others are served by workers. */
export type AwaitedUpstream = "iam" | "ting"

export interface PlaceBound {
  readonly all: number
  /** So that the requests of one caller cannot take all of them. */
  readonly perCredential: number
}

/** Tests lower them. Of the 1,000 requests in flight, 400 remain for those that wait for no upstream. */
export class PlaceBounds extends Context.Reference<PlaceBounds>()("music/PlaceBounds", {
  defaultValue: (): Readonly<Record<AwaitedUpstream, PlaceBound>> => ({
    iam: { all: 400, perCredential: 40 },
    ting: { all: 200, perCredential: 20 }
  })
}) {}

const placesOf = (dependency: AwaitedUpstream, bound: PlaceBound) => {
  const gauge = upstreamPlacesTaken({ dependency })
  const byCredential = new Map<string, number>()
  let taken = 0
  recordNow(gauge, taken)

  const count = (credential: string, change: 1 | -1): void => {
    taken += change
    recordNow(gauge, taken)
    const held = (byCredential.get(credential) ?? 0) + change
    if (held === 0) byCredential.delete(credential)
    else byCredential.set(credential, held)
  }
  const isFull = (credential: string): boolean =>
    taken >= bound.all || (byCredential.get(credential) ?? 0) >= bound.perCredential

  const take = (credential: string): Effect.Effect<void, Overloaded> =>
    Effect.suspend(() => {
      if (isFull(credential))
        return Effect.fail(new Overloaded({ retryAfterSeconds: 1, details: { dependency } }))
      count(credential, 1)
      return Effect.void
    })
  const giveBack = (credential: string) => Effect.sync(() => count(credential, -1))

  return { take, giveBack }
}

/** The places of this process. */
export class UpstreamPlaces extends Effect.Service<UpstreamPlaces>()("music/UpstreamPlaces", {
  effect: Effect.map(PlaceBounds, (bounds) => {
    const places = { iam: placesOf("iam", bounds.iam), ting: placesOf("ting", bounds.ting) }

    /**
     * Runs the effect in a place of that upstream, or fails at once with `overloaded`: a place is never waited for. Every
     * request that waits takes one, also when it only joins an execution in flight, and it takes one before anything is
     * spent and keeps it to the end: a refusal in between would lose a session. `credential` is a digest.
     */
    const within =
      (dependency: AwaitedUpstream, credential: string) =>
      <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | Overloaded, R> =>
        Effect.acquireUseRelease(
          places[dependency].take(credential),
          () => effect,
          () => places[dependency].giveBack(credential)
        )

    return { within } as const
  })
}) {}
