/** The background workers: they file reports, ship telemetry and remove old rows. */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { DeliveryHealth } from "../../services/DeliveryHealth.ts"
import { Settings } from "../../services/Settings.ts"
import { Store, type StoreUnavailable, trackerDestination } from "../../services/Store.ts"
import { Tables } from "../../services/Tables.ts"
import { Tracker } from "../../services/Tracker.ts"
import { makeBreaker } from "./Breaker.ts"
import { type DeliveryLimits, production } from "./DeliveryLimits.ts"
import { runDeliveryWorker } from "./DeliveryWorker.ts"
import { makeDuplicateIssues } from "./DuplicateIssues.ts"
import { makeReportFiling } from "./ReportFiling.ts"
import { makeRetentionSweep, makeTelemetryExpiry } from "./Sweeps.ts"
import { makeTelemetryShipping } from "./TelemetryShipping.ts"

/** Below the time that readiness takes for the database (`services/Readiness.ts`). */
const checkTimeout = Duration.millis(400)
/** Milliseconds between attempts at a tracker that fails. */
const longestTrackerBackoff = 5 * 60_000

/** A database that does not answer counts as `ok` here: it has a check of its own. */
const check = (configured: boolean, degraded: Effect.Effect<boolean, StoreUnavailable>) =>
  configured
    ? degraded.pipe(
        Effect.timeout(checkTimeout),
        Effect.orElseSucceed(() => false),
        Effect.map((isDegraded) => (isDegraded ? ("degraded" as const) : ("ok" as const)))
      )
    : Effect.succeed("off" as const)

/** The worker of the tracker: files reports and closes duplicate issues, one delivery at a time in all processes together. */
const makeReportDelivery = (limits: DeliveryLimits) =>
  Effect.gen(function* () {
    const settings = yield* Settings
    const store = yield* Store
    const tracker = yield* Tracker
    const breaker = makeBreaker(store.destinations, limits, {
      name: trackerDestination,
      title: "The tracker",
      longestBackoff: longestTrackerBackoff,
      advice: Effect.map(
        tracker.trouble,
        (trouble) =>
          `${Option.getOrElse(trouble, () => "it refuses our requests")}; repair MUSIC_GITHUB_TOKEN or MUSIC_GITHUB_REPOSITORY, or the repository's settings. It is retried automatically`
      )
    })
    const { firstBackoff, sweepDelay } = limits
    const reconcileSeconds = Option.match(settings.tracker, {
      onNone: () => [],
      onSome: (target) => target.reconcileSeconds
    })
    const parts = { reports: store.reports, tracker, breaker, firstBackoff, sweepDelay }
    const handlers = {
      report: makeReportFiling({ ...parts, reconcileSeconds }),
      sweep: makeDuplicateIssues(parts)
    }
    /** A process that starts may have other settings than the one that the tracker refused. */
    const resume = Effect.flatMap(Clock.currentTimeMillis, store.destinations.resumeTracker).pipe(
      Effect.catchAll(({ reason }) =>
        Effect.logWarning("The tracker's pause could not be ended; it ends by itself", { reason })
      )
    )
    const work = runDeliveryWorker(store, limits.lease, {
      kinds: ["report", "sweep"],
      // GitHub requires sequential requests (issue-tracker.md 3).
      concurrency: 1,
      pauseMillis: Effect.map(breaker.state, ({ pauseMillis }) => pauseMillis),
      handle: (leased) => handlers[leased.delivery.kind](leased)
    })
    return {
      run: Effect.zipRight(resume, work),
      /** The tracker refused the settings of any process. */
      isStopped: Effect.map(breaker.state, ({ stopped }) => stopped)
    }
  })

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
      const given = { ...production, ...changes }
      // Report filing stops first and needs time too; both must fit into the grace period.
      const telemetryStopGrace = Math.min(given.telemetryStopGrace, settings.shutdownGraceSeconds * 250)
      const limits = { ...given, telemetryStopGrace }
      const reports = yield* makeReportDelivery(limits)
      const shipping = yield* makeTelemetryShipping(limits)
      const ships = settings.telemetry.enabled && tables.open.size > 0

      yield* Effect.forkScoped(yield* makeTelemetryExpiry)
      yield* Effect.forkScoped(yield* makeRetentionSweep)
      if (ships) yield* Effect.forkScoped(shipping.run)
      if (tracker.enabled) yield* Effect.forkScoped(reports.run)

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
