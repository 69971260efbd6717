/** What all workers share: their limits, their loop, the backoff, the circuit breaker, and requests whose outcome is recorded even when the process stops. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import type * as Exit from "effect/Exit"
import { type Destinations, longestAhead, type StoreUnavailable } from "../../services/Store.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"

/** Times and numbers, in milliseconds unless noted otherwise. Tests lower them. */
export type DeliveryLimits = Omit<typeof production, "searchDelays"> & {
  readonly searchDelays: ReadonlyArray<number>
}

export const production = {
  /** Lease of a delivery without a heartbeat. Another process takes over a dead holder's delivery after this time. */
  lease: 10_000,
  /** Lease of telemetry records. It has no heartbeat: a request is cut off after two thirds of it. */
  telemetryLease: 12_000,
  /** Between two searches for telemetry records whose holder died. */
  telemetryPollInterval: 1_500,
  /** How long the first telemetry record waits for others to fill its batch. */
  batchDelay: 1_000,
  /** The first backoff after a failure. */
  firstBackoff: 1_000,
  /** Between two attempts at a destination whose settings an operator must repair, and at a table whose key is unknown. */
  probeInterval: 5 * 60_000,
  /** Between two writes to the tracker (issue-tracker.md 3). */
  writeSpacing: 1_000,
  /** Writes in any hour, a count. Below GitHub's 500, which also include writes by people (issue-tracker.md 3). */
  hourlyWrites: 450,
  /** From a send with unknown outcome to each search for its issue, rising. */
  searchDelays: [5_000, 15_000, 40_000],
  /** From a repeated send to the search for duplicate issues (issue-tracker.md 4.6). */
  sweepDelay: Duration.toMillis("1 hour")
}

/**
 * Milliseconds until the next attempt after `failures` in a row: `first` after one, twice as many after each further one, and `longest` at
 * most, with a jitter of a fifth. Many failures are counted in the database.
 */
const backoffDelay = (first: number, longest: number, failures: number): Effect.Effect<number> =>
  // 30 doublings keep the power finite; every policy reaches its longest delay before.
  Effect.map(Random.nextRange(0.8, 1.2), (jitter) =>
    Math.round(Math.min(longest, first * 2 ** Math.min(30, failures - 1)) * jitter)
  )

/** Short, so that waiting work continues soon after the database returns. */
const restarts = Schedule.exponential("1 second").pipe(
  Schedule.union(Schedule.spaced("5 seconds")),
  Schedule.jittered
)

/**
 * Repeats `round` forever, and tries it again while the database is away or it has a defect. Logs each defect, and of an outage the begin
 * and the end.
 */
export const repeatRounds =
  (worker: string) =>
  <R>(round: Effect.Effect<unknown, StoreUnavailable, R>): Effect.Effect<never, never, R> =>
    Effect.suspend(() => {
      let away = false
      const logFailure = (cause: Cause.Cause<StoreUnavailable>) =>
        Option.match(Cause.failureOption(cause), {
          onNone: () => Effect.logError(`${worker} failed and restarts`, Cause.pretty(cause)),
          onSome: ({ reason }) => {
            const log = away ? Effect.logDebug : Effect.logWarning
            away = true
            return log(`${worker}: waiting for the database`, { reason })
          }
        })
      const logRecovery = Effect.suspend(() => {
        const wasAway = away
        away = false
        return wasAway ? Effect.logInfo(`${worker}: the database answers again`) : Effect.void
      })
      return Effect.sandbox(round).pipe(
        Effect.tapError(logFailure),
        Effect.retry(restarts),
        // The schedule never ends, so no failure is left; the type does not show it.
        Effect.orDie,
        Effect.zipRight(logRecovery),
        Effect.forever
      )
    })

/** How long a stop of the process waits for a request, so that its outcome need not stay unknown. */
const stopGrace = Duration.seconds(2)

/**
 * Records the outcome of a request even when it is interrupted, by a stop of the process or the loss of a lease: the
 * request then has a while to end, and its outcome is recorded before the interruption continues.
 */
export const uninterruptedRequest =
  <A, E, B, E2>(record: (exit: Exit.Exit<A, E>) => Effect.Effect<B, E2>) =>
  (request: Effect.Effect<A, E>): Effect.Effect<B, E2> =>
    Effect.gen(function* () {
      // A child fiber would be interrupted together with this one, before its outcome is known.
      // Its failure is recorded, and not logged as one that nothing handles.
      const fiber = yield* Effect.forkDaemon(Effect.interruptible(request)).pipe(
        Effect.withUnhandledErrorLogLevel(Option.none())
      )
      const answer = Effect.interruptible(Fiber.await(fiber))
      const recordLate = Effect.timeout(answer, stopGrace).pipe(
        Effect.catchAll(() => Fiber.interrupt(fiber)),
        Effect.flatMap(record),
        // The interruption drops the error channel, so a failure is only logged.
        Effect.ignoreLogged
      )
      return yield* record(yield* Effect.onInterrupt(answer, () => recordLate))
    }).pipe(Effect.uninterruptible)

/** Milliseconds: the longest sleep of a worker during a pause, before it reads the stored state again. */
export const longestPausedSleep = 30_000

