/** The late look whether a report that was sent more than once stands there more than once (issue-tracker.md 4.6). */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { markerOf } from "../../services/IssueDraft.ts"
import { DeliveryUpdate, type StoreUnavailable } from "../../services/Store.ts"
import type { FoundIssue, Issue, LookTooLong } from "../../services/Tracker.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { describe, isConfiguration } from "./DestinationBreaker.ts"
import type { Held } from "./Lease.ts"
import { type FilingParts, lookMargin } from "./ReportFiling.ts"
import { backoff } from "./Backoff.ts"

/** Milliseconds. */
const longestPause = 10 * 60_000
/** A comment, and the closing. */
const writesOfAClosing = 2

/** What a look found and did. */
interface Seen {
  readonly original: Option.Option<Issue>
  /** What was refused about single copies, which may stay open. */
  readonly refused: ReadonlyArray<string>
  readonly foreign: ReadonlyArray<FoundIssue>
}

/**
 * Keeps our issue with the lowest number, which the report then names, and closes our others. Repeatable at any point.
 *
 * What another account wrote stays as it is, and nothing is closed for it: anybody can copy a marker that stands in a public issue, also
 * into an older issue of their own. It is named only where none of ours is left.
 */
export const makeDuplicateIssues = ({
  destination,
  firstPause,
  reports,
  sweepDelay,
  tracker
}: FilingParts): ((held: Held) => Effect.Effect<void, StoreUnavailable>) => {
  /** What was refused, when it may stay open for that. Only a refusal of the token concerns more than this copy. */
  const close = (copy: FoundIssue, original: Issue) =>
    Effect.gen(function* () {
      // Whoever closed it, there is no more to say.
      if (!copy.open) return []
      yield* destination.turn(writesOfAClosing)
      const uncommented = yield* tracker.closeDuplicate(copy, original)
      yield* destination.accepted
      yield* Effect.logWarning("A duplicate issue was closed", {
        issue: copy.number,
        original: original.number,
        ...(Option.isSome(uncommented) ? { uncommented: describe(uncommented.value) } : {})
      })
      return []
    }).pipe(
      Effect.catchTag("Refused", (refusal) =>
        refusal.status === 401
          ? Effect.fail(refusal)
          : Effect.succeed([`#${copy.number} ${describe(refusal)}`])
      )
    )

  const lookAndClose = (
    marker: string,
    since: number
  ): Effect.Effect<Seen, UpstreamFailure | LookTooLong | StoreUnavailable> =>
    Effect.gen(function* () {
      const found = yield* tracker.findByMarker(marker, since)
      yield* destination.answered
      const foreign = found.filter(({ own }) => !own)
      const [original, ...copies] = found.filter(({ own }) => own)
      const refused =
        original === undefined ? [] : yield* Effect.forEach(copies, (copy) => close(copy, original))
      return { original: Option.fromNullable(original ?? foreign[0]), refused: refused.flat(), foreign }
    })

  const finish = (held: Held, { foreign, original, refused }: Seen) =>
    Effect.gen(function* () {
      const { delivery, write } = held
      const at = yield* Clock.currentTimeMillis
      // A creation that has not come yet was written by a clock that was ahead.
      const lateEnough = Math.min(delivery.createdAt, at) + sweepDelay
      // Copies that were seen at once are closed at once; others may turn up as late as ever.
      if (at < lateEnough)
        return yield* write(DeliveryUpdate.Waiting({ availableAt: lateEnough, failure: "looks once more" }))
      if (Option.isNone(original))
        yield* Effect.logWarning("The issue of a report that was sent more than once is not in the list", {
          report: delivery.subject
        })
      if (foreign.length > 0)
        yield* Effect.logWarning("Issues of other accounts carry a report's marker, and stay as they are", {
          report: delivery.subject,
          issues: foreign.map(({ number }) => number)
        })
      // An operator finds it in the list of what failed, and has it tried again.
      if (refused.length > 0) return yield* failed(held, refused.join("; "))
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
        Effect.flatMap((seen) => finish(held, seen)),
        Effect.catchTags({
          Refused: (failure) => postpone(held, failure),
          NotExecuted: (failure) => postpone(held, failure),
          Unknown: (failure) => postpone(held, failure),
          LookTooLong: ({ reason }) => Effect.zipRight(destination.answered, failed(held, reason))
        })
      )
    }).pipe(Effect.withSpan("DuplicateSweep.handle", { attributes: { report: held.delivery.subject } }))
}
