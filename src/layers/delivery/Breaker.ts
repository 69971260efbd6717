/**
 * Circuit breaker of a destination: the tracker, the table service, or one table whose key the service may not know. Its state is stored,
 * so it holds for all processes and across restarts: a rate limit or a bad token concerns everything that waits.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Destinations, StoreUnavailable } from "../../services/Store.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"
import type { DeliveryLimits } from "./DeliveryLimits.ts"
import { backoffDelay } from "./Worker.ts"

/** Milliseconds: the longest sleep of a worker during a pause, before it reads the stored state again. */
export const longestPausedSleep = 30_000

/** Milliseconds: a longer wait is logged, because reports wait visibly. */
const longPause = 60_000

const timeText = (millis: number): string => new Date(millis).toISOString()

/** A refusal that concerns credentials, permission or repository, not the content of the request. */
export const isConfigurationRefusal = (failure: UpstreamFailure): boolean =>
  failure._tag === "Refused" &&
  ([401, 403, 404, 410].includes(failure.status) || (failure.status >= 300 && failure.status < 400))

export const describeFailure = (failure: UpstreamFailure): string =>
  failure._tag === "Refused" ? `refused: ${failure.status} ${failure.code}` : failure.reason

export interface BreakerState {
  /** The destination refused the settings, and no write was accepted since. */
  readonly stopped: boolean
  /** In a row. */
  readonly failures: number
  /** Milliseconds until requests are allowed again; 0 when they are. */
  readonly pauseMillis: number
}

export interface Breaker {
  /** Stores a failure. Returns for how many milliseconds all requests pause. */
  readonly recordFailure: (failure: UpstreamFailure) => Effect.Effect<number>
  /** Stores that a search was answered, which does not prove the right to write. */
  readonly recordAnswer: Effect.Effect<void>
  /** Stores that a write was accepted. */
  readonly recordWrite: Effect.Effect<void>
  readonly state: Effect.Effect<BreakerState, StoreUnavailable>
  /** Reserves so many writes in a row at the pace that all processes share, and sleeps until the first is due. */
  readonly reserveWrites: (count: number) => Effect.Effect<void, StoreUnavailable>
  /** Reserves the next attempt at a destination that is stopped, for one of all processes: false for the others. */
  readonly reserveProbe: Effect.Effect<boolean, StoreUnavailable>
}

export const makeBreaker = (
  destinations: Destinations,
  limits: DeliveryLimits,
  {
    advice,
    longestBackoff,
    name,
    title
  }: {
    readonly name: string
    /** Milliseconds. Applies to failures without a Retry-After. */
    readonly longestBackoff: number
    /** Its name in the log. */
    readonly title: string
    /** How an operator repairs settings that were refused. */
    readonly advice: Effect.Effect<string>
  }
): Breaker => {
  const backoff = { first: limits.firstBackoff, longest: longestBackoff }

  // The state serves later requests; the outcome of the current delivery is stored without it.
  const ignoreUnavailable = <A>(effect: Effect.Effect<A, StoreUnavailable>): Effect.Effect<A | undefined> =>
    Effect.catchAll(effect, ({ reason }) =>
      Effect.as(Effect.logWarning(`The state of ${name} could not be read or written`, { reason }), undefined)
    )

  const recordFailure = (failure: UpstreamFailure) =>
    Effect.gen(function* () {
      const stopped = isConfigurationRefusal(failure)
      const state = yield* ignoreUnavailable(destinations.find(name))
      // Retry-After is the minimum: repeated limits lead to longer pauses.
      const ownPause = yield* backoffDelay(backoff, (state?.failures ?? 0) + 1)
      const asked = (failure.retryAfterSeconds ?? 0) * 1000
      const pause = stopped ? limits.probeInterval : Math.max(ownPause, asked)
      const now = yield* Clock.currentTimeMillis
      const text = describeFailure(failure)
      const before = yield* ignoreUnavailable(
        destinations.failed(name, { now, pausedUntil: now + pause, stopped, failure: text })
      )
      const facts = {
        failure: text,
        pauseMillis: pause,
        pausedUntil: timeText(now + pause),
        ...(failure._tag === "Refused" && failure.requestId !== undefined
          ? { upstreamRequestId: failure.requestId }
          : {})
      }
      // Only the transition is logged above debug, by the process that causes it.
      if (stopped && before?.stopped !== true)
        yield* Effect.logError(`${title} refuses our settings; waiting work is kept`, {
          ...facts,
          advice: yield* advice
        })
      else if (!stopped && before?.failures === 0)
        yield* Effect.logWarning(`${title} is not available`, facts)
      else if (asked >= longPause && before !== undefined && !Option.contains(before.lastFailure, text))
        yield* Effect.logWarning(`${title} asks for a pause`, facts)
      else yield* Effect.logDebug(`${title} is still not available`, facts)
      return pause
    })

  const recordSuccess = (wrote: boolean) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const before = yield* ignoreUnavailable(destinations.answered(name, { now, wrote }))
      if (before === undefined || before.failures === 0 || (before.stopped && !wrote)) return
      yield* Effect.logInfo(`${title} is available again`)
    })

  const reserveWrites = (count: number) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const pace = { now, spacing: limits.writeSpacing, hourly: limits.hourlyWrites }
      const at = yield* destinations.reserveWrite(name, pace)
      for (let more = 1; more < count; more += 1) yield* destinations.reserveWrite(name, pace)
      if (at <= now) return
      // Writes are handled one at a time in all processes together, so that one process logs it.
      const isLong = at - now >= longPause
      if (isLong)
        yield* Effect.logWarning(`${title} is paused: the writes of this hour are used up`, {
          hourlyWrites: limits.hourlyWrites,
          pausedUntil: timeText(at)
        })
      yield* Effect.sleep(at - now)
      if (isLong) yield* Effect.logInfo(`${title} takes writes again`)
    })

  /** Stored as a failure in advance; an accepted write clears it. */
  const reserveProbe = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const trouble = { now, pausedUntil: now + limits.probeInterval, stopped: true, failure: "probing" }
    return (yield* destinations.failed(name, trouble)).pausedUntil <= now
  })

  const state = Effect.zipWith(
    destinations.find(name),
    Clock.currentTimeMillis,
    ({ failures, pausedUntil, stopped }, now) => ({
      failures,
      stopped,
      pauseMillis: Math.max(0, pausedUntil - now)
    })
  )

  return {
    recordFailure,
    recordAnswer: recordSuccess(false),
    recordWrite: recordSuccess(true),
    state,
    reserveWrites,
    reserveProbe
  }
}
