/** How a destination fares as a whole, for all processes and across restarts: one limit or one bad token concerns everything that waits. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { pauseLeft } from "../../services/ClockSkew.ts"
import type { Destinations, StoreUnavailable } from "../../services/Store.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"
import type { DeliveryLimits } from "./DeliveryLimits.ts"
import { backoff } from "./Backoff.ts"

/** Refusals of the destination, not of what was sent: credentials, permission, repository. */
export const isConfiguration = (failure: UpstreamFailure): boolean =>
  failure._tag === "Refused" &&
  ([401, 403, 404, 410].includes(failure.status) || (failure.status >= 300 && failure.status < 400))

export const describe = (failure: UpstreamFailure): string =>
  failure._tag === "Refused" ? `refused: ${failure.status} ${failure.code}` : failure.reason

export interface DestinationBreaker {
  /** Notes a failure and tells for how many milliseconds everything pauses. */
  readonly failed: (failure: UpstreamFailure) => Effect.Effect<number>
  /** A look was answered: that tells nothing about the right to write. */
  readonly answered: Effect.Effect<void>
  /** A write was taken. */
  readonly accepted: Effect.Effect<void>
  /** It failed last, and its pause is over: the next one that is answered should say so. */
  readonly recovering: Effect.Effect<boolean, StoreUnavailable>
  /** Milliseconds for which nothing may be asked of it. */
  readonly paused: Effect.Effect<number, StoreUnavailable>
  /** Completes when the next so many writes in a row may begin; their pace is kept by all processes together. */
  readonly turn: (writes: number) => Effect.Effect<void, StoreUnavailable>
  /** It refused our settings, and nothing was taken since. */
  readonly stopped: Effect.Effect<boolean, StoreUnavailable>
}

export const makeDestinationBreaker = (
  destinations: Destinations,
  bounds: DeliveryLimits,
  {
    advice,
    longestPause,
    name,
    title
  }: {
    readonly name: string
    /** Milliseconds after a failure that asks for no pause; it doubles up to here, jittered by a fifth. */
    readonly longestPause: number
    /** What the log calls it. */
    readonly title: string
    /** What an operator should do about settings that it refused. */
    readonly advice: Effect.Effect<string>
  }
): DestinationBreaker => {
  // What is known of the destination helps the next one; this delivery's own outcome is written without it.
  const noted = <A>(effect: Effect.Effect<A, StoreUnavailable>): Effect.Effect<A | undefined> =>
    Effect.catchAll(effect, ({ reason }) =>
      Effect.as(Effect.logWarning(`How ${name} fares could not be written`, { reason }), undefined)
    )

  const failed = (failure: UpstreamFailure) =>
    Effect.gen(function* () {
      const stops = isConfiguration(failure)
      const known = yield* noted(destinations.find(name))
      // What it asks for is the least: whoever limits us again and again is left alone for longer each time.
      const own = yield* backoff((known?.failures ?? 0) + 1, bounds.firstPause, longestPause)
      const pause = stops ? bounds.repairPause : Math.max(own, (failure.retryAfterSeconds ?? 0) * 1000)
      const now = yield* Clock.currentTimeMillis
      const before = yield* noted(
        destinations.failed(name, {
          now,
          pausedUntil: now + pause,
          stopped: stops,
          failure: describe(failure)
        })
      )
      const facts = {
        failure: describe(failure),
        pauseMillis: pause,
        ...(failure._tag === "Refused" && failure.requestId !== undefined
          ? { upstreamRequestId: failure.requestId }
          : {})
      }
      // A trouble that lasts is told once: not with every try, and not by every process.
      if (stops && before?.stopped !== true)
        yield* Effect.logError(`${title} refuses our settings; what waits is kept`, {
          ...facts,
          advice: yield* advice
        })
      else if (!stops && before?.failures === 0) yield* Effect.logWarning(`${title} is not available`, facts)
      else yield* Effect.logDebug(`${title} is still not available`, facts)
      return pause
    })

  const better = (wrote: boolean) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const before = yield* noted(destinations.answered(name, { now, wrote }))
      if (before === undefined || before.failures === 0 || (before.stopped && !wrote)) return
      yield* Effect.logInfo(`${title} is available again`)
    })

  const turn = (writes: number) =>
    Effect.gen(function* () {
      const pace = { spacing: bounds.writeSpacing, hourly: bounds.hourlyWrites }
      const now = yield* Clock.currentTimeMillis
      const at = yield* destinations.reserveWrite(name, { ...pace, now })
      for (let more = 1; more < writes; more += 1) yield* destinations.reserveWrite(name, { ...pace, now })
      if (at > now) yield* Effect.sleep(at - now)
    })

  return {
    failed,
    answered: better(false),
    accepted: better(true),
    recovering: Effect.zipWith(
      destinations.find(name),
      Clock.currentTimeMillis,
      ({ failures, pausedUntil }, now) => failures > 0 && pauseLeft(pausedUntil, now) === 0
    ),
    paused: Effect.zipWith(destinations.find(name), Clock.currentTimeMillis, ({ pausedUntil }, now) =>
      pauseLeft(pausedUntil, now)
    ),
    turn,
    stopped: Effect.map(destinations.find(name), ({ stopped }) => stopped)
  }
}