/** Milliseconds between the attempts of one delivery, at most. */
const longestOwnBackoff = 10 * 60_000

/** Milliseconds: a longer wait is logged, because reports wait visibly. */
const longPause = 60_000

/** A refusal that concerns credentials, permission or repository, not the content of the request. */
export const isConfigurationRefusal = (failure: UpstreamFailure): boolean =>
  failure._tag === "Refused" &&
  ([401, 403, 404, 410].includes(failure.status) || (failure.status >= 300 && failure.status < 400))

export const describeFailure = (failure: UpstreamFailure): string =>
  failure._tag === "Refused" ? `refused: ${failure.status} ${failure.code}` : failure.reason

export type Breaker = ReturnType<typeof makeBreaker>

/**
 * Circuit breaker of a destination: the tracker, the table service, or one table whose key the service may not know. Its state is stored,
 * so it holds for all processes and across restarts: a rate limit or a bad token concerns everything that waits.
 */
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
    readonly advice: string
  }
) => {
  // The state serves later requests; the outcome of the current delivery is stored without it.
  const ignoreUnavailable = <A>(effect: Effect.Effect<A, StoreUnavailable>): Effect.Effect<A | undefined> =>
    Effect.catchAll(effect, ({ reason }) =>
      Effect.as(Effect.logWarning(`The state of ${name} could not be read or written`, { reason }), undefined)
    )

  /** Stores a failure. Returns for how many milliseconds all requests pause. */
  const recordFailure = (failure: UpstreamFailure) =>
    Effect.gen(function* () {
      const stopped = isConfigurationRefusal(failure)
      const state = yield* ignoreUnavailable(destinations.find(name))
      // Retry-After is the minimum: repeated limits lead to longer pauses.
      const ownPause = yield* backoffDelay(limits.firstBackoff, longestBackoff, (state?.failures ?? 0) + 1)
      const pause = stopped
        ? limits.probeInterval
        : Math.max(ownPause, (failure.retryAfterSeconds ?? 0) * 1000)
      const now = yield* Clock.currentTimeMillis
      const text = describeFailure(failure)
      const before = yield* ignoreUnavailable(
        destinations.failed(name, { pausedUntil: now + pause, stopped, failure: text })
      )
      const facts = {
        failure: text,
        pausedUntil: new Date(now + pause).toISOString(),
        upstreamRequestId: failure._tag === "Refused" ? failure.requestId : undefined
      }
      const isKnown = before?.stopped === true && Option.getOrUndefined(before.lastFailure) === text
      // Only the transition is logged above debug, by the process that causes it.
      if (failure._tag === "Refused" && stopped && !isKnown)
        yield* Effect.logError(`${title} refuses our settings; waiting work is kept`, {
          ...facts,
          advice: failure.advice === undefined ? advice : `${failure.advice}; ${advice}`
        })
      else
        yield* (!stopped && before?.failures === 0 ? Effect.logWarning : Effect.logDebug)(
          `${title} is not available`,
          facts
        )
      return pause
    })

  /**
   * When a delivery whose attempt failed is due again, after so many attempts; milliseconds since the epoch. Other requests may succeed
   * while each of its own is lost: then its attempts become rarer.
   */
  const dueAfter = (failure: UpstreamFailure, attempts: number) =>
    Effect.gen(function* () {
      const pause = yield* recordFailure(failure)
      const ownPause = yield* backoffDelay(limits.firstBackoff, longestOwnBackoff, attempts)
      return (yield* Clock.currentTimeMillis) + Math.max(pause, ownPause)
    })

  const recordSuccess = (wrote: boolean) =>
    Effect.gen(function* () {
      const known = yield* ignoreUnavailable(destinations.find(name))
      if (known === undefined || known.failures === 0 || (known.stopped && !wrote)) return
      const before = yield* ignoreUnavailable(destinations.answered(name, { wrote }))
      if (before !== undefined && before.failures > 0) yield* Effect.logInfo(`${title} is available again`)
    })

  /** Reserves a write at the pace that all processes share, and sleeps until it is due: up to an hour. */
  const reserveWrite = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const { hourlyWrites: hourly, writeSpacing: spacing } = limits
    const at = yield* destinations.reserveWrite(name, { now, spacing, hourly })
    if (at - now >= longPause)
      yield* Effect.logWarning(`${title} is paused: the writes of this hour are used up`, {
        hourlyWrites: hourly,
        pausedUntil: new Date(at).toISOString()
      })
    yield* Effect.sleep(Math.max(0, at - now))
  })

  /** `stopped`: it refused the settings, and no write was accepted since. Milliseconds until requests are allowed again; 0 when they are. */
  const state = Effect.zipWith(
    destinations.find(name),
    Clock.currentTimeMillis,
    ({ pausedUntil, stopped }, now) => ({
      stopped,
      pauseMillis: pausedUntil > now + longestAhead ? 0 : Math.max(0, pausedUntil - now)
    })
  )

  return {
    recordFailure,
    dueAfter,
    /** Stores that a search was answered, which does not prove the right to write. */
    recordAnswer: recordSuccess(false),
    /** Stores that a write was accepted. */
    recordWrite: recordSuccess(true),
    state,
    reserveWrite
  }
}
