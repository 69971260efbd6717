/** Handles one delivery under its lease: a heartbeat extends it, its loss interrupts the handler, an early end releases it. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
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

/**
 * Runs `handler` under a lease of `millis`, which the heartbeat extends. Whatever happens, the delivery can be leased
 * again afterwards. The handler is interrupted when the lease is lost or the caller is interrupted.
 */
export const underLease =
  (deliveries: Deliveries, millis: number) =>
  (
    delivery: Delivery,
    leasedUntil: number,
    handler: (leased: LeasedDelivery) => Effect.Effect<void, StoreUnavailable>
  ): Effect.Effect<void> =>
    Effect.gen(function* () {
      /** Monotonic milliseconds, which no step of the clock changes. The row holds wall time, which all processes share. */
      let endsAt = leasedUntil
      /** The outcome is written, or cannot be: no lease is left to lose. */
      let settled = false
      // Serialises heartbeat and outcome; otherwise a heartbeat could see the settled row and report a lost lease.
      const mutex = yield* Effect.makeSemaphore(1)

      const writeUpdate = (update: DeliveryUpdate, retries: Schedule.Schedule<unknown>) => {
        const sending = update._tag === "Sending"
        return deliveries.update(delivery, update).pipe(
          Effect.tap(() => {
            settled = settled || !sending
          }),
          mutex.withPermits(1),
          Effect.retry(retries),
          Effect.catchAll(({ reason }) => {
            settled = settled || !sending
            return Effect.as(
              Effect.logError("A delivery could not be written; its lease will end", { reason }),
              false
            )
          }),
          Effect.uninterruptible
        )
      }

      const release = (availableAt: number, failure: string) => {
        const facts = { availableAt: Math.max(availableAt, delivery.availableAt), failure }
        return Effect.asVoid(writeUpdate(DeliveryUpdate.Released(facts), releaseRetries))
      }

      const extend = Effect.gen(function* () {
        if (settled) return true
        const now = yield* monotonicMillis
        const leaseUntil = (yield* Clock.currentTimeMillis) + millis
        const extended = yield* deliveries.extend(delivery, leaseUntil).pipe(
          Effect.disconnect,
          // A database that does not answer may never do so.
          Effect.timeoutFail({
            duration: Math.max(1, endsAt - now),
            onTimeout: () => new StoreUnavailable({ kind: "unanswered" })
          })
        )
        if (extended) endsAt = now + millis
        return extended
      }).pipe(mutex.withPermits(1))

      const isHeld = Effect.map(monotonicMillis, (now) => settled || now < endsAt)

      /** Ends when the lease is lost, or has ended because the database was away. */
      const heartbeat = extend.pipe(
        Effect.retry({ schedule: Schedule.spaced(Math.floor(millis / 10)), while: () => isHeld }),
        Effect.orElseSucceed(() => false),
        Effect.delay(Math.floor(millis / 3)),
        Effect.repeat({ while: (extended) => (extended ? isHeld : Effect.succeed(false)) }),
        Effect.zipRight(Effect.logWarning("A lease was lost while its delivery was being handled"))
      )

      const handling = yield* handler({
        delivery,
        write: (update) => writeUpdate(update, outcomeRetries),
        holds: Effect.orElseSucceed(extend, () => false),
        release
      }).pipe(Effect.interruptible, Effect.fork)
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
      const end = yield* Fiber.await(handling)
      if (Exit.isSuccess(end) || Exit.isInterrupted(end)) {
        const why = Option.getOrElse(delivery.lastFailure, () => "the process stopped")
        return settled ? undefined : yield* release(delivery.availableAt, why)
      }
      const unavailable = Option.getOrUndefined(Cause.failureOption(end.cause))
      yield* Effect.logError(
        "A delivery could not be handled",
        unavailable?.reason ?? Cause.pretty(end.cause)
      )
      const pausedUntil = (yield* Clock.currentTimeMillis) + (unavailable ? storePause : defectPause)
      if (!settled) yield* release(pausedUntil, unavailable?.reason ?? "the handler failed with a defect")
    }).pipe(Effect.uninterruptible, Effect.annotateLogs({ delivery: delivery.id }))
