import type { IncomingMessage } from "node:http"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { RateLimited } from "../../schema/Failure.ts"
import type { Credential } from "../../services/Caller.ts"
import { digestOf } from "../../services/Digest.ts"
import { Settings } from "../../services/Settings.ts"
import { CurrentTrial, type Trial } from "../../services/Trial.ts"
import { clientAddressFor, networkOf, strangeProxyFor } from "./ClientAddress.ts"
import { CurrentExchange } from "./Exchange.ts"

export interface Policy {
  readonly name: string
  /** Requests within the window, all of which may come at once. */
  readonly quota: number
  readonly windowSeconds: number
}

/** One client address (a /64 of IPv6), one access token, and what IAM refused of one address. */
export interface Policies {
  readonly address: Policy
  readonly credential: Policy
  readonly refusals: Policy
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

  const take = (key: string, now: number): Reading => {
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

  /** Undoes one `take` that was admitted. */
  const giveBack = (key: string): void => {
    const full = fullAt.get(key)
    if (full !== undefined) fullAt.set(key, full - interval)
  }

  return { take, giveBack }
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

/** The same with one more reading. */
const withReading = (
  rate: Readonly<Record<string, string>>,
  reading: Reading
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
const trialOf = (
  buckets: ReturnType<typeof bucketsFor>,
  key: string,
  heldBack: (reading: Reading) => void
) => {
  let taken = false
  let lost = false
  const take = Effect.map(Clock.currentTimeMillis, (now) => {
    if (taken) return 0
    const reading = buckets.take(key, now)
    taken = reading.retryAfterSeconds === 0
    if (!taken) heldBack(reading)
    return reading.retryAfterSeconds
  })
  const trial: Trial = {
    begin: take,
    lost: Effect.map(Clock.currentTimeMillis, (now) => {
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
        const byAddress = bucketsFor(policies.address)
        const byCredential = bucketsFor(policies.credential)
        const refusals = bucketsFor(policies.refusals)

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
            const now = yield* Clock.currentTimeMillis
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
