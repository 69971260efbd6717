/** Handles one delivery under its lease: a heartbeat extends it, its loss interrupts the handler, an early end releases it. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import { monotonicMillis, recurWithin } from "../../services/MonotonicTime.ts"
import { type Deliveries, type Delivery, DeliveryUpdate, StoreUnavailable } from "../../services/Store.ts"

/** Milliseconds before the next attempt after the database failed, and after a defect in the handler; other deliveries go first. */
const storePause = 5_000
const defectPause = 5 * 60_000

/** An outcome must survive a short outage of the database. A release may fail: the lease then ends by itself. */
const outcomeRetries = Schedule.spaced("1 second").pipe(Schedule.intersect(recurWithin(10_000)))
const releaseRetries = Schedule.spaced("500 millis").pipe(Schedule.intersect(recurWithin(2_000)))

/** A delivery, and what the holder of its lease may do with it. */
export interface LeasedDelivery {
  readonly delivery: Delivery
  /** False when the lease is lost, or the database stayed away: then the update is not stored. */
  readonly write: (update: DeliveryUpdate) => Effect.Effect<boolean>
  /** Extends the lease: false when it is lost. Ask right before a step that cannot be undone. */
  readonly holds: Effect.Effect<boolean>
  /** Ends the lease. The delivery is due at `availableAt` (milliseconds since the epoch), but not earlier than before. */
  readonly release: (availableAt: number, failure: string) => Effect.Effect<void>
}

interface LeaseState {
  /** Monotonic milliseconds, which no step of the clock changes. The row holds wall time, which all processes share. */
  readonly endsAt: number
  /** A request was sent under this lease. */
  readonly sent: boolean
  /** The outcome is written, or cannot be. */
  readonly settled: boolean
}

/**
 * Runs `handler` under a lease of `millis`, which the heartbeat extends. Whatever happens, the delivery can be leased
 * again afterwards. The handler is interrupted when the lease is lost or the caller is interrupted.
 */
export const underLease =
  (deliveries: Deliveries, millis: number) =>
  (
    delivery: Delivery,
    endsAt: number,
    handler: (leased: LeasedDelivery) => Effect.Effect<void, StoreUnavailable>
  ): Effect.Effect<void> =>
    Effect.gen(function* () {
      const leaseState = yield* Ref.make<LeaseState>({ sent: false, settled: false, endsAt })
      // Serialises heartbeat and settle; otherwise a heartbeat could see the settled row and report a lost lease.
      const mutex = yield* Effect.makeSemaphore(1)
      const { fence, id } = delivery

      const settle = Ref.update(leaseState, (before) => ({ ...before, settled: true }))

      const writeUpdate = (update: DeliveryUpdate, retries: Schedule.Schedule<unknown>) => {
        const sending = update._tag === "Sending"
        return deliveries.update(id, fence, update).pipe(
          Effect.tap((sent) =>
            sending ? Ref.update(leaseState, (before) => ({ ...before, sent })) : settle
          ),
          mutex.withPermits(1),
          Effect.retry(retries),
          Effect.catchAll(({ reason }) =>
            Effect.logError("A delivery could not be written; its lease will end", { reason }).pipe(
              Effect.zipRight(sending ? Effect.void : settle),
              Effect.as(false)
            )
          ),
          Effect.uninterruptible
        )
      }

      const release = (availableAt: number, failure: string) =>
        Effect.flatMap(Ref.get(leaseState), ({ sent }) => {
          const facts = { availableAt: Math.max(availableAt, delivery.availableAt), failure }
          return writeUpdate(
            sent || Option.isSome(delivery.sentAt) || delivery.state === "unknown"
              ? DeliveryUpdate.Unknown({ ...facts, searches: sent ? 0 : delivery.searches })
              : DeliveryUpdate.Waiting(facts),
            releaseRetries
          )
        }).pipe(Effect.asVoid)

      const isBeforeEnd = Effect.zipWith(
        Ref.get(leaseState),
        monotonicMillis,
        (lease, now) => now < lease.endsAt
      )

      const extend = Effect.gen(function* () {
        const now = yield* monotonicMillis
        const leaseUntil = (yield* Clock.currentTimeMillis) + millis
        const before = yield* Ref.get(leaseState)
        if (before.settled) return true
        const extended = yield* deliveries.extend(id, fence, leaseUntil).pipe(
          Effect.disconnect,
          // A database that does not answer may never do so.
          Effect.timeoutFail({
            duration: Math.max(1, before.endsAt - now),
            onTimeout: () => new StoreUnavailable({ kind: "unanswered" })
          })
        )
        if (extended) yield* Ref.update(leaseState, (last) => ({ ...last, endsAt: now + millis }))
        return extended
      }).pipe(mutex.withPermits(1))

      const leased: LeasedDelivery = {
        delivery,
        write: (update) => writeUpdate(update, outcomeRetries),
        holds: Effect.orElseSucceed(extend, () => false),
        release
      }

      /** A settled delivery has no lease left to lose: its handler ends by itself. */
      const isSettledOrHeld = Effect.flatMap(Ref.get(leaseState), ({ settled }) =>
        settled ? Effect.succeed(true) : isBeforeEnd
      )

      /** Ends when the lease is lost, or has ended because the database was away. */
      const heartbeat = extend.pipe(
        Effect.retry({ schedule: Schedule.spaced(Math.floor(millis / 10)), while: () => isSettledOrHeld }),
        Effect.orElseSucceed(() => false),
        Effect.repeat({
          schedule: Schedule.spaced(Math.floor(millis / 3)),
          while: (extended) => (extended ? isSettledOrHeld : Effect.succeed(false))
        }),
        Effect.delay(Math.floor(millis / 3)),
        Effect.zipRight(Effect.logWarning("A lease was lost while its delivery was being handled"))
      )

      const recordBrokenHandler = (cause: Cause.Cause<StoreUnavailable>) =>
        Effect.gen(function* () {
          const unavailable = Cause.failureOption(cause)
          yield* Effect.logError(
            "A delivery could not be handled",
            Option.match(unavailable, {
              onNone: () => Cause.pretty(cause),
              onSome: ({ reason }) => ({ reason })
            })
          )
          if ((yield* Ref.get(leaseState)).settled) return
          const pause = Option.isSome(unavailable) ? storePause : defectPause
          yield* release((yield* Clock.currentTimeMillis) + pause, "the handler failed with a defect")
        })

      const releaseUnlessSettled = Effect.flatMap(Ref.get(leaseState), ({ settled }) =>
        settled
          ? Effect.void
          : release(
              delivery.availableAt,
              Option.getOrElse(delivery.lastFailure, () => "the process stopped")
            )
      )

      const handling = yield* handler(leased).pipe(
        Effect.catchAllCause((cause) =>
          Cause.isInterruptedOnly(cause) ? Effect.failCause(cause) : recordBrokenHandler(cause)
        ),
        Effect.interruptible,
        Effect.fork
      )
      const beating = yield* heartbeat.pipe(
        Effect.zipRight(Fiber.interrupt(handling)),
        Effect.interruptible,
        Effect.fork
      )
      // Not a race: it would not wait for what an interrupted send has to write.
      yield* Fiber.await(handling).pipe(
        Effect.interruptible,
        Effect.onInterrupt(() => Fiber.interrupt(handling)),
        Effect.exit
      )
      yield* Fiber.interrupt(beating)
      yield* releaseUnlessSettled
    }).pipe(Effect.uninterruptible, Effect.annotateLogs({ delivery: delivery.id }))
