/**
 * Bounds the requests that wait for an upstream (a bulkhead). The places are a part of the requests in flight
 * (http/middleware/RequestPlaces.ts): while one upstream hangs, requests that need the other or none are still served.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { Failure } from "../../schema/Failure.ts"
import { recordNow, upstreamPlacesTaken } from "../Metrics.ts"
import { RequestContext } from "../RequestContext.ts"
import { Settings } from "../Settings.ts"

/**
 * Of each upstream that a request waits for; workers call the others. Of the 1,000 requests in flight, 400 remain for those that wait for
 * none. Tests lower the bounds.
 */
export class PlaceBounds extends Context.Reference<PlaceBounds>()("music/PlaceBounds", {
  defaultValue: () => ({
    iam: { all: 400, perCredential: 40, perAddress: 100 },
    ting: { all: 200, perCredential: 20, perAddress: 50 }
  })
}) {}
type AwaitedUpstream = keyof Context.Tag.Service<PlaceBounds>

/** The places of this process. */
export class UpstreamPlaces extends Effect.Service<UpstreamPlaces>()("music/UpstreamPlaces", {
  effect: Effect.gen(function* () {
    const bounds = yield* PlaceBounds
    const { rateLimit } = yield* Settings
    /** By holder: all requests for an upstream together, and each credential and address that has a place there. */
    const taken = new Map<string, number>()
    const heldBy = (holder: string): number => taken.get(holder) ?? 0

    const count = (dependency: AwaitedUpstream, holders: Iterable<string>, change: 1 | -1): void => {
      for (const holder of holders) {
        const held = heldBy(holder) + change
        if (held === 0) taken.delete(holder)
        else taken.set(holder, held)
      }
      recordNow(upstreamPlacesTaken({ dependency }), heldBy(dependency))
    }
    for (const dependency of ["iam", "ting"] as const) count(dependency, [], 1)

    /**
     * Runs the effect in a place of that upstream, or fails at once with `overloaded`. Every request that waits takes a place,
     * also when it only joins an execution in flight. It takes the place before anything is spent and keeps it to the end: a
     * refusal in between would lose a session. `credential` is a digest.
     */
    const within =
      (dependency: AwaitedUpstream, credential: string) =>
      <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | Failure<"overloaded">, R> =>
        Effect.acquireUseRelease(
          Effect.flatMap(RequestContext, ({ clientNetwork }) => {
            const { all, perAddress, perCredential } = bounds[dependency]
            const limits = new Map([
              [dependency, all],
              [`${dependency} credential ${credential}`, perCredential]
            ])
            // Credentials can be invented: a logout takes any string in a token's form. All clients may share an address where the rate
            // limits are off, and work without a request has none.
            if (rateLimit && clientNetwork !== "")
              limits.set(`${dependency} address ${clientNetwork}`, perAddress)
            if ([...limits].some(([holder, most]) => heldBy(holder) >= most))
              return new Failure("overloaded", { retryAfterSeconds: 1, details: { dependency } })
            count(dependency, limits.keys(), 1)
            return Effect.succeed([...limits.keys()])
          }),
          () => effect,
          (holders) => Effect.sync(() => count(dependency, holders, -1))
        )

    return { within } as const
  })
}) {}
