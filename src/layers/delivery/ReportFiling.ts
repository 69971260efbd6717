/** Files one leased report exactly once, as far as the tracker allows: it searches before it sends again (issue-tracker.md 4). */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { asTrace } from "../../services/Tracing.ts"
import { composeIssue, fullSize, markerOf, shortSize } from "../../services/text/IssueDraft.ts"
import {
  type Delivery,
  DeliveryUpdate,
  type StoredReports,
  type StoredReport,
  type StoreUnavailable
} from "../../services/Store.ts"
import type { Issue, SearchTooLong, TrackerService } from "../../services/Tracker.ts"
import { Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import type { LeasedDelivery } from "./Lease.ts"
import {
  type Breaker,
  type DeliveryLimits,
  describeFailure,
  isConfigurationRefusal,
  uninterruptedRequest
} from "./Worker.ts"

const tooLong = "the tracker refuses it as too long"
const notFiled = "Report not filed, and it will not be retried"

const wasTooLong = (delivery: Delivery): boolean => Option.contains(delivery.lastFailure, tooLong)

/** Only an operator's retry continues from here. */
export const recordFailed = (
  { delivery, write }: LeasedDelivery,
  message: string,
  failure: string
): Effect.Effect<void> =>
  Effect.gen(function* () {
    yield* write(DeliveryUpdate.Failed({ at: yield* Clock.currentTimeMillis, failure }))
    yield* Effect.logError(message, { report: delivery.subject, failure })
  })

/** Where a search begins, in milliseconds since the epoch: clocks may differ by 5 minutes, with the time of an answer (issue-tracker.md 4.5). */
export const searchFrom = (sentAt: number): number => sentAt - 5 * 60_000

/** Takes one leased report as far as possible. The lease's owner releases it when no outcome was recorded. */
export const makeReportFiling = (
  reports: StoredReports,
  tracker: TrackerService,
  breaker: Breaker,
  { firstBackoff, searchDelays, sweepDelay }: DeliveryLimits
): ((leased: LeasedDelivery) => Effect.Effect<void, StoreUnavailable>) => {
  /** When the search after the one that is due follows; none when that is the last before a send. */
  const nextSearch = ({ searches, sentAt }: Delivery): Option.Option<number> =>
    Option.zipWith(sentAt, Option.fromNullable(searchDelays[searches + 1]), (at, delay) => at + delay)

  /** A report that was sent more than once may have other issues: the list shows some, or may still hide some. */
  const recordFiled = ({ delivery, write }: LeasedDelivery, issue: Issue, sends: number) =>
    Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      const sweepAt = Option.liftPredicate(at + sweepDelay, () => sends > 1)
      if (yield* write(DeliveryUpdate.Delivered({ at, issue: Option.some(issue), sweepAt })))
        yield* Effect.logInfo("Report filed", { report: delivery.subject, issue: issue.number })
    })

  /** A failed search leaves the delivery as it was, only due later, unless it is too long to be made. */
  const recordFailedSearch = (leased: LeasedDelivery, failure: UpstreamFailure | SearchTooLong) =>
    Effect.gen(function* () {
      if (failure._tag === "SearchTooLong") {
        yield* breaker.recordAnswer
        // A retry searches again before it sends.
        return yield* recordFailed(
          leased,
          "A report may be filed, but the tracker lists too many issues to search",
          `${failure.reason}: it may be filed. Search the tracker for its report-ref, then discard it, or retry`
        )
      }
      // Each attempt has a lease, so the fence counts attempts. Due a moment after the end of the pause, because an unknown outcome goes first:
      // other reports are filed meanwhile. When the settings are refused, it stays due, and waits for their repair.
      const { availableAt, fence } = leased.delivery
      const dueAt = (yield* breaker.dueAfter(failure, fence)) + firstBackoff
      yield* leased.release(isConfigurationRefusal(failure) ? availableAt : dueAt, describeFailure(failure))
    })

  /** Searches once. True when the issue does not exist and the report may be sent. Otherwise the outcome or the next search is recorded. */
  const isAbsent = (leased: LeasedDelivery, report: StoredReport): Effect.Effect<boolean> =>
    Effect.gen(function* () {
      const { delivery } = leased
      // Of several sends only the last is known, and the issue may be of an earlier one, which the list hid until now. A delivery without a
      // send may have been created anew, long after an earlier one was sent and removed.
      const sentAt = delivery.attempts === 1 ? delivery.sentAt : Option.none()
      const from = searchFrom(Option.getOrElse(sentAt, () => report.createdAt))
      const found = yield* tracker.findByMarker(markerOf(report), from)
      yield* breaker.recordAnswer
      const [issue] = found
      if (issue !== undefined) {
        yield* recordFiled(leased, issue, Math.max(delivery.attempts, found.length))
        return false
      }
      const next = nextSearch(delivery)
      if (Option.isNone(next)) return true
      const [availableAt, searches] = [next.value, delivery.searches + 1]
      yield* leased.write(DeliveryUpdate.Unknown({ availableAt, failure: "not found yet", searches }))
      return false
    }).pipe(Effect.catchAll((failure) => Effect.as(recordFailedSearch(leased, failure), false)))

  const recordAnswer = (leased: LeasedDelivery, sentAt: number, exit: Exit.Exit<Issue, UpstreamFailure>) =>
    Effect.gen(function* () {
      const { delivery, write } = leased
      if (Exit.isSuccess(exit)) {
        yield* recordFiled(leased, exit.value, delivery.attempts + 1)
        return yield* breaker.recordWrite
      }
      if (Cause.isDie(exit.cause))
        yield* Effect.logError("Sending a report failed with a defect", Cause.pretty(exit.cause))
      // A stop of the process or a defect during the request leaves the outcome unknown.
      const failure = Option.getOrElse(
        Cause.failureOption(exit.cause),
        () => new Unknown({ dependency: "tracker", reason: "stopped while sending" })
      )
      if (failure._tag === "Refused" && !isConfigurationRefusal(failure))
        return failure.code === "too_long" && !wasTooLong(delivery)
          ? yield* write(DeliveryUpdate.Waiting({ availableAt: sentAt, failure: tooLong }))
          : yield* recordFailed(leased, notFiled, describeFailure(failure))
      // Stored before the lease ends: the next worker to lease a delivery must find the pause.
      const availableAt = yield* Cause.isInterruptedOnly(exit.cause)
        ? Clock.currentTimeMillis
        : breaker.dueAfter(failure, delivery.attempts + 1)
      yield* write(
        failure._tag === "Unknown"
          ? DeliveryUpdate.Unknown({
              availableAt: Math.max(availableAt, sentAt + (searchDelays[0] ?? 0)),
              failure: failure.reason,
              searches: 0
            })
          : DeliveryUpdate.Waiting({ availableAt, failure: describeFailure(failure) })
      )
    })

  /** From the commit of `Sending` on, every path records an outcome. */
  const send = (leased: LeasedDelivery, report: StoredReport) =>
    Effect.gen(function* () {
      const draft = composeIssue(report, wasTooLong(leased.delivery) ? shortSize : fullSize)
      const at = yield* Clock.currentTimeMillis
      if (!(yield* leased.write(DeliveryUpdate.Sending({ at })))) return
      // The commit may have taken long: another worker could be searching for the issue already.
      if (!(yield* leased.holds)) {
        const failure = "its lease ended before it was sent"
        yield* leased.write(DeliveryUpdate.Waiting({ availableAt: at, failure }))
        return
      }
      yield* tracker.file(draft).pipe(uninterruptedRequest((exit) => recordAnswer(leased, at, exit)))
    }).pipe(Effect.uninterruptible)

  return (leased) =>
    Effect.gen(function* () {
      const { delivery } = leased
      const found = yield* reports.find(delivery.subject)
      if (Option.isNone(found)) return yield* recordFailed(leased, notFiled, "the report no longer exists")
      const report = found.value
      if (Option.isSome(report.issue))
        return yield* recordFiled(leased, report.issue.value, delivery.attempts)
      // A refused attempt created nothing, but may follow one whose answer was lost.
      const mayBeFiled = delivery.state === "unknown" || Option.isSome(delivery.sentAt)
      // Before the search, because the write may be an hour away. A search that another one follows leads to no send, and takes none.
      if (Option.isNone(nextSearch(delivery))) yield* breaker.reserveWrite
      if (mayBeFiled && !(yield* isAbsent(leased, report))) return
      yield* send(leased, report)
    }).pipe(
      Effect.asVoid,
      asTrace("ReportFiling.handle", { attributes: { report: leased.delivery.subject } })
    )
}
