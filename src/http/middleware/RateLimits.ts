import type { IncomingMessage } from "node:http"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { RateLimited } from "../../schema/Failure.ts"
import type { Credential } from "../../services/RequestCredentials.ts"
import { digestOf } from "../../services/Digest.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { makeQuota, type QuotaPolicy, type QuotaReading } from "../../services/Quota.ts"
import { Settings } from "../../services/Settings.ts"
import { strangeProxyFor } from "../transport/ClientAddress.ts"
import { CurrentRequestState } from "./RequestState.ts"

/** One client address (a /64 of IPv6), and one access token. */
export interface Policies {
  readonly address: QuotaPolicy
  readonly credential: QuotaPolicy
}

/** What every deployment has; a gateway that limits by itself makes them needless. */
export const defaultPolicies: Policies = {
  address: { name: "address", quota: 1_200, windowSeconds: 60 },
  credential: { name: "credential", quota: 600, windowSeconds: 60 }
}

/** `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10). */
const headersOf = (readings: ReadonlyArray<QuotaReading>): Readonly<Record<string, string>> => ({
  "ratelimit-policy": readings
    .map(({ policy }) => `"${policy.name}";q=${policy.quota};w=${policy.windowSeconds}`)
    .join(", "),
  ratelimit: readings
    .map(({ policy, remaining, resetSeconds }) => `"${policy.name}";r=${remaining};t=${resetSeconds}`)
    .join(", ")
})

/** The same with one more reading. */
export const withReading = (
  rate: Readonly<Record<string, string>>,
  reading: QuotaReading
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(headersOf([reading])).map(([name, value]) => {
      const before = rate[name]
      return [name, before === undefined ? value : `${before}, ${value}`]
    })
  )

/** How often one client may ask; off when a gateway limits instead. State lives in this process and is bounded. */
export class RateLimits extends Context.Tag("music/http/RateLimits")<
  RateLimits,
  {
    /** Counts the request in hand against its address and its credential. */
    readonly admit: (credential: Option.Option<Credential>) => Effect.Effect<void, RateLimited>
  }
>() {
  static readonly layer = (policies: Policies = defaultPolicies): Layer.Layer<RateLimits, never, Settings> =>
    Layer.effect(
      RateLimits,
      Effect.gen(function* () {
        const { rateLimit, trustedProxies } = yield* Settings
        if (!rateLimit) return { admit: () => Effect.void }
        const isStrangeProxy = strangeProxyFor(trustedProxies)
        const byAddress = makeQuota(policies.address)
        const byCredential = makeQuota(policies.credential)

        let warned = false
        const warnOf = (message: IncomingMessage): Effect.Effect<void> =>
          Effect.suspend(() => {
            if (warned || !isStrangeProxy(message)) return Effect.void
            warned = true
            return Effect.logWarning(
              "A proxy on this machine is not trusted, so all its clients share one limit",
              { fix: "set MUSIC_TRUSTED_PROXIES to its address, such as 127.0.0.1" }
            )
          })

        const admit = (credential: Option.Option<Credential>): Effect.Effect<void, RateLimited> =>
          Effect.gen(function* () {
            const exchange = yield* CurrentRequestState
            if (exchange === undefined) return
            yield* warnOf(exchange.message)
            const now = yield* monotonicMillis
            const readings = [
              byAddress.take(exchange.info.clientNetwork, now),
              ...Option.match(credential, {
                onNone: () => [],
                onSome: ({ token }) => [byCredential.take(digestOf(token), now)]
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
