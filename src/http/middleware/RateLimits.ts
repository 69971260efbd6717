import type { IncomingMessage } from "node:http"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import { Failure, type FailureOf, type QuotaReading } from "../../schema/Failure.ts"
import { digestOf } from "../../services/Digest.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { makeQuota } from "../../services/combinators/Quota.ts"
import { Settings } from "../../services/Settings.ts"
import { untrustedProxyDetector } from "../transport/ClientAddress.ts"
import { Bounds } from "./Bounds.ts"
import type { Exchange } from "./Exchange.ts"

/** `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10); none without a reading. */
export const rateLimitHeaders = (readings: ReadonlyArray<QuotaReading>) =>
  readings.length === 0
    ? {}
    : {
        "ratelimit-policy": readings
          .map(({ policy }) => `"${policy.name}";q=${policy.quota};w=${policy.windowSeconds}`)
          .join(", "),
        ratelimit: readings
          .map(({ policy, remaining, resetSeconds }) => `"${policy.name}";r=${remaining};t=${resetSeconds}`)
          .join(", ")
      }

const refuse = (quota: QuotaReading) =>
  new Failure("rate_limited", { retryAfterSeconds: quota.retryAfterSeconds, quota })

/** Limits the requests of one client. Counts in this process only, in bounded memory. */
export class RateLimits extends Effect.Service<RateLimits>()("music/http/RateLimits", {
  effect: Effect.gen(function* () {
    const { rateLimit, trustedProxies } = yield* Settings
    const { address, credential } = yield* Bounds
    const isFromUntrustedProxy = untrustedProxyDetector(trustedProxies)
    const clock = yield* Effect.clock
    const byAddress = makeQuota(address)
    const byCredential = makeQuota(credential)
    const runFork = Runtime.runFork(yield* Effect.runtime<never>())

    let warned = false
    const warnOnce = (message: IncomingMessage): void => {
      if (warned || !isFromUntrustedProxy(message)) return
      warned = true
      runFork(
        Effect.logWarning("A proxy on this machine is not trusted, so all its clients share one limit", {
          fix: "set MUSIC_TRUSTED_PROXIES to its address, such as 127.0.0.1"
        })
      )
    }

    /** Counts a request against its credential and its address, and notes the quotas in it. */
    const count = (exchange: Exchange): FailureOf<"rate_limited"> | undefined => {
      if (!rateLimit) return undefined
      const now = unsafeMonotonicMillis(clock)
      warnOnce(exchange.message)
      // A refused use costs nothing, also not in the other quota: one client's loop would use up the address of all others.
      const key = Option.map(exchange.credential, ({ token }) => digestOf(token))
      const own = Option.toArray(Option.map(key, (digest) => byCredential.take(digest, now)))
      const used = own.find(({ retryAfterSeconds }) => retryAfterSeconds > 0)
      if (used !== undefined) return refuse(used)
      const ofAddress = byAddress.take(exchange.info.clientNetwork, now)
      if (ofAddress.retryAfterSeconds > 0) {
        if (Option.isSome(key)) byCredential.giveBack(key.value)
        return refuse(ofAddress)
      }
      exchange.quotas = [ofAddress, ...own]
      return undefined
    }
    return { count } as const
  })
}) {}
