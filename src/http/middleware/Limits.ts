import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { RateLimited } from "../../schema/Failure.ts"
import type { Credential } from "../../services/Caller.ts"
import { digestOf } from "../../services/Digest.ts"
import { Settings } from "../../services/Settings.ts"
import { clientAddressFor, networkOf } from "./ClientAddress.ts"
import { CurrentExchange } from "./Exchange.ts"

export interface Policy {
  readonly name: string
  /** Requests within the window, all of which may come at once. */
  readonly quota: number
  readonly windowSeconds: number
}

/** One client address (a /64 of IPv6), and one access token. */
export interface Policies {
  readonly address: Policy
  readonly credential: Policy
}

/** What every deployment has; a gateway that limits by itself makes them needless. */
export const defaultPolicies: Policies = {
  address: { name: "address", quota: 1_200, windowSeconds: 60 },
  credential: { name: "credential", quota: 600, windowSeconds: 60 }
}

/** Keys remembered a policy; beyond it the one that was quiet longest is forgotten. */
const keyLimit = 50_000

interface Reading {
  readonly policy: Policy
  readonly remaining: number
  /** Seconds until the whole quota is free again. */
  readonly resetSeconds: number
  /** Seconds until one request is; 0 when this one was let through. */
  readonly retryAfterSeconds: number
}

const seconds = (millis: number): number => Math.ceil(millis / 1_000)

/**
 * A bucket a key that refills evenly, kept as the one moment at which it will be full (GCRA). Times are milliseconds of
 * Effect's clock.
 */
export const bucketsFor = (policy: Policy, limit = keyLimit) => {
  const window = policy.windowSeconds * 1_000
  const interval = window / policy.quota
  const fullAt = new Map<string, number>()
  return (key: string, now: number): Reading => {
    const full = Math.max(fullAt.get(key) ?? now, now)
    const admitted = full + interval <= now + window
    const next = admitted ? full + interval : full
    fullAt.delete(key)
    fullAt.set(key, next)
    if (fullAt.size > limit) {
      for (const oldest of fullAt.keys()) {
        fullAt.delete(oldest)
        break
      }
    }
    return {
      policy,
      remaining: Math.floor((now + window - next) / interval),
      resetSeconds: seconds(next - now),
      retryAfterSeconds: admitted ? 0 : Math.max(1, seconds(full + interval - now - window))
    }
  }
}

/** `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10). */
const headersOf = (readings: ReadonlyArray<Reading>): Readonly<Record<string, string>> => ({
  "ratelimit-policy": readings
    .map(({ policy }) => `"${policy.name}";q=${policy.quota};w=${policy.windowSeconds}`)
    .join(", "),
  ratelimit: readings
    .map(({ policy, remaining, resetSeconds }) => `"${policy.name}";r=${remaining};t=${resetSeconds}`)
    .join(", ")
})

/** How often one client may ask; off when a gateway limits instead. State lives in this process and is bounded. */
export class Limits extends Context.Tag("music/http/Limits")<
  Limits,
  {
    /** Counts the request in hand against its address and its credential. */
    readonly admit: (credential: Option.Option<Credential>) => Effect.Effect<void, RateLimited>
  }
>() {
  static readonly layer = (policies: Policies = defaultPolicies): Layer.Layer<Limits, never, Settings> =>
    Layer.effect(
      Limits,
      Effect.gen(function* () {
        const { rateLimit, trustedProxies } = yield* Settings
        if (!rateLimit) return { admit: () => Effect.void }
        const addressOf = clientAddressFor(trustedProxies)
        const byAddress = bucketsFor(policies.address)
        const byCredential = bucketsFor(policies.credential)

        const admit = (credential: Option.Option<Credential>): Effect.Effect<void, RateLimited> =>
          Effect.gen(function* () {
            const exchange = yield* CurrentExchange
            if (exchange === undefined) return
            const now = yield* Clock.currentTimeMillis
            const readings = [
              byAddress(networkOf(addressOf(exchange.message)), now),
              ...Option.match(credential, {
                onNone: () => [],
                onSome: ({ token }) => [byCredential(digestOf(token), now)]
              })
            ]
            exchange.rate = headersOf(readings)
            const retryAfterSeconds = Math.max(...readings.map((reading) => reading.retryAfterSeconds))
            if (retryAfterSeconds > 0) return yield* new RateLimited({ retryAfterSeconds })
          })

        return { admit }
      })
    )
}
