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
import type { FoundIssue, Issue, TrackerService } from "../../services/Tracker.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"
import type { LeasedDelivery } from "./Lease.ts"
import { recordFailed as recordFailure, searchFrom, waitForTurn } from "./ReportFiling.ts"
import { type Breaker, describeFailure, isConfigurationRefusal } from "./Worker.ts"

const recordFailed = (leased: LeasedDelivery, failure: string) =>
  recordFailure(leased, "Duplicates of a report may stay open", failure)

/** Keeps the issue with the lowest number, which the report then names, and closes the others. Repeatable at any point. */
export const makeDuplicateIssues = (
  reports: StoredReports,
  tracker: TrackerService,
  breaker: Breaker
): ((leased: LeasedDelivery) => Effect.Effect<void, StoreUnavailable>) => {
  /** Returns the refusal when the copy may stay open. Only a refused token concerns more than this copy. */
  const close = (copy: FoundIssue, original: Issue) =>
    Effect.gen(function* () {
      const uncommented = yield* tracker.closeDuplicate(copy, original)
      yield* breaker.recordWrite
      yield* Effect.logWarning("A duplicate issue was closed", {
        issue: copy.number,
        original: original.number,
        uncommented: Option.getOrUndefined(Option.map(uncommented, describeFailure))
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
      const found = yield* tracker.findByMarker(markerOf(report), searchFrom(report.createdAt))
      yield* breaker.recordAnswer
      const [original, ...copies] = found
      const open = original === undefined ? [] : copies.filter((copy) => copy.open)
      const refused: Array<ReadonlyArray<string>> = []
      for (const copy of open) {
        // A comment, and the closing.
        if (!(yield* breaker.takeTurn)) return yield* waitForTurn(leased, breaker)
        yield* breaker.reserveWrite
        refused.push(yield* close(copy, original ?? copy))
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
