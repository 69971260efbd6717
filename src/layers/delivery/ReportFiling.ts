/** Files one leased report exactly once, as far as the tracker allows (issue-tracker.md 4). */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import { composeIssue, fullSize, markerOf, shortSize } from "../../services/IssueDraft.ts"
import { type Delivery, DeliveryUpdate, type StoredReport, type StoreService } from "../../services/Store.ts"
import type { Issue, TrackerService } from "../../services/Tracker.ts"
import { Unknown, type UpstreamFailure } from "../../services/Upstream.ts"
import { type Destination, describe, isConfiguration } from "./Destination.ts"
import { backoff } from "./Worker.ts"

/** Milliseconds that clocks may differ, and an answer may have taken (issue-tracker.md 4.5). */
const lookMargin = 5 * 60_000
/** What a stop of the process leaves a request in flight, so that its outcome need not stay unknown. */
const stopGrace = Duration.seconds(2)
/** Milliseconds before a report is taken up again after the database failed, and after its handling broke; others go first. */
const storePause = 5_000
const defectPause = 5 * 60_000
/** Milliseconds before an attempt that may have happened is looked into again, growing with the attempts. */
const firstPause = 1_000
const longestPause = 10 * 60_000
const tooLong = "the tracker calls it too long"

export interface Filing {
  /** Brings one leased delivery as far as it gets; every way out leaves it in a state that someone can take up. */
  readonly handle: (delivery: Delivery) => Effect.Effect<void>
  readonly closeCopies: (original: Issue, copies: ReadonlyArray<Issue>) => Effect.Effect<void>
}

/** A delivery under lease, and whether something was written about it. */
interface Held {
  readonly delivery: Delivery
  readonly settled: Ref.Ref<boolean>
}

