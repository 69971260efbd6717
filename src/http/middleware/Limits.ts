import type { IncomingMessage } from "node:http"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { RateLimited } from "../../schema/Failure.ts"
import type { Credential } from "../../services/Caller.ts"
import { digestOf } from "../../services/Digest.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { makeQuota, type Quota, type QuotaPolicy, type QuotaReading } from "../../services/Quota.ts"
import { Settings } from "../../services/Settings.ts"
import { CurrentTrial, type Trial } from "../../services/Trial.ts"
import { clientAddressFor, networkOf, strangeProxyFor } from "./ClientAddress.ts"
import { CurrentExchange } from "./Exchange.ts"

/** One client address (a /64 of IPv6), one access token, and what IAM refused of one address. */
export interface Policies {
  readonly address: QuotaPolicy
  readonly credential: QuotaPolicy
  readonly refusals: QuotaPolicy
}

/**
 * What every deployment has; a gateway that limits by itself makes them needless. IAM gives the whole application 120
 * calls a minute and path, and blocks all of it for a minute beyond that: with 30 at once and 30 a minute one address
 * takes at most half of them in any minute. An office behind one address has room: a daemon with a dead token costs two
 * a minute, an expired token one in half an hour, and who is known to IAM none.
 */
export const defaultPolicies: Policies = {
  address: { name: "address", quota: 1_200, windowSeconds: 60 },
  credential: { name: "credential", quota: 600, windowSeconds: 60 },
  refusals: { name: "refusals", quota: 30, windowSeconds: 60 }
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

/**
 * A request's trial. The try is taken before IAM is asked, or many strangers at once would all pass before the first was
 * refused, and given back when nothing was. Who hangs up before the verdict does not get it back.
 */
const trialOf = (buckets: Quota, key: string, heldBack: (reading: QuotaReading) => void) => {
  let taken = false
  let lost = false
  const take = Effect.map(monotonicMillis, (now) => {
    if (taken) return 0
    const reading = buckets.take(key, now)
    taken = reading.retryAfterSeconds === 0
    if (!taken) heldBack(reading)
    return reading.retryAfterSeconds
  })
  const trial: Trial = {
    begin: take,
    lost: Effect.map(monotonicMillis, (now) => {
      lost = true
      if (!taken) taken = buckets.take(key, now).retryAfterSeconds === 0
    })
  }
  const settle = (exit: Exit.Exit<unknown, unknown>): Effect.Effect<void> =>
    Effect.sync(() => {
      if (taken && !lost && !Exit.isInterrupted(exit)) buckets.giveBack(key)
    })
  return { trial, settle }
}

const untried = <A, E, R>(use: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => use

/** How often one client may ask; off when a gateway limits instead. State lives in this process and is bounded. */
export class Limits extends Context.Tag("music/http/Limits")<
  Limits,
  {
    /** Counts the request in hand against its address and its credential. */
    readonly admit: (credential: Option.Option<Credential>) => Effect.Effect<void, RateLimited>
    /** Runs the request in hand on trial: what IAM refuses of it counts against its address. */
    readonly onTrial: <A, E, R>(use: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  }
>() {
  static readonly layer = (policies: Policies = defaultPolicies): Layer.Layer<Limits, never, Settings> =>
    Layer.effect(
      Limits,
      Effect.gen(function* () {
        const { rateLimit, trustedProxies } = yield* Settings
        if (!rateLimit) return { admit: () => Effect.void, onTrial: untried }
        const addressOf = clientAddressFor(trustedProxies)
        const isStrangeProxy = strangeProxyFor(trustedProxies)
        const byAddress = makeQuota(policies.address)
        const byCredential = makeQuota(policies.credential)
        const refusals = makeQuota(policies.refusals)

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
            const exchange = yield* CurrentExchange
            if (exchange === undefined) return
            yield* warnOf(exchange.message)
            const now = yield* monotonicMillis
            const readings = [
              byAddress.take(networkOf(addressOf(exchange.message)), now),
              ...Option.match(credential, {
                onNone: () => [],
                onSome: ({ token }) => [byCredential.take(digestOf(token), now)]
              })
            ]
            exchange.rate = headersOf(readings)
            const retryAfterSeconds = Math.max(...readings.map((reading) => reading.retryAfterSeconds))
            if (retryAfterSeconds > 0) return yield* new RateLimited({ retryAfterSeconds })
          })

        const onTrial = <A, E, R>(use: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
          Effect.flatMap(CurrentExchange, (exchange) => {
            if (exchange === undefined) return use
            const { settle, trial } = trialOf(refusals, networkOf(addressOf(exchange.message)), (reading) => {
              exchange.rate = withReading(exchange.rate, reading)
            })
            return Effect.onExit(Effect.provideService(use, CurrentTrial, trial), settle)
          })

        return { admit, onTrial }
      })
    )
}
