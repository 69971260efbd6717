/** Closes duplicate issues of a report, at the latest an hour after it was sent more than once (issue-tracker.md 4.6). */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { asTrace } from "../../services/Tracing.ts"
import { markerOf } from "../../services/IssueDraft.ts"
import {
  DeliveryUpdate,
  type StoredReports,
  type StoredReport,
  type StoreUnavailable
} from "../../services/Store.ts"
import type { FoundIssue, Issue, TrackerService } from "../../services/Tracker.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { type Breaker, describeFailure, isConfigurationRefusal } from "./Breaker.ts"
import type { LeasedDelivery } from "./Lease.ts"
import { recordFailed as recordFailure, searchFrom } from "./ReportFiling.ts"
import { backoffDelay } from "./Worker.ts"

/** Milliseconds. */
const longestBackoff = 10 * 60_000
/** A comment, and the closing. */
const writesPerClosing = 2

const recordFailed = (leased: LeasedDelivery, failure: string) =>
  recordFailure(leased, "Duplicates of a report may stay open", failure)

/** Keeps the issue with the lowest number, which the report then names, and closes the others. Repeatable at any point. */
export const makeDuplicateIssues = ({
  breaker,
  firstBackoff,
  reports,
  sweepDelay,
  tracker
}: {
  readonly reports: StoredReports
  readonly tracker: TrackerService
  readonly breaker: Breaker
  /** Milliseconds. */
  readonly firstBackoff: number
  readonly sweepDelay: number
}): ((leased: LeasedDelivery) => Effect.Effect<void, StoreUnavailable>) => {
  const backoff = { first: firstBackoff, longest: longestBackoff }

  /** Returns the refusal when the copy may stay open. Only a refused token concerns more than this copy. */
  const close = (copy: FoundIssue, original: Issue) =>
    Effect.gen(function* () {
      if (!copy.open) return []
      yield* breaker.reserveWrites(writesPerClosing)
      const uncommented = yield* tracker.closeDuplicate(copy, original)
      yield* breaker.recordWrite
      yield* Effect.logWarning("A duplicate issue was closed", {
        issue: copy.number,
        original: original.number,
        ...(Option.isSome(uncommented) ? { uncommented: describeFailure(uncommented.value) } : {})
      })
      return []
    }).pipe(
      Effect.catchTag("Refused", (refusal) =>
        refusal.status === 401
          ? Effect.fail(refusal)
          : Effect.succeed([`#${copy.number} ${describeFailure(refusal)}`])
      )
    )

  const searchAndClose = (leased: LeasedDelivery, report: StoredReport) =>
    Effect.gen(function* () {
      const [original, ...copies] = yield* tracker.findByMarker(
        markerOf(report),
        searchFrom(report.createdAt)
      )
      yield* breaker.recordAnswer
      const refused =
        original === undefined ? [] : yield* Effect.forEach(copies, (copy) => close(copy, original))
      const at = yield* Clock.currentTimeMillis
      const lastSearchAt = leased.delivery.createdAt + sweepDelay
      // Copies that were visible at once are closed at once; others may appear up to the last search.
      if (at < lastSearchAt) {
        const failure = "one more search"
        return yield* leased.write(DeliveryUpdate.Waiting({ availableAt: lastSearchAt, failure }))
      }
      if (original === undefined)
        yield* Effect.logWarning(
          "The tracker does not list the issue of a report that was sent more than once",
          { report: report.id }
        )
      // Listed as failed, so that an operator can retry it.
      const mayBeOpen = refused.flat()
      if (mayBeOpen.length > 0) return yield* recordFailed(leased, mayBeOpen.join("; "))
      const issue = Option.fromNullable(original)
      return yield* leased.write(DeliveryUpdate.Delivered({ at, issue, sweepAt: Option.none() }))
    })

  const postpone = (leased: LeasedDelivery, failure: UpstreamFailure) =>
    Effect.gen(function* () {
      if (failure._tag === "Refused" && !isConfigurationRefusal(failure))
        return yield* recordFailed(leased, describeFailure(failure))
      const pause = yield* breaker.recordFailure(failure)
      // Other requests may succeed meanwhile. Each attempt has a lease, so the fence counts attempts.
      const ownPause = yield* backoffDelay(backoff, leased.delivery.fence)
      const availableAt = (yield* Clock.currentTimeMillis) + Math.max(pause, ownPause)
      yield* leased.write(DeliveryUpdate.Waiting({ availableAt, failure: describeFailure(failure) }))
    })

  return (leased) =>
    Effect.gen(function* () {
      const report = yield* reports.find(leased.delivery.subject)
      if (Option.isNone(report)) return yield* recordFailed(leased, "the report no longer exists")
      yield* searchAndClose(leased, report.value).pipe(
        Effect.catchTags({
          Refused: (failure) => postpone(leased, failure),
          NotExecuted: (failure) => postpone(leased, failure),
          Unknown: (failure) => postpone(leased, failure),
          SearchTooLong: ({ reason }) => Effect.zipRight(breaker.recordAnswer, recordFailed(leased, reason))
        })
      )
    }).pipe(asTrace("DuplicateIssues.handle", { attributes: { report: leased.delivery.subject } }))
}
