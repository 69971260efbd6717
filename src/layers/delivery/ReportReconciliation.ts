/** Searches the tracker for a report that may have been sent already (issue-tracker.md 4.5). */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { markerOf } from "../../services/IssueDraft.ts"
import { type Delivery, DeliveryUpdate, type StoredReport } from "../../services/Store.ts"
import type { TrackerService } from "../../services/Tracker.ts"
import { type DestinationBreaker, describeFailure, isConfigurationRefusal } from "./DestinationBreaker.ts"
import type { LeasedDelivery } from "./Lease.ts"
import { copiesAfter, recordFailed, recordFiled } from "./ReportOutcome.ts"

/** Milliseconds by which clocks may differ, including the time of an answer (issue-tracker.md 4.5). */
const clockTolerance = 5 * 60_000

/** The search covers issues created at or after this time. Both in milliseconds since the epoch. */
export const searchFrom = (sentAt: number): number => sentAt - clockTolerance

/** Milliseconds from a send to the search after `searches` others. Later searches use the last of the delays. */
export const searchDelay = (reconcileSeconds: ReadonlyArray<number>, searches: number): number =>
  (reconcileSeconds[Math.min(searches, reconcileSeconds.length - 1)] ?? 0) * 1000

/** It was sent under the last lease, and no search is planned yet. */
export const lostItsSender = ({ availableAt, sentAt, state }: Delivery): boolean =>
  state === "unknown" && Option.exists(sentAt, (at) => availableAt <= at)

/**
 * Searches once. True when the issue does not exist and the report may be sent. Otherwise the outcome or the next search is
 * recorded; a failed search changes only the time of the next one.
 */
export const reconcile =
  (parts: {
    readonly tracker: TrackerService
    readonly breaker: DestinationBreaker
    /** Seconds from the send to each search. */
    readonly reconcileSeconds: ReadonlyArray<number>
    readonly sweepDelay: number
  }) =>
  (leased: LeasedDelivery, report: StoredReport): Effect.Effect<boolean> =>
    Effect.gen(function* () {
      const { breaker, reconcileSeconds, sweepDelay, tracker } = parts
      const { delivery } = leased
      const startedAt = yield* Clock.currentTimeMillis
      // The delivery may have been created anew, long after an earlier one of the same report was sent and removed.
      const since = searchFrom(Option.getOrElse(delivery.sentAt, () => report.createdAt))
      const result = yield* Effect.either(tracker.findByMarker(markerOf(report), since))
      if (Either.isLeft(result)) {
        if (result.left._tag === "SearchTooLong") {
          yield* breaker.recordAnswer
          // A retry searches again before it sends.
          yield* recordFailed(
            leased,
            "A report may be filed, but the tracker lists too many issues to search",
            `${result.left.reason}: it may be filed. Search the tracker for its report-ref, then discard it, or retry`
          )
          return false
        }
        const pause = yield* breaker.recordFailure(result.left)
        // An operator may end the pause of refused settings: the search is then due as it was.
        const availableAt = isConfigurationRefusal(result.left)
          ? delivery.availableAt
          : (yield* Clock.currentTimeMillis) + pause
        yield* leased.release(availableAt, describeFailure(result.left))
        return false
      }
      yield* breaker.recordAnswer
      const [issue, ...copies] = result.right
      if (issue !== undefined) {
        yield* recordFiled(
          leased,
          issue,
          copies.length > 0 ? "seen" : copiesAfter(delivery.attempts),
          sweepDelay
        )
        return false
      }
      const searches = delivery.searches + 1
      if (Option.isNone(delivery.sentAt) || searches >= Math.max(1, reconcileSeconds.length)) return true
      // A search that came late keeps the distance to the next one: the list needs the time.
      const delay = searchDelay(reconcileSeconds, searches)
      const availableAt = Math.max(
        delivery.sentAt.value + delay,
        startedAt + delay - searchDelay(reconcileSeconds, searches - 1)
      )
      yield* leased.write(DeliveryUpdate.Unknown({ availableAt, failure: "not found yet", searches }))
      return false
    })
