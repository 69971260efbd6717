/** Closes duplicate issues of a report, at the latest an hour after it was sent more than once (issue-tracker.md 4.6). */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { markerOf } from "../../services/IssueDraft.ts"
import { DeliveryUpdate, type Reports, type StoreUnavailable } from "../../services/Store.ts"
import type { FoundIssue, Issue, SearchTooLong, TrackerService } from "../../services/Tracker.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { type Breaker, describeFailure, isConfigurationRefusal } from "./Breaker.ts"
import type { LeasedDelivery } from "./Lease.ts"
import { recordFailed as recordFailure, searchFrom } from "./ReportFiling.ts"
import { backoffDelay } from "./Worker.ts"

/** Milliseconds. */
const longestBackoff = 10 * 60_000
/** A comment, and the closing. */
const writesPerClosing = 2

interface SearchResult {
  readonly original: Option.Option<Issue>
  /** Refusals to close single copies, which may stay open. */
  readonly refused: ReadonlyArray<string>
}

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
  readonly reports: Reports
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

  const searchAndClose = (
    marker: string,
    since: number
  ): Effect.Effect<SearchResult, UpstreamFailure | SearchTooLong | StoreUnavailable> =>
    Effect.gen(function* () {
      const [original, ...copies] = yield* tracker.findByMarker(marker, since)
      yield* breaker.recordAnswer
      const refused =
        original === undefined ? [] : yield* Effect.forEach(copies, (copy) => close(copy, original))
      return { original: Option.fromNullable(original), refused: refused.flat() }
    })

  const recordResult = (leased: LeasedDelivery, { original, refused }: SearchResult) =>
    Effect.gen(function* () {
      const { delivery, write } = leased
      const at = yield* Clock.currentTimeMillis
      const lastSearchAt = delivery.createdAt + sweepDelay
      // Copies that were visible at once are closed at once; others may appear up to the last search.
      if (at < lastSearchAt)
        return yield* write(DeliveryUpdate.Waiting({ availableAt: lastSearchAt, failure: "one more search" }))
      if (Option.isNone(original))
        yield* Effect.logWarning(
          "The tracker does not list the issue of a report that was sent more than once",
          {
            report: delivery.subject
          }
        )
      // Listed as failed, so that an operator can retry it.
      if (refused.length > 0) return yield* recordFailed(leased, refused.join("; "))
      return yield* write(DeliveryUpdate.Delivered({ at, issue: original, sweepAt: Option.none() }))
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
      yield* searchAndClose(markerOf(report.value), searchFrom(report.value.createdAt)).pipe(
        Effect.flatMap((result) => recordResult(leased, result)),
        Effect.catchTags({
          Refused: (failure) => postpone(leased, failure),
          NotExecuted: (failure) => postpone(leased, failure),
          Unknown: (failure) => postpone(leased, failure),
          SearchTooLong: ({ reason }) => Effect.zipRight(breaker.recordAnswer, recordFailed(leased, reason))
        })
      )
    }).pipe(Effect.withSpan("DuplicateIssues.handle", { attributes: { report: leased.delivery.subject } }))
}
