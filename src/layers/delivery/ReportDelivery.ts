/** The work for the tracker: stored reports and late looks for duplicates, one at a time in all processes together. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Store, type StoreUnavailable } from "../../services/Store.ts"
import { Tracker } from "../../services/Tracker.ts"
import type { DeliveryLimits } from "./DeliveryLimits.ts"
import { makeDestinationBreaker } from "./DestinationBreaker.ts"
import { makeDuplicateIssues } from "./DuplicateIssues.ts"
import { runDeliveryWorker } from "./DeliveryWorker.ts"
import type { Held } from "./Lease.ts"
import { makeFiling } from "./ReportFiling.ts"

/** Milliseconds. */
const longestPause = 5 * 60_000

export interface ReportDelivery {
  readonly run: Effect.Effect<never>
  /** The tracker refused our settings, whichever process learned it. */
  readonly stopped: Effect.Effect<boolean, StoreUnavailable>
}

export const makeReportDelivery = (
  reconcileSeconds: ReadonlyArray<number>,
  bounds: DeliveryLimits
): Effect.Effect<ReportDelivery, never, Store | Tracker> =>
  Effect.gen(function* () {
    const store = yield* Store
    const tracker = yield* Tracker
    const advice = Effect.map(
      tracker.trouble,
      (trouble) =>
        `${Option.getOrElse(trouble, () => "it refuses us")}; repair MUSIC_GITHUB_TOKEN or MUSIC_GITHUB_REPOSITORY, or the repository's settings. It is tried again by itself`
    )
    const destination = makeDestinationBreaker(store.destinations, bounds, {
      name: "tracker",
      title: "The tracker",
      longestPause,
      advice
    })
    const { firstPause, lease, sweepDelay } = bounds
    const parts = { reports: store.reports, tracker, destination, reconcileSeconds, firstPause, sweepDelay }
    const file = makeFiling(parts)
    const sweep = makeDuplicateIssues(parts)
    const handle = (held: Held) => {
      switch (held.delivery.kind) {
        case "report":
          return file(held)
        case "sweep":
          return sweep(held)
      }
    }
    return {
      run: runDeliveryWorker(store, lease, {
        kinds: ["report", "sweep"],
        // GitHub asks for requests one after the other (issue-tracker.md 3).
        concurrency: 1,
        paused: destination.paused,
        handle
      }),
      stopped: destination.stopped
    }
  })
