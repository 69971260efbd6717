/**
 * Leases and handles deliveries of one destination.
 *
 * Not `SqlPersistedQueue` of `@effect/experimental`: it repeats a failed job at once and without a pause, keeps no record
 * of an exhausted job, and a dead worker's job stays locked for minutes.
 */
import { randomUUID } from "node:crypto"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Ref from "effect/Ref"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import type { DeliveryKind, StoreService, StoreUnavailable } from "../../services/Store.ts"
import { longestPausedSleep } from "./Breaker.ts"
import { type LeasedDelivery, underLease } from "./Lease.ts"
import { repeatRounds } from "./Worker.ts"

/** Milliseconds until the next attempt after a lease that took nothing, because another transaction locks the rows. */
const fruitlessLeasePause = 250

export interface WorkerOptions {
  readonly kinds: ReadonlyArray<DeliveryKind>
  /** How many deliveries all processes together handle at once. */
  readonly concurrency: number
  /** Milliseconds until the destination takes requests again; 0 when it does. */
  readonly pauseMillis: Effect.Effect<number, StoreUnavailable>
  /** Handles one delivery. Interrupted when the process stops or the lease is lost. */
  readonly handle: (leased: LeasedDelivery) => Effect.Effect<void, StoreUnavailable>
}

/**
 * Leases due deliveries and handles them, forever. Between them it sleeps until the store wakes it up, a delivery falls
 * due, or a lease of another process may have ended. An interruption releases the leases that it holds.
 */
export const runDeliveryWorker = (
  store: Pick<StoreService, "deliveries" | "wakeups">,
  lease: number,
  { concurrency, handle, kinds, pauseMillis }: WorkerOptions
): Effect.Effect<never> =>
  Effect.gen(function* () {
    const { deliveries, wakeups } = store
    const owner = yield* Effect.sync(() => `${kinds.join("-")}-${randomUUID()}`)
    const fibers = yield* FiberSet.make()
    const running = yield* Ref.make(0)
    const slotFreed = yield* Queue.sliding<void>(1)
    // Another process may lease something in the meantime: its lease must be seen before it ends.
    const longestSleep = Math.floor(lease / 2)

    const handleUnlessPaused = (leased: LeasedDelivery) =>
      Effect.gen(function* () {
        // Another process may have reached a limit since this round began.
        const pause = yield* pauseMillis
        if (pause === 0) return yield* handle(leased)
        const failure = Option.getOrElse(leased.delivery.lastFailure, () => "the destination was paused")
        yield* leased.release(leased.delivery.availableAt, failure)
      })

    const leaseAndFork = Effect.gen(function* () {
      const count = concurrency - (yield* Ref.get(running))
      if (count === 0) return 0
      const endsAt = (yield* monotonicMillis) + lease
      const now = yield* Clock.currentTimeMillis
      const request = { kinds, count, concurrency, now, leaseUntil: now + lease, owner }
      const leased = yield* deliveries.lease(request)
      for (const delivery of leased) {
        yield* Ref.update(running, (before) => before + 1)
        const freeSlot = Effect.zipRight(
          Ref.update(running, (before) => before - 1),
          Queue.offer(slotFreed, undefined)
        )
        // Releases the lease also when it is interrupted before it began.
        yield* underLease(deliveries, lease)(delivery, endsAt, handleUnlessPaused).pipe(
          Effect.catchAllDefect((defect) =>
            Effect.logError("A delivery was dropped; its lease will end", Cause.pretty(Cause.die(defect)))
          ),
          Effect.ensuring(freeSlot),
          FiberSet.run(fibers)
        )
      }
      return leased.length
    }).pipe(Effect.uninterruptible)

    const sleepUntilWoken = (millis: number) =>
      Effect.raceFirst(
        Queue.take(slotFreed),
        Effect.raceFirst(wakeups.deliveries, Effect.sleep(Math.min(longestSleep, millis)))
      )

    const sleepUntilDue = Effect.gen(function* () {
      if ((yield* Ref.get(running)) === concurrency) return yield* Queue.take(slotFreed)
      const dueAt = yield* deliveries.nextDueAt(kinds, concurrency)
      const now = yield* Clock.currentTimeMillis
      // A row that is due and could not be leased is locked for a moment.
      const wait = Option.match(dueAt, {
        onNone: () => longestSleep,
        onSome: (at) => (at > now ? at - now : fruitlessLeasePause)
      })
      yield* sleepUntilWoken(wait)
    })

    const round = Effect.gen(function* () {
      const pause = yield* pauseMillis
      if (pause > 0) return yield* Effect.sleep(Math.min(longestPausedSleep, pause))
      if ((yield* leaseAndFork) === 0) yield* sleepUntilDue
    })

    return yield* repeatRounds("Report delivery")(round)
  }).pipe(Effect.scoped)
