/** The late look whether a report that was sent more than once stands there more than once (issue-tracker.md 4.6). */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { markerOf } from "../../services/IssueDraft.ts"
import { DeliveryUpdate, type StoreUnavailable } from "../../services/Store.ts"
import type { FoundIssue, Issue } from "../../services/Tracker.ts"
import type { UpstreamFailure } from "../../services/Upstream.ts"
import { describe, isConfiguration } from "./Destination.ts"
import type { Held } from "./Lease.ts"
import { type FilingParts, lookMargin } from "./ReportFiling.ts"
import { backoff } from "./Worker.ts"

/** Milliseconds. */
const longestPause = 10 * 60_000
/** A comment, and the closing. */
const writesOfAClosing = 2

/** Keeps the issue with the lowest number, which the report then names, and closes the others. Repeatable at any point. */
export const makeDuplicateSweep = ({
  destination,
  firstPause,
  reports,
  sweepDelay,
  tracker
}: FilingParts): ((held: Held) => Effect.Effect<void, StoreUnavailable>) => {
  const close = (copy: FoundIssue, original: Issue) =>
    Effect.gen(function* () {
      // Whoever closed it, there is no more to say.
      if (!copy.open) return
      yield* destination.turn(writesOfAClosing)
      yield* tracker.closeDuplicate(copy, original)
      yield* destination.accepted
      yield* Effect.logWarning("A duplicate issue was closed", {
        issue: copy.number,
        original: original.number
      })
    })

  const lookAndClose = (marker: string, since: number) =>
    Effect.gen(function* () {
      const found = yield* tracker.findByMarker(marker, since)
      yield* destination.answered
      const [original, ...copies] = found
      if (original !== undefined)
        yield* Effect.forEach(copies, (copy) => close(copy, original), { discard: true })
      return Option.fromNullable(original)
    })

  const finish = ({ delivery, write }: Held, original: Option.Option<Issue>) =>
    Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      const lateEnough = delivery.createdAt + sweepDelay
      // Copies that were seen at once are closed at once; others may turn up as late as ever.
      if (at < lateEnough)
        return yield* write(DeliveryUpdate.Waiting({ availableAt: lateEnough, failure: "looks once more" }))
      if (Option.isNone(original))
        yield* Effect.logWarning("The issue of a report that was sent more than once is not in the list", {
          report: delivery.subject
        })
      return yield* write(DeliveryUpdate.Delivered({ at, issue: original, sweepAt: Option.none() }))
    })

  const failed = ({ delivery, write }: Held, failure: string) =>
    Effect.gen(function* () {
      yield* write(DeliveryUpdate.Failed({ at: yield* Clock.currentTimeMillis, failure }))
      yield* Effect.logError("Duplicates of a report may stay open", { report: delivery.subject, failure })
    })

  const postpone = (held: Held, failure: UpstreamFailure) =>
    Effect.gen(function* () {
      if (failure._tag === "Refused" && !isConfiguration(failure))
        return yield* failed(held, describe(failure))
      const pause = yield* destination.failed(failure)
      // Others may fare well meanwhile; every try is a lease.
      const own = yield* backoff(held.delivery.fence, firstPause, longestPause)
      const availableAt = (yield* Clock.currentTimeMillis) + Math.max(pause, own)
      yield* held.write(DeliveryUpdate.Waiting({ availableAt, failure: describe(failure) }))
    })

  return (held) =>
    Effect.gen(function* () {
      const report = yield* reports.find(held.delivery.subject)
      if (Option.isNone(report)) return yield* failed(held, "the report is gone")
      yield* lookAndClose(markerOf(report.value), report.value.createdAt - lookMargin).pipe(
        Effect.flatMap((original) => finish(held, original)),
        Effect.catchTags({
          Refused: (failure) => postpone(held, failure),
          NotExecuted: (failure) => postpone(held, failure),
          Unknown: (failure) => postpone(held, failure)
        })
      )
    }).pipe(Effect.withSpan("DuplicateSweep.handle", { attributes: { report: held.delivery.subject } }))
}
