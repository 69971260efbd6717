/**
 * The worker of the tracker: files reports and closes duplicate issues, one delivery at a time in all processes together, because GitHub
 * requires sequential requests (issue-tracker.md 3).
 *
 * Not `SqlPersistedQueue` of `@effect/experimental`: it repeats a failed job at once and without a pause, keeps no record
 * of an exhausted job, and a dead worker's job stays locked for minutes.
 */
import { randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { Store, type StoreUnavailable, trackerDestination } from "../../services/Store.ts"
import { Tracker } from "../../services/Tracker.ts"
import { longestPausedSleep, makeBreaker } from "./Breaker.ts"
import type { DeliveryLimits } from "./DeliveryLimits.ts"
import { makeDuplicateIssues } from "./DuplicateIssues.ts"
import { type LeasedDelivery, underLease } from "./Lease.ts"
import { makeReportFiling } from "./ReportFiling.ts"
import { repeatRounds } from "./Worker.ts"

/** Milliseconds between attempts at a tracker that fails. */
const longestBackoff = 5 * 60_000
/** Milliseconds until the next attempt after a lease that took nothing, because another transaction locks the row. */
const fruitlessLeasePause = 250

const kinds = ["report", "sweep"] as const

export interface ReportDelivery {
  /**
   * Leases due deliveries and handles them, forever. Between them it sleeps until the store wakes it up, a delivery falls due, or a lease of
   * another process may have ended. An interruption releases the lease that it holds.
   */
  readonly run: Effect.Effect<never>
  /** The tracker refused the settings of any process. */
  readonly isStopped: Effect.Effect<boolean, StoreUnavailable>
}

export const makeReportDelivery = (
  limits: DeliveryLimits
): Effect.Effect<ReportDelivery, never, Store | Tracker> =>
  Effect.gen(function* () {
    const { deliveries, destinations, reports, wakeups } = yield* Store
    const tracker = yield* Tracker
    const { firstBackoff, lease, searchDelays, sweepDelay } = limits
    const owner = yield* Effect.sync(() => `deliveries-${randomUUID()}`)
    // Another process may lease something in the meantime: its lease must be seen before it ends.
    const longestSleep = Math.floor(lease / 2)

    const breaker = makeBreaker(destinations, limits, {
      name: trackerDestination,
      title: "The tracker",
      longestBackoff,
      advice: Effect.map(
        tracker.trouble,
        (trouble) =>
          `${Option.getOrElse(trouble, () => "it refuses our requests")}; repair MUSIC_GITHUB_TOKEN or MUSIC_GITHUB_REPOSITORY, or the repository's settings. It is retried automatically`
      )
    })
    const parts = { reports, tracker, breaker, firstBackoff, sweepDelay }
    const handlers = {
      report: makeReportFiling({ ...parts, searchDelays }),
      sweep: makeDuplicateIssues(parts)
    }

    const handle = (leased: LeasedDelivery) =>
      Effect.gen(function* () {
        const { availableAt, kind, lastFailure } = leased.delivery
        // Another process may have reached a limit since this round began.
        const { pauseMillis } = yield* breaker.state
        if (pauseMillis === 0) return yield* handlers[kind](leased)
        yield* leased.release(
          availableAt,
          Option.getOrElse(lastFailure, () => "the destination was paused")
        )
      })

    /** False when nothing was due. */
    const leaseAndHandle = Effect.gen(function* () {
      const endsAt = (yield* monotonicMillis) + lease
      const now = yield* Clock.currentTimeMillis
      const request = { kinds, count: 1, concurrency: 1, now, leaseUntil: now + lease, owner }
      const [delivery] = yield* deliveries.lease(request)
      if (delivery === undefined) return false
      yield* underLease(deliveries, lease)(delivery, endsAt, handle)
      return true
    }).pipe(Effect.uninterruptible)

    const sleepUntilDue = Effect.gen(function* () {
      const dueAt = yield* deliveries.nextDueAt(kinds, 1)
      const now = yield* Clock.currentTimeMillis
      const wait = Option.match(dueAt, {
        onNone: () => longestSleep,
        onSome: (at) => (at > now ? at - now : fruitlessLeasePause)
      })
      yield* Effect.raceFirst(wakeups.deliveries, Effect.sleep(Math.min(longestSleep, wait)))
    })

    const round = Effect.gen(function* () {
      const { pauseMillis } = yield* breaker.state
      if (pauseMillis > 0) return yield* Effect.sleep(Math.min(longestPausedSleep, pauseMillis))
      if (!(yield* leaseAndHandle)) yield* sleepUntilDue
    })

    /** A process that starts may have other settings than the one that the tracker refused. */
    const resume = Effect.flatMap(Clock.currentTimeMillis, destinations.resumeTracker).pipe(
      Effect.catchAll(({ reason }) =>
        Effect.logWarning("The tracker's pause could not be ended; it ends by itself", { reason })
      )
    )

    return {
      run: Effect.zipRight(resume, repeatRounds("Report delivery")(round)),
      isStopped: Effect.map(breaker.state, ({ stopped }) => stopped)
    }
  })