export const makeFiling = (parts: {
  readonly store: Pick<StoreService, "reports" | "deliveries">
  readonly tracker: TrackerService
  readonly destination: Destination
  /** Seconds after the send. */
  readonly reconcileSeconds: ReadonlyArray<number>
  /** Told when a report was sent a second time: a first issue may still turn up. */
  readonly sentAgain: (report: StoredReport, since: number) => Effect.Effect<unknown>
}): Filing => {
  const { destination, store, tracker } = parts
  const looksNeeded = Math.max(1, parts.reconcileSeconds.length)
  const lookAt = (sentAt: number, looks: number): number =>
    sentAt + (parts.reconcileSeconds[Math.min(looks, looksNeeded - 1)] ?? 0) * 1000

  /**
   * False when the lease is no longer ours. A database that is away for a moment must not lose what is known.
   * Whatever was written, the lease is not handed back a second time.
   */
  const write = ({ delivery, settled }: Held, update: DeliveryUpdate): Effect.Effect<boolean> =>
    store.deliveries.update(delivery.id, delivery.fence, update).pipe(
      Effect.retry(Schedule.spaced("1 second").pipe(Schedule.upTo("20 seconds"))),
      Effect.catchAll(({ reason }) =>
        Effect.as(Effect.logError("A delivery could not be written; its lease will end", { reason }), false)
      ),
      Effect.zipLeft(Ref.set(settled, true)),
      Effect.uninterruptible
    )

  const delivered = (held: Held, issue: Issue) =>
    Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      if (yield* write(held, DeliveryUpdate.Delivered({ at, issue })))
        yield* Effect.logInfo("Report filed", { report: held.delivery.subject, issue: issue.number })
    })

  const failed = (held: Held, failure: string) =>
    Effect.gen(function* () {
      yield* write(held, DeliveryUpdate.Failed({ at: yield* Clock.currentTimeMillis, failure }))
      yield* Effect.logError("Report not filed, and it will not be tried again", {
        report: held.delivery.subject,
        failure
      })
    })

  /** Back into the state it was leased in. */
  const handBack = (held: Held, pause: number, failure: string) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      write(
        held,
        Option.isSome(held.delivery.sentAt)
          ? DeliveryUpdate.Unknown({ availableAt: now + pause, failure, looks: held.delivery.looks })
          : DeliveryUpdate.Waiting({ availableAt: now + pause, failure })
      )
    )

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

  /** True when it was filed. */
  const recordAnswer = (
    held: Held,
    sentAt: number,
    exit: Exit.Exit<Issue, UpstreamFailure>
  ): Effect.Effect<boolean> =>
    Effect.gen(function* () {
      if (Exit.isSuccess(exit)) {
        yield* delivered(held, exit.value)
        yield* destination.accepted
        return true
      }
      const failure = yield* failureOf(exit.cause)
      if (failure._tag === "Refused" && !isConfiguration(failure)) {
        const availableAt = yield* Clock.currentTimeMillis
        yield* failure.code === "too_long" && !wasTooLong(held.delivery)
          ? write(held, DeliveryUpdate.Waiting({ availableAt, failure: tooLong }))
          : failed(held, describe(failure))
        return false
      }
      const stopping = Cause.isInterruptedOnly(exit.cause)
      const pause = stopping ? 0 : yield* destination.failed(failure)
      // Looks may go well while every attempt is lost: then the attempts themselves become rarer.
      const own = stopping ? 0 : yield* backoff(held.delivery.attempts + 1, firstPause, longestPause)
      const availableAt = (yield* Clock.currentTimeMillis) + Math.max(pause, own)
      yield* write(
        held,
        failure._tag === "Unknown"
          ? DeliveryUpdate.Unknown({
              availableAt: Math.max(availableAt, lookAt(sentAt, 0)),
              failure: failure.reason,
              looks: 0
            })
          : DeliveryUpdate.Waiting({ availableAt, failure: describe(failure) })
      )
      return false
    })

  /** From the moment that `Sending` is committed, every way out records an outcome. True when it was filed. */
  const send = (held: Held, report: StoredReport) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const draft = composeIssue(report, wasTooLong(held.delivery) ? shortSize : fullSize)
        const at = yield* Clock.currentTimeMillis
        if (!(yield* write(held, DeliveryUpdate.Sending({ at })))) return false
        yield* destination.wrote(at)
        // A child would be interrupted together with us, before its outcome is known.
        const request = yield* Effect.forkDaemon(Effect.interruptible(Effect.exit(tracker.file(draft))))
        const answer = Effect.map(Fiber.await(request), Exit.flatten)
        const exit = yield* restore(answer).pipe(
          Effect.onInterrupt(() =>
            Effect.interruptible(answer).pipe(
              Effect.timeoutOption(stopGrace),
              Effect.flatMap(
                Option.match({
                  onNone: () => Effect.map(Fiber.interrupt(request), Exit.flatten),
                  onSome: Effect.succeed
                })
              ),
              Effect.flatMap((late) => recordAnswer(held, at, late))
            )
          )
        )
        return yield* recordAnswer(held, at, exit)
      })
    )

  /** True when nothing was found and no further look is needed; a failed look changes nothing but the time of the next one. */
  const surelyAbsent = (held: Held, report: StoredReport) =>
    Effect.gen(function* () {
      const { delivery } = held
      const since = Option.getOrElse(delivery.sentAt, () => delivery.createdAt) - lookMargin
      const result = yield* Effect.either(tracker.findByMarker(markerOf(report), since))
      if (Either.isLeft(result)) {
        const pause = yield* destination.failed(result.left)
        yield* handBack(held, pause, describe(result.left))
        return false
      }
      yield* destination.answered
      const [issue, ...copies] = result.right
      if (issue !== undefined) {
        yield* delivered(held, issue)
        yield* closeCopies(issue, copies)
        return false
      }
      const looks = delivery.looks + 1
      if (Option.isNone(delivery.sentAt) || looks >= looksNeeded) return true
      const availableAt = Math.max(yield* Clock.currentTimeMillis, lookAt(delivery.sentAt.value, looks))
      yield* write(held, DeliveryUpdate.Unknown({ availableAt, failure: "not found yet", looks }))
      return false
    })

  const closeCopies = (original: Issue, copies: ReadonlyArray<Issue>): Effect.Effect<void> =>
    Effect.forEach(
      copies,
      (copy) =>
        Effect.gen(function* () {
          yield* destination.spaced
          yield* destination.wrote(yield* Clock.currentTimeMillis)
          yield* tracker.closeDuplicate(copy, original)
          yield* Effect.logWarning("A duplicate issue was closed", {
            issue: copy.number,
            original: original.number
          })
        }).pipe(
          Effect.catchAll((failure) =>
            Effect.logWarning("A duplicate issue stays open", {
              issue: copy.number,
              failure: describe(failure)
            })
          )
        ),
      { discard: true }
    )

  const proceed = (held: Held) =>
    Effect.gen(function* () {
      const { delivery } = held
      const found = yield* store.reports.find(delivery.subject)
      if (Option.isNone(found)) return yield* failed(held, "the report is gone")
      const report = found.value
      if (Option.isSome(report.issue)) return yield* delivered(held, report.issue.value)
      const again = delivery.attempts > 0 || Option.isSome(delivery.sentAt)
      // Even a refused attempt may follow one whose answer was lost: whatever was sent before is looked for first.
      if (again && !(yield* surelyAbsent(held, report))) return
      yield* destination.spaced
      const filed = yield* send(held, report)
      if (filed && again) yield* parts.sentAgain(report, delivery.createdAt - lookMargin)
    })

  const handle = (delivery: Delivery): Effect.Effect<void> =>
    Effect.acquireUseRelease(
      Effect.map(Ref.make(false), (settled): Held => ({ delivery, settled })),
      (held) =>
        proceed(held).pipe(
          Effect.catchAllCause((cause) =>
            Effect.gen(function* () {
              yield* Effect.logError("A report could not be handled", {
                report: delivery.subject,
                cause: Cause.pretty(cause)
              })
              if (yield* Ref.get(held.settled)) return
              const pause = Option.isSome(Cause.failureOption(cause)) ? storePause : defectPause
              yield* handBack(held, pause, "handling it broke")
            })
          )
        ),
      (held) =>
        Effect.flatMap(Ref.get(held.settled), (settled) =>
          settled
            ? Effect.void
            : handBack(
                held,
                0,
                Option.getOrElse(delivery.lastFailure, () => "the process stopped")
              )
        )
    ).pipe(Effect.withSpan("ReportFiling.handle", { attributes: { report: delivery.subject } }))

  return { handle, closeCopies }
}

const wasTooLong = (delivery: Delivery): boolean => Option.contains(delivery.lastFailure, tooLong)
