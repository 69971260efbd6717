/** Steps 6 to 8 of the order of checks (docs/api.md), which a handler applies after the body: rate limits, plane, bearer. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type { FailureOf } from "../../schema/Failure.ts"
import type { ActorType } from "../../schema/Identity.ts"
import { makeQuota, takeAll } from "../../services/combinators/Quota.ts"
import { digestOf } from "../../services/Digest.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import type { Caller } from "../../services/Iam.ts"
import { Settings } from "../../services/Settings.ts"
import { Sessions } from "../../services/usecases/Sessions.ts"
import { untrustedProxyDetector } from "../transport/ClientAddress.ts"
import { Bounds } from "./Bounds.ts"
import { CurrentExchange, type Exchange } from "./Exchange.ts"
import { SentCredential, SentKey, SentTestingSecret } from "./SentHeaders.ts"

/** Records the type of an actor for whom IAM vouched during the call. */
export const noteActor = (actor: ActorType): Effect.Effect<void> =>
  Effect.map(CurrentExchange, (exchange) => {
    exchange.actor = actor
  })

/** Limits the requests of one client. Counts in this process only, in bounded memory. */
const makeLimits = Effect.gen(function* () {
  const { rateLimit } = yield* Settings
  const { address, credential } = yield* Bounds
  const clock = yield* Effect.clock
  const byAddress = makeQuota(address)
  const byCredential = makeQuota(credential)

  /** Counts a request against its credential and its address, and notes the quotas in it; or gives the failure of its refusal. */
  return (exchange: Exchange): FailureOf<"rate_limited"> | undefined => {
    if (!rateLimit) return undefined
    const own = Option.map(exchange.credential, ({ token }) => [byCredential, digestOf(token)] as const)
    const uses = [[byAddress, exchange.clientNetwork] as const, ...Option.toArray(own)]
    const { readings, refusal } = takeAll(uses, unsafeMonotonicMillis(clock))
    exchange.quotas = readings
    return refusal
  }
})

const untrustedProxy = Effect.logWarning(
  "A proxy on this machine is not trusted, so all its clients share one limit",
  { fix: "set MUSIC_TRUSTED_PROXIES to its address, such as 127.0.0.1" }
)

export class Calls extends Effect.Service<Calls>()("music/http/Calls", {
  effect: Effect.gen(function* () {
    const countIn = yield* makeLimits
    const sessions = yield* Sessions
    const { rateLimit, trustedProxies } = yield* Settings
    const isFromUntrustedProxy = untrustedProxyDetector(trustedProxies)
    let warned = !rateLimit

    /** Counts the call against the limits of its client. */
    const metered = <A, E, R>(call: (exchange: Exchange) => Effect.Effect<A, E, R>) =>
      Effect.flatMap(CurrentExchange, (exchange): Effect.Effect<A, E | FailureOf<"rate_limited">, R> => {
        const refusal = countIn(exchange)
        if (refusal !== undefined) return Effect.fail(refusal)
        exchange.committing = exchange.message.method === "POST"
        if (warned || !isFromUntrustedProxy(exchange.message)) return call(exchange)
        warned = true
        return Effect.zipRight(untrustedProxy, call(exchange))
      })

    /** A metered call in the plane that its request selects. */
    const inPlane = <A, E, R>(call: (plane: Plane, exchange: Exchange) => Effect.Effect<A, E, R>) =>
      metered((exchange) =>
        Effect.flatMap(Effect.flatMap(SentTestingSecret, sessions.resolvePlane), (plane) => {
          exchange.plane = planeId(plane)
          return call(plane, exchange)
        })
      )

    /** A call in a plane under the idempotency key of its request. */
    const keyed = <A, E, R>(call: (plane: Plane, key: Redacted.Redacted) => Effect.Effect<A, E, R>) =>
      inPlane((plane) => Effect.flatMap(SentKey, (key) => call(plane, key)))

    /** A call in a plane of a caller for whom IAM vouches. */
    const signedIn = <A, E, R>(call: (plane: Plane, caller: Caller) => Effect.Effect<A, E, R>) =>
      inPlane((plane, exchange) =>
        SentCredential.pipe(
          Effect.flatMap((credential) => sessions.authenticate(plane, credential)),
          Effect.flatMap((caller) => {
            exchange.actor = caller.actor.type
            return call(plane, caller)
          })
        )
      )

    return { metered, inPlane, keyed, signedIn } as const
  })
}) {}
