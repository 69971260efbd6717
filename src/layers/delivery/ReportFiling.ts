/** Files one leased report exactly once, as far as the tracker allows (issue-tracker.md 4). */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { composeIssue, fullSize, markerOf, shortSize } from "../../services/IssueDraft.ts"
import {
  type Delivery,
  DeliveryUpdate,
  type Reports,
  type StoredReport,
  type StoreUnavailable
} from "../../services/Store.ts"
import type { Issue, LookTooLong, TrackerService } from "../../services/Tracker.ts"
import { Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { type DestinationBreaker, describe, isConfiguration } from "./DestinationBreaker.ts"
import { uninterruptedRequest } from "./UninterruptedRequest.ts"
import type { Held } from "./Lease.ts"
import { backoff } from "./Backoff.ts"

/** Milliseconds that clocks may differ, and an answer may have taken (issue-tracker.md 4.5). */
export const lookMargin = 5 * 60_000
/** What a stop of the process leaves a request in flight, so that its outcome need not stay unknown. */
const stopGrace = Duration.seconds(2)
/** Milliseconds: the longest time before an attempt that may have happened is looked into again, growing with the attempts. */
const longestPause = 10 * 60_000
/** Milliseconds for which a report that a later version understands is left to that version. */
const laterVersionPause = 60_000
const tooLong = "the tracker calls it too long"

export interface FilingParts {
  readonly reports: Reports
  readonly tracker: TrackerService
  readonly destination: DestinationBreaker
  /** Seconds after the send. */
  readonly reconcileSeconds: ReadonlyArray<number>
  /** Milliseconds. */
  readonly firstPause: number
  readonly sweepDelay: number
}

/** Brings one leased report as far as it gets; what it does not settle is handed back by whoever holds the lease. */
export const makeFiling = (parts: FilingParts): ((held: Held) => Effect.Effect<void, StoreUnavailable>) => {
  const { destination, firstPause, reports, sweepDelay, tracker } = parts
  const looksNeeded = Math.max(1, parts.reconcileSeconds.length)
  /** Milliseconds between a send and the look after so many others. */
  const lookDelay = (looks: number): number =>
    (parts.reconcileSeconds[Math.min(looks, looksNeeded - 1)] ?? 0) * 1000

  const delivered = ({ delivery, write }: Held, issue: Issue, copies: Copies) =>
    Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      const sweepAt =
        copies === "none" ? Option.none() : Option.some(copies === "seen" ? at : at + sweepDelay)
      if (yield* write(DeliveryUpdate.Delivered({ at, issue: Option.some(issue), sweepAt })))
        yield* Effect.logInfo("Report filed", { report: delivery.subject, issue: issue.number })
    })

  const failed = ({ delivery, write }: Held, failure: string) =>
    Effect.gen(function* () {
      yield* write(DeliveryUpdate.Failed({ at: yield* Clock.currentTimeMillis, failure }))
      yield* Effect.logError("Report not filed, and it will not be tried again", {
        report: delivery.subject,
        failure
      })
    })

  /** Only an operator can find out, so it is not sent again by itself; a retry looks again first. */
  const notFound = ({ delivery, write }: Held, { reason }: LookTooLong) =>
    Effect.gen(function* () {
      const failure = `${reason}: it may be filed. Search the tracker for its report-ref, then discard it, or retry`
      yield* write(DeliveryUpdate.Failed({ at: yield* Clock.currentTimeMillis, failure }))
      yield* Effect.logError("A report may be filed, and the tracker lists too many issues to find out", {
        report: delivery.subject,
        failure
      })
    })

  /** The failure of an attempt; a stop or a defect while sending leaves the outcome open. */
  const failureOf = (cause: Cause.Cause<UpstreamFailure>): Effect.Effect<UpstreamFailure> =>
    Option.match(Cause.failureOption(cause), {
      onSome: (failure) => Effect.succeed(failure),
      onNone: () =>
        Effect.as(
          Cause.isInterruptedOnly(cause)
            ? Effect.void
            : Effect.logError("Sending a report broke", Cause.pretty(cause)),
          new Unknown({ dependency: "tracker", reason: "stopped while sending" })
        )
    })

  const recordAnswer = (held: Held, sentAt: number, exit: Exit.Exit<Issue, UpstreamFailure>) =>
    Effect.gen(function* () {
      const { delivery, write } = held
      if (Exit.isSuccess(exit)) {
        yield* delivered(held, exit.value, copiesOf(delivery.attempts + 1))
        return yield* destination.accepted
      }
      const failure = yield* failureOf(exit.cause)
      if (failure._tag === "Refused" && !isConfiguration(failure)) {
        const availableAt = yield* Clock.currentTimeMillis
        return failure.code === "too_long" && !wasTooLong(delivery)
          ? yield* write(DeliveryUpdate.Waiting({ availableAt, failure: tooLong }))
          : yield* failed(held, describe(failure))
      }
      const stopping = Cause.isInterruptedOnly(exit.cause)
      // Told before the lease ends: the next worker to take something must find the pause.
      const pause = stopping ? 0 : yield* destination.failed(failure)
      // Looks may go well while every attempt is lost: then the attempts themselves become rarer.
      const own = stopping ? 0 : yield* backoff(delivery.attempts + 1, firstPause, longestPause)
      const availableAt = (yield* Clock.currentTimeMillis) + Math.max(pause, own)
      yield* write(
        failure._tag === "Unknown"
          ? DeliveryUpdate.Unknown({
              availableAt: Math.max(availableAt, sentAt + lookDelay(0)),
              failure: failure.reason,
              looks: 0
            })
          : DeliveryUpdate.Waiting({ availableAt, failure: describe(failure) })
      )
    })

  /** From the moment that `Sending` is committed, every way out records an outcome. */
  const send = (held: Held, report: StoredReport) =>
    Effect.gen(function* () {
      const draft = composeIssue(report, wasTooLong(held.delivery) ? shortSize : fullSize)
      const at = yield* Clock.currentTimeMillis
      if (!(yield* held.write(DeliveryUpdate.Sending({ at })))) return
      // The commit may have taken long: another worker could be looking for the issue already.
      if (!(yield* held.alive)) {
        const failure = "its lease ended before it was sent"
        yield* held.write(DeliveryUpdate.Waiting({ availableAt: at, failure }))
        return
      }
      yield* tracker.file(draft).pipe(uninterruptedRequest(stopGrace, (exit) => recordAnswer(held, at, exit)))
    }).pipe(Effect.uninterruptible)

  /**
   * True when nothing was found and no further look is needed; a failed look changes nothing but the time of the next one.
   *
   * The marker is in nobody's hands before the issue stands there: in whoever's issue it is found, the report was filed, and must not be
   * sent again. Another account's issue may be ours, from before the token changed hands, or somebody's copy of ours, which a list that
   * lags hides: so it is the report's only when all looks have shown no other, and the late look comes as well.
   */
  const surelyAbsent = (held: Held, report: StoredReport) =>
    Effect.gen(function* () {
      const { delivery } = held
      const startedAt = yield* Clock.currentTimeMillis
      // A delivery may have been made anew, long after another of the same report was sent and cleaned.
      const since = Option.getOrElse(delivery.sentAt, () => report.createdAt) - lookMargin
      const result = yield* Effect.either(tracker.findByMarker(markerOf(report), since))
      if (Either.isLeft(result)) {
        if (result.left._tag === "LookTooLong") {
          yield* destination.answered
          yield* notFound(held, result.left)
          return false
        }
        const pause = yield* destination.failed(result.left)
        yield* held.handBack((yield* Clock.currentTimeMillis) + pause, describe(result.left))
        return false
      }
      yield* destination.answered
      const [issue, ...copies] = result.right.filter(({ own }) => own)
      if (issue !== undefined) {
        yield* delivered(held, issue, copies.length > 0 ? "seen" : copiesOf(delivery.attempts))
        return false
      }
      const [foreign] = result.right
      const looks = delivery.looks + 1
      if (Option.isNone(delivery.sentAt) || looks >= looksNeeded) {
        if (foreign === undefined) return true
        yield* Effect.logWarning("A report was found under another account than the token's", {
          report: delivery.subject,
          issue: foreign.number
        })
        yield* delivered(held, foreign, "late")
        return false
      }
      // Looks that came late keep their distance all the same: lists need the time.
      const availableAt = Math.max(
        delivery.sentAt.value + lookDelay(looks),
        startedAt + lookDelay(looks) - lookDelay(looks - 1)
      )
      const failure = foreign === undefined ? "not found yet" : "found under another account only"
      yield* held.write(DeliveryUpdate.Unknown({ availableAt, failure, looks }))
      return false
    })

  return (held) =>
    Effect.gen(function* () {
      const { delivery } = held
      const found = yield* reports.find(delivery.subject)
      if (Option.isNone(found)) return yield* failed(held, "the report is gone")
      const report = found.value
      // What must not be published of it is known to the version that stored it.
      if (report.reporter._tag === "Unrecognised") {
        const availableAt = (yield* Clock.currentTimeMillis) + laterVersionPause
        return yield* held.handBack(availableAt, "a later version stored it, and files it")
      }
      if (Option.isSome(report.issue))
        return yield* delivered(held, report.issue.value, copiesOf(delivery.attempts))
      if (lostItsSender(delivery)) {
        const availableAt = (yield* Clock.currentTimeMillis) + lookDelay(0)
        const failure = "its sender was lost"
        return yield* held.write(DeliveryUpdate.Unknown({ availableAt, failure, looks: 0 }))
      }
      // Even a refused attempt may follow one whose answer was lost: whatever was sent before is looked for first.
      const sentBefore =
        delivery.state === "unknown" || delivery.attempts > 0 || Option.isSome(delivery.sentAt)
      if (sentBefore && !(yield* surelyAbsent(held, report))) return
      yield* destination.turn(1)
      yield* send(held, report)
    }).pipe(
      Effect.asVoid,
      Effect.withSpan("ReportFiling.handle", { attributes: { report: held.delivery.subject } })
    )
}

/** Issues of the report beside the one that it names: seen in the list, to be looked for late, or impossible. */
type Copies = "seen" | "late" | "none"

const copiesOf = (sends: number): Copies => (sends > 1 ? "late" : "none")

const wasTooLong = (delivery: Delivery): boolean => Option.contains(delivery.lastFailure, tooLong)

/** It was sent under the last lease, and nobody has said since when to look for it. */
const lostItsSender = ({ availableAt, sentAt, state }: Delivery): boolean =>
  state === "unknown" && Option.exists(sentAt, (at) => availableAt <= at)
