import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import { Failure } from "../../schema/Failure.ts"
import { digestOf } from "../../services/Digest.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { makeQuota, type QuotaPolicy, type QuotaReading } from "../../services/Quota.ts"
import { Settings } from "../../services/Settings.ts"
import { untrustedProxyDetector } from "../transport/ClientAddress.ts"
import type { Exchange } from "./Exchange.ts"

/** Quotas of one client address (a /64 of IPv6) and of one access token. */
export interface Policies {
  readonly address: QuotaPolicy
  readonly credential: QuotaPolicy
}

/** The quotas of every deployment that does not set `MUSIC_RATE_LIMIT=off`. */
export const defaultPolicies: Policies = {
  address: { name: "address", quota: 1_200, windowSeconds: 60 },
  credential: { name: "credential", quota: 600, windowSeconds: 60 }
}

type RateLimitHeaders = Readonly<Record<string, string>>

/** `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10). */
const toHeaders = (readings: ReadonlyArray<QuotaReading>): RateLimitHeaders => ({
  "ratelimit-policy": readings
    .map(({ policy }) => `"${policy.name}";q=${policy.quota};w=${policy.windowSeconds}`)
    .join(", "),
  ratelimit: readings
    .map(({ policy, remaining, resetSeconds }) => `"${policy.name}";r=${remaining};t=${resetSeconds}`)
    .join(", ")
})

/** The same headers with one more reading. */
export const addReading = (headers: RateLimitHeaders, reading: QuotaReading): RateLimitHeaders =>
  Object.fromEntries(
    Object.entries(toHeaders([reading])).map(([name, value]) => {
      const before = headers[name]
      return [name, before === undefined ? value : `${before}, ${value}`]
    })
  )

/** The result of counting a request: headers of its response, and the failure when a quota is used up. */
export interface RateLimitResult {
  readonly headers: RateLimitHeaders
  readonly failure: Failure<"rate_limited"> | undefined
  /** Name of the quota that is used up; of two, the credential's. */
  readonly exceeded: string | undefined
}

const isRefused = ({ retryAfterSeconds }: QuotaReading): boolean => retryAfterSeconds > 0

const refuse = (readings: ReadonlyArray<QuotaReading>): RateLimitResult => {
  const refused = readings.find(isRefused)
  return {
    headers: toHeaders(readings),
    failure: new Failure("rate_limited", { retryAfterSeconds: refused?.retryAfterSeconds ?? 1 }),
    exceeded: refused?.policy.name
  }
}

const unlimited: RateLimitResult = { headers: {}, failure: undefined, exceeded: undefined }

/** Limits the requests of one client. Counts in this process only, in bounded memory. */
export class RateLimits extends Context.Tag("music/http/RateLimits")<
  RateLimits,
  {
    /** Counts a request against its address and its credential. */
    readonly count: (exchange: Pick<Exchange, "message" | "info" | "credential">) => RateLimitResult
  }
>() {
  static readonly layer = (policies: Policies = defaultPolicies): Layer.Layer<RateLimits, never, Settings> =>
    Layer.effect(
      RateLimits,
      Effect.gen(function* () {
        const { rateLimit, trustedProxies } = yield* Settings
        if (!rateLimit) return { count: () => unlimited }
        const isFromUntrustedProxy = untrustedProxyDetector(trustedProxies)
        const clock = yield* Effect.clock
        const byAddress = makeQuota(policies.address)
        const byCredential = makeQuota(policies.credential)
        const runFork = Runtime.runFork(yield* Effect.runtime<never>())

        let warned = false
        const warnOnce = (message: Exchange["message"]): void => {
          if (warned || !isFromUntrustedProxy(message)) return
          warned = true
          runFork(
            Effect.logWarning("A proxy on this machine is not trusted, so all its clients share one limit", {
              fix: "set MUSIC_TRUSTED_PROXIES to its address, such as 127.0.0.1"
            })
          )
        }

        return {
          count: ({ credential, info, message }) => {
            const now = unsafeMonotonicMillis(clock)
            warnOnce(message)
            // A refused use costs nothing, also not in the other quota: one client's loop would use up the address of all others.
            const key = Option.map(credential, ({ token }) => digestOf(token))
            const own = Option.map(key, (digest) => byCredential.take(digest, now))
            if (Option.exists(own, isRefused)) return refuse(Option.toArray(own))
            const ofAddress = byAddress.take(info.clientNetwork, now)
            if (!isRefused(ofAddress))
              return {
                headers: toHeaders([ofAddress, ...Option.toArray(own)]),
                failure: undefined,
                exceeded: undefined
              }
            if (Option.isSome(key)) byCredential.giveBack(key.value)
            return refuse([ofAddress])
          }
        }
      })
    )
}
