/** The worker of the issue tracker: files reports and closes duplicate issues, one delivery at a time in all processes together. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Store, type StoreUnavailable, trackerDestination } from "../../services/Store.ts"
import { Tracker } from "../../services/Tracker.ts"
import type { DeliveryLimits } from "./DeliveryLimits.ts"
import { runDeliveryWorker } from "./DeliveryWorker.ts"
import { makeDestinationBreaker } from "./DestinationBreaker.ts"
import { makeDuplicateIssues } from "./DuplicateIssues.ts"
import type { LeasedDelivery } from "./Lease.ts"
import { makeReportFiling } from "./ReportFiling.ts"

/** Milliseconds. */
const longestBackoff = 5 * 60_000

export interface ReportDelivery {
  readonly run: Effect.Effect<never>
  /** The tracker refused the settings of any process. */
  readonly isStopped: Effect.Effect<boolean, StoreUnavailable>
}

export const makeReportDelivery = (
  reconcileSeconds: ReadonlyArray<number>,
  limits: DeliveryLimits
): Effect.Effect<ReportDelivery, never, Store | Tracker> =>
  Effect.gen(function* () {
    const store = yield* Store
    const tracker = yield* Tracker
    const advice = Effect.map(
      tracker.trouble,
      (trouble) =>
        `${Option.getOrElse(trouble, () => "it refuses our requests")}; repair MUSIC_GITHUB_TOKEN or MUSIC_GITHUB_REPOSITORY, or the repository's settings. It is retried automatically`
    )
    const breaker = makeDestinationBreaker(store.destinations, limits, {
      name: trackerDestination,
      title: "The tracker",
      longestBackoff,
      advice
    })
    const { firstBackoff, lease, sweepDelay } = limits
    const parts = { reports: store.reports, tracker, breaker, firstBackoff, sweepDelay }
    const fileReport = makeReportFiling({ ...parts, reconcileSeconds })
    const closeDuplicates = makeDuplicateIssues(parts)
    const handle = (leased: LeasedDelivery) => {
      switch (leased.delivery.kind) {
        case "report":
          return fileReport(leased)
        case "sweep":
          return closeDuplicates(leased)
      }
    }
    /** A process that starts may have other settings than the one that the tracker refused. */
    const resume = Effect.flatMap(Clock.currentTimeMillis, store.destinations.resumeTracker).pipe(
      Effect.catchAll(({ reason }) =>
        Effect.logWarning("The tracker's pause could not be ended; it ends by itself", { reason })
      )
    )
    const work = runDeliveryWorker(store, lease, {
      kinds: ["report", "sweep"],
      // GitHub requires sequential requests (issue-tracker.md 3).
      concurrency: 1,
      pauseMillis: breaker.pauseMillis,
      handle
    })
    return {
      run: Effect.zipRight(resume, work),
      isStopped: breaker.isStopped
    }
  })
