/** Closes duplicate issues of a report, an hour after it was sent more than once (issue-tracker.md 4.6). */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { asTrace } from "../../services/Tracing.ts"
import { markerOf } from "../../services/text/IssueDraft.ts"
import {
  DeliveryUpdate,
  type StoredReports,
  type StoredReport,
  type StoreUnavailable
} from "../../services/Store.ts"
import type { Issue, TrackerService } from "../../services/Tracker.ts"
import type { Refused, UpstreamFailure } from "../../services/UpstreamFailure.ts"
import type { LeasedDelivery } from "./Lease.ts"
import { recordFailed as recordFailure, searchFrom } from "./ReportFiling.ts"
import { type Breaker, describeFailure, isConfigurationRefusal } from "./Worker.ts"

const recordFailed = (leased: LeasedDelivery, failure: string) =>
  recordFailure(leased, "Duplicates of a report may stay open", failure)

/** Keeps the issue with the lowest number, which the report then names, and closes the others. Repeatable at any point. */
export const makeDuplicateIssues = (
  reports: StoredReports,
  tracker: TrackerService,
  breaker: Breaker
): ((leased: LeasedDelivery) => Effect.Effect<void, StoreUnavailable>) => {
  /** Returns the refusal when the copy stays open. Only a refused token concerns more than this copy. */
  const close = (copy: Issue, original: Issue) =>
    Effect.gen(function* () {
      // A comment, and the closing.
      yield* breaker.reserveWrite
      yield* breaker.reserveWrite
      yield* tracker.closeDuplicate(copy, original)
      yield* breaker.recordWrite
      const facts = { issue: copy.number, original: original.number }
      yield* Effect.logWarning("A duplicate issue was closed", facts)
      return Option.none<Refused>()
    }).pipe(
      Effect.catchTag("Refused", (refusal) =>
        refusal.status === 401 ? Effect.fail(refusal) : Effect.succeedSome(refusal)
      )
    )

  const searchAndClose = (leased: LeasedDelivery, report: StoredReport) =>
    Effect.gen(function* () {
      const found = yield* tracker.findByMarker(markerOf(report), searchFrom(report.createdAt))
      yield* breaker.recordAnswer
      const issue = Option.fromNullable(found[0])
      for (const copy of found.slice(1).filter(({ open }) => open)) {
        const refused = yield* close(copy, found[0] ?? copy)
        // Listed as failed, so that an operator can retry it.
        if (Option.isSome(refused))
          return yield* recordFailed(leased, `#${copy.number} ${describeFailure(refused.value)}`)
      }
      const at = yield* Clock.currentTimeMillis
      return yield* leased.write(DeliveryUpdate.Delivered({ at, issue, sweepAt: Option.none() }))
    })

  const postpone = (leased: LeasedDelivery, failure: UpstreamFailure) =>
    Effect.gen(function* () {
      if (failure._tag === "Refused" && !isConfigurationRefusal(failure))
        return yield* recordFailed(leased, describeFailure(failure))
      // Each attempt has a lease, so the fence counts attempts.
      const availableAt = yield* breaker.dueAfter(failure, leased.delivery.fence)
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
