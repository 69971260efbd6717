/** Files one leased report exactly once, as far as the tracker allows (issue-tracker.md 4). */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { composeIssue, fullSize, shortSize } from "../../services/IssueDraft.ts"
import {
  type Delivery,
  DeliveryUpdate,
  type Reports,
  type StoredReport,
  type StoreUnavailable
} from "../../services/Store.ts"
import type { Issue, TrackerService } from "../../services/Tracker.ts"
import { Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { jitteredDelay } from "./Backoff.ts"
import { type DestinationBreaker, describeFailure, isConfigurationRefusal } from "./DestinationBreaker.ts"
import type { LeasedDelivery } from "./Lease.ts"
import { copiesAfter, recordFailed, recordFiled } from "./ReportOutcome.ts"
import { lostItsSender, reconcile, searchDelay } from "./ReportReconciliation.ts"
import { uninterruptedRequest } from "./UninterruptedRequest.ts"

/** How long a stop of the process waits for a request, so that its outcome need not stay unknown. */
const stopGrace = Duration.seconds(2)
/** Milliseconds between attempts whose outcome stays unknown, at most. */
const longestBackoff = 10 * 60_000
const tooLong = "the tracker refuses it as too long"
const notFiled = "Report not filed, and it will not be retried"

const wasTooLong = (delivery: Delivery): boolean => Option.contains(delivery.lastFailure, tooLong)

/** A stop of the process or a defect during the request leaves the outcome unknown. */
const failureOf = (cause: Cause.Cause<UpstreamFailure>): Effect.Effect<UpstreamFailure> =>
  Option.match(Cause.failureOption(cause), {
    onSome: (failure) => Effect.succeed(failure),
    onNone: () =>
      Effect.as(
        Cause.isInterruptedOnly(cause)
          ? Effect.void
          : Effect.logError("Sending a report failed with a defect", Cause.pretty(cause)),
        new Unknown({ dependency: "tracker", reason: "stopped while sending" })
      )
  })

/** Takes one leased report as far as possible. The lease's owner releases it when no outcome was recorded. */
export const makeReportFiling = (parts: {
  readonly reports: Reports
  readonly tracker: TrackerService
  readonly breaker: DestinationBreaker
  /** Seconds from the send to each search. */
  readonly reconcileSeconds: ReadonlyArray<number>
  /** Milliseconds. */
  readonly firstBackoff: number
  readonly sweepDelay: number
}): ((leased: LeasedDelivery) => Effect.Effect<void, StoreUnavailable>) => {
  const { breaker, firstBackoff, reconcileSeconds, reports, sweepDelay, tracker } = parts
  const backoff = { first: firstBackoff, longest: longestBackoff }
  const isAbsent = reconcile(parts)

  const recordAnswer = (leased: LeasedDelivery, sentAt: number, exit: Exit.Exit<Issue, UpstreamFailure>) =>
    Effect.gen(function* () {
      const { delivery, write } = leased
      if (Exit.isSuccess(exit)) {
        yield* recordFiled(leased, exit.value, copiesAfter(delivery.attempts + 1), sweepDelay)
        return yield* breaker.recordWrite
      }
      const failure = yield* failureOf(exit.cause)
      if (failure._tag === "Refused" && !isConfigurationRefusal(failure)) {
        const availableAt = yield* Clock.currentTimeMillis
        return failure.code === "too_long" && !wasTooLong(delivery)
          ? yield* write(DeliveryUpdate.Waiting({ availableAt, failure: tooLong }))
          : yield* recordFailed(leased, notFiled, describeFailure(failure))
      }
      const stopping = Cause.isInterruptedOnly(exit.cause)
      // Stored before the lease ends: the next worker to lease a delivery must find the pause.
      const pause = stopping ? 0 : yield* breaker.recordFailure(failure)
      // Searches may succeed while every attempt is lost: then the attempts themselves become rarer.
      const ownPause = stopping ? 0 : yield* jitteredDelay(backoff, delivery.attempts + 1)
      const availableAt = (yield* Clock.currentTimeMillis) + Math.max(pause, ownPause)
      yield* write(
        failure._tag === "Unknown"
          ? DeliveryUpdate.Unknown({
              availableAt: Math.max(availableAt, sentAt + searchDelay(reconcileSeconds, 0)),
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
      yield* tracker
        .file(draft)
        .pipe(uninterruptedRequest(stopGrace, (exit) => recordAnswer(leased, at, exit)))
    }).pipe(Effect.uninterruptible)

  return (leased) =>
    Effect.gen(function* () {
      const { delivery } = leased
      const found = yield* reports.find(delivery.subject)
      if (Option.isNone(found)) return yield* recordFailed(leased, notFiled, "the report no longer exists")
      const report = found.value
      if (Option.isSome(report.issue))
        return yield* recordFiled(leased, report.issue.value, copiesAfter(delivery.attempts), sweepDelay)
      if (lostItsSender(delivery)) {
        const availableAt = (yield* Clock.currentTimeMillis) + searchDelay(reconcileSeconds, 0)
        const failure = "its sender was lost"
        return yield* leased.write(DeliveryUpdate.Unknown({ availableAt, failure, searches: 0 }))
      }
      // A refused attempt may follow one whose answer was lost, so any earlier attempt leads to a search.
      const sentBefore = delivery.state === "unknown" || delivery.attempts > 0
      if (sentBefore && !(yield* isAbsent(leased, report))) return
      yield* breaker.reserveWrites(1)
      yield* send(leased, report)
    }).pipe(
      Effect.asVoid,
      Effect.withSpan("ReportFiling.handle", { attributes: { report: leased.delivery.subject } })
    )
}
