/** The background workers: they file reports, ship telemetry and remove old rows. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { DeliveryHealth } from "../../services/usecases/Readiness.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { Settings } from "../../services/Settings.ts"
import { Store, type StoreUnavailable, trackerDestination } from "../../services/Store.ts"
import { Tables } from "../../services/Tables.ts"
import { Tracker } from "../../services/Tracker.ts"
import { makeDuplicateIssues } from "./DuplicateIssues.ts"
import { underLease } from "./Lease.ts"
import { makeReportFiling } from "./ReportFiling.ts"
import { retentionSweep, telemetryExpiry } from "./Sweeps.ts"
import { makeTelemetryShipping } from "./TelemetryShipping.ts"
import { type DeliveryLimits, longestPausedSleep, makeBreaker, production, repeatRounds } from "./Worker.ts"

/** Milliseconds between attempts at a tracker that fails. */
const longestBackoff = 5 * 60_000
/** Between two searches for what falls due, or whose holder died. */
const pollInterval = "1 second"

/**
 * The worker of the tracker: it files reports and closes duplicate issues, one delivery at a time in all processes together, because GitHub
 * requires sequential requests (issue-tracker.md 3).
 *
 * Leases due deliveries and handles them, forever. Between them it sleeps until the store wakes it up, for a second at most. An interruption
 * releases the lease that it holds.
 */
const makeReportDelivery = (limits: DeliveryLimits) =>
  Effect.gen(function* () {
    const { deliveries, destinations, reports, wakeups } = yield* Store
    const tracker = yield* Tracker
    const { lease } = limits

    const breaker = makeBreaker(destinations, limits, {
      name: trackerDestination,
      title: "The tracker",
      longestBackoff,
      advice:
        "correct MUSIC_GITHUB_TOKEN or MUSIC_GITHUB_REPOSITORY and restart, or the repository's settings. It is tried again every five minutes"
    })
    const handlers = {
      report: makeReportFiling(reports, tracker, breaker, limits),
      sweep: makeDuplicateIssues(reports, tracker, breaker)
    }

    /** False when nothing was due. */
    const leaseAndHandle = Effect.gen(function* () {
      const endsAt = (yield* monotonicMillis) + lease
      const now = yield* Clock.currentTimeMillis
      const leased = yield* deliveries.lease({ now, leaseUntil: now + lease })
      if (Option.isNone(leased)) return false
      yield* underLease(deliveries, lease)(leased.value, endsAt, handlers[leased.value.kind])
      return true
    }).pipe(Effect.uninterruptible)

    const round = Effect.gen(function* () {
      const { pauseMillis } = yield* breaker.state
      if (pauseMillis > 0) return yield* Effect.sleep(Math.min(longestPausedSleep, pauseMillis))
      if (!(yield* leaseAndHandle)) yield* Effect.raceFirst(wakeups.deliveries, Effect.sleep(pollInterval))
    })

    return {
      run: repeatRounds("Report delivery")(round),
      /** The tracker refused the settings of any process. */
      isStopped: Effect.map(breaker.state, ({ stopped }) => stopped)
    }
  })

/** Below the time that readiness takes for the database (`services/usecases/Readiness.ts`). */
const checkTimeout = "400 millis"

/** A database that does not answer counts as `ok` here: it has a check of its own. */
const check = (configured: boolean, degraded: Effect.Effect<boolean, StoreUnavailable>) =>
  configured
    ? degraded.pipe(
        Effect.timeout(checkTimeout),
        Effect.orElseSucceed(() => false),
        Effect.map((isDegraded) => (isDegraded ? ("degraded" as const) : ("ok" as const)))
      )
    : Effect.succeed("off" as const)

/** The background workers with some limits changed. */
export const deliveryWith = (
  changes: Partial<DeliveryLimits>
): Layer.Layer<DeliveryHealth, never, Store | Tracker | Tables | Settings> =>
  Layer.scoped(
    DeliveryHealth,
    Effect.gen(function* () {
      const settings = yield* Settings
      const tracker = yield* Tracker
      const tables = yield* Tables
      const limits = { ...production, ...changes }
      const reports = yield* makeReportDelivery(limits)
      const shipping = yield* makeTelemetryShipping(limits)
      const ships = settings.telemetry.enabled && tables.open.size > 0
      const { destinations } = yield* Store
      /** A process that starts may have other settings than the one that was refused. A pause that stays ends by itself. */
      const resume = yield* Effect.cached(
        Effect.ignoreLogged(Effect.flatMap(Clock.currentTimeMillis, destinations.resume))
      )

      yield* Effect.forkScoped(telemetryExpiry)
      yield* Effect.forkScoped(retentionSweep)
      if (ships) yield* Effect.forkScoped(Effect.zipRight(resume, shipping.run))
      if (tracker.enabled) yield* Effect.forkScoped(Effect.zipRight(resume, reports.run))

      return {
        checks: Effect.all(
          {
            tracker: check(tracker.enabled, reports.isStopped),
            tables: check(ships, shipping.anyClosed)
          },
          { concurrency: "unbounded" }
        )
      }
    })
  )

/**
 * Runs the background workers while the layer lives. Each starts anew after a defect. Closing the layer stops the workers and releases
 * their leases. A tracker or table service that is not configured has no worker.
 */
export const DeliveryLive = deliveryWith({})
