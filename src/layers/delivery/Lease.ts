/** Work on one delivery under its lease: kept alive by a heartbeat, given up when it is lost, handed back when it ends early. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import { monotonicMillis, recurWithin } from "../../services/MonotonicTime.ts"
import { type Deliveries, type Delivery, DeliveryUpdate, StoreUnavailable } from "../../services/Store.ts"

/** Milliseconds before a delivery is taken up again after the database failed, and after its handling broke; others go first. */
const storePause = 5_000
const defectPause = 5 * 60_000

/** An outcome must not be lost to a database that is away for a moment; what is only handed back may come back by itself. */
const outcomeRetries = Schedule.spaced("1 second").pipe(Schedule.intersect(recurWithin(10_000)))
const handBackRetries = Schedule.spaced("500 millis").pipe(Schedule.intersect(recurWithin(2_000)))

/** A delivery in the hands of the one who may write about it. */
export interface Held {
  readonly delivery: Delivery
  /** False when the lease is no longer ours, or the database stayed away: then nobody knows of it. */
  readonly write: (update: DeliveryUpdate) => Effect.Effect<boolean>
  /** Whether the lease has not ended yet: to be asked right before a step that cannot be taken back. */
  readonly alive: Effect.Effect<boolean>
  /** Lets go of it, due again at `availableAt` (milliseconds since the epoch) or when it was due anyway. */
  readonly handBack: (availableAt: number, failure: string) => Effect.Effect<void>
}

/** Processes share the row, so what it says is wall time; a holder goes by monotonic time, which no step of the clock changes. */
export interface LeaseEnd {
  /** Monotonic milliseconds. */
  readonly endsAt: number
  /** What the row says, in milliseconds since the epoch. */
  readonly leaseUntil: number
}

interface Grip extends LeaseEnd {
  /** Something was sent under this lease. */
  readonly sent: boolean
  /** Its outcome is written, or cannot be. */
  readonly settled: boolean
}

/**
 * Does `work` with what was leased until `end`, for `millis` at a time. Whatever happens, someone can take it up
 * afterwards; `work` is interrupted when the lease is lost, or the caller is.
 */
export const underLease =
  (deliveries: Deliveries, millis: number) =>
  (
    delivery: Delivery,
    end: LeaseEnd,
    work: (held: Held) => Effect.Effect<void, StoreUnavailable>
  ): Effect.Effect<void> =>
    Effect.gen(function* () {
      const grip = yield* Ref.make<Grip>({ sent: false, settled: false, ...end })
      // So that a heartbeat never meets what was settled a moment before, and takes it for lost.
      const turn = yield* Effect.makeSemaphore(1)
      const { fence, id } = delivery

      const writing = (update: DeliveryUpdate, retries: Schedule.Schedule<unknown>) =>
        deliveries.update(id, fence, update).pipe(
          Effect.tap((ours) =>
            Ref.update(grip, (last) =>
              update._tag === "Sending" ? { ...last, sent: ours } : { ...last, settled: true }
            )
          ),
          turn.withPermits(1),
          Effect.retry(retries),
          Effect.catchAll(({ reason }) =>
            Effect.logError("A delivery could not be written; its lease will end", { reason }).pipe(
              Effect.zipRight(
                update._tag === "Sending"
                  ? Effect.void
                  : Ref.update(grip, (last) => ({ ...last, settled: true }))
              ),
              Effect.as(false)
            )
          ),
          Effect.uninterruptible
        )

      const handBack = (availableAt: number, failure: string) =>
        Effect.flatMap(Ref.get(grip), ({ sent }) => {
          const facts = { availableAt: Math.max(availableAt, delivery.availableAt), failure }
          return writing(
            sent || Option.isSome(delivery.sentAt) || delivery.state === "unknown"
              ? DeliveryUpdate.Unknown({ ...facts, looks: sent ? 0 : delivery.looks })
              : DeliveryUpdate.Waiting(facts),
            handBackRetries
          )
        }).pipe(Effect.asVoid)

      const lasts = Effect.zipWith(Ref.get(grip), monotonicMillis, ({ endsAt }, now) => now < endsAt)

      const extend = Effect.gen(function* () {
        const now = yield* monotonicMillis
        const leaseUntil = (yield* Clock.currentTimeMillis) + millis
        const before = yield* Ref.get(grip)
        if (before.settled) return true
        const ours = yield* deliveries.extend(id, fence, leaseUntil).pipe(
          Effect.disconnect,
          // A database that does not answer may never do so.
          Effect.timeoutFail({
            duration: Math.max(1, before.endsAt - now),
            onTimeout: () => new StoreUnavailable({ problem: { kind: "timed_out" } })
          })
        )
        if (ours) yield* Ref.update(grip, (last) => ({ ...last, endsAt: now + millis, leaseUntil }))
        return ours
      }).pipe(turn.withPermits(1))

      /** Where the wall clock disagrees, other processes may have read the row's end differently: only the row knows. */
      const alive = Effect.gen(function* () {
        if (!(yield* lasts)) return false
        const { leaseUntil } = yield* Ref.get(grip)
        const left = leaseUntil - (yield* Clock.currentTimeMillis)
        return (left > 0 && left <= millis) || (yield* Effect.orElseSucceed(extend, () => false))
      })

      const held: Held = {
        delivery,
        write: (update) => writing(update, outcomeRetries),
        alive,
        handBack
      }

      /** Ends when the lease is lost, or has ended because the database could not be told in time. */
      const heartbeat = Effect.gen(function* () {
        let pause = Math.floor(millis / 3)
        for (;;) {
          yield* Effect.sleep(pause)
          const extended = yield* Effect.option(extend)
          // What is settled has no lease any more, and its work ends by itself.
          if ((yield* Ref.get(grip)).settled) return yield* Effect.never
          if (Option.contains(extended, false) || !(yield* lasts)) break
          pause = Math.floor(Option.isSome(extended) ? millis / 3 : millis / 10)
        }
        yield* Effect.logWarning("A lease was lost while its delivery was being handled")
      })

      const broken = (cause: Cause.Cause<StoreUnavailable>) =>
        Effect.gen(function* () {
          const unavailable = Cause.failureOption(cause)
          yield* Effect.logError(
            "A delivery could not be handled",
            Option.match(unavailable, {
              onNone: () => Cause.pretty(cause),
              onSome: ({ reason }) => ({ reason })
            })
          )
          if ((yield* Ref.get(grip)).settled) return
          const pause = Option.isSome(unavailable) ? storePause : defectPause
          yield* handBack((yield* Clock.currentTimeMillis) + pause, "handling it broke")
        })

      const letGo = Effect.flatMap(Ref.get(grip), ({ settled }) =>
        settled
          ? Effect.void
          : handBack(
              delivery.availableAt,
              Option.getOrElse(delivery.lastFailure, () => "the process stopped")
            )
      )

      const working = yield* work(held).pipe(
        Effect.catchAllCause((cause) =>
          Cause.isInterruptedOnly(cause) ? Effect.failCause(cause) : broken(cause)
        ),
        Effect.interruptible,
        Effect.fork
      )
      const beating = yield* heartbeat.pipe(
        Effect.zipRight(Fiber.interrupt(working)),
        Effect.interruptible,
        Effect.fork
      )
      // Not a race, which would not wait for what an interrupted send has to write.
      yield* Fiber.await(working).pipe(
        Effect.interruptible,
        Effect.onInterrupt(() => Fiber.interrupt(working)),
        Effect.exit
      )
      yield* Fiber.interrupt(beating)
      yield* letGo
    }).pipe(Effect.uninterruptible, Effect.annotateLogs({ delivery: delivery.id }))
