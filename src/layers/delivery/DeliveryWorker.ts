/**
 * A pool of workers for one destination over the table of deliveries.
 *
 * Not `SqlPersistedQueue` of `@effect/experimental`: it repeats a failed job at once and without a pause, an exhausted
 * one leaves no trace that anybody could look at, and a dead worker's job stays locked for minutes.
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
import { type Held, underLease } from "./Lease.ts"
import { patiently, pausedLook, untilWoken } from "./Backoff.ts"

/** Milliseconds. */
const lockedPause = 250

export interface Work {
  readonly kinds: ReadonlyArray<DeliveryKind>
  /** What all processes together handle at once. */
  readonly concurrency: number
  /** Milliseconds for which the destination takes nothing; 0 when it does. */
  readonly paused: Effect.Effect<number, StoreUnavailable>
  /** Brings a delivery as far as it gets. Interrupted when the process stops or the lease is lost. */
  readonly handle: (held: Held) => Effect.Effect<void, StoreUnavailable>
}

/**
 * Leases due work and handles it, for ever. It sleeps until the store's sign, the time at which something falls due, or
 * the end of somebody's lease. Interrupting it hands back what it holds.
 */
export const runDeliveryWorker = (
  store: Pick<StoreService, "deliveries" | "wakeups">,
  lease: number,
  { concurrency, handle, kinds, paused }: Work
): Effect.Effect<never> =>
  Effect.gen(function* () {
    const { deliveries, wakeups } = store
    const owner = yield* Effect.sync(() => `${kinds.join("-")}-${randomUUID()}`)
    const fibers = yield* FiberSet.make()
    const running = yield* Ref.make(0)
    const freed = yield* Queue.sliding<void>(1)
    // Another process may lease something while we sleep: its lease must be seen before it ends.
    const longestSleep = Math.floor(lease / 2)

    const work = (held: Held) =>
      Effect.gen(function* () {
        // Another process may have met a limit between our look at it and our lease.
        const pause = yield* paused
        if (pause === 0) return yield* handle(held)
        const failure = Option.getOrElse(held.delivery.lastFailure, () => "the destination was paused")
        yield* held.handBack(held.delivery.availableAt, failure)
      })

    const claim = Effect.gen(function* () {
      const count = concurrency - (yield* Ref.get(running))
      if (count === 0) return 0
      const endsAt = (yield* monotonicMillis) + lease
      const now = yield* Clock.currentTimeMillis
      const leaseUntil = now + lease
      const leased = yield* deliveries.lease({ kinds, count, concurrency, now, leaseUntil, owner })
      for (const delivery of leased) {
        yield* Ref.update(running, (before) => before + 1)
        const done = Effect.zipRight(
          Ref.update(running, (before) => before - 1),
          Queue.offer(freed, undefined)
        )
        // It hands back also when it is interrupted before it began.
        yield* underLease(deliveries, lease)(delivery, { endsAt, leaseUntil }, work).pipe(
          Effect.catchAllDefect((defect) =>
            Effect.logError("A delivery was dropped; its lease will end", Cause.pretty(Cause.die(defect)))
          ),
          Effect.ensuring(done),
          FiberSet.run(fibers)
        )
      }
      return leased.length
    }).pipe(Effect.uninterruptible)

    const rest = (millis: number) =>
      Effect.raceFirst(Queue.take(freed), untilWoken(wakeups.deliveries, Math.min(longestSleep, millis)))

    const idle = Effect.gen(function* () {
      if ((yield* Ref.get(running)) === concurrency) return yield* Queue.take(freed)
      const dueAt = yield* deliveries.nextDueAt(kinds, concurrency)
      const now = yield* Clock.currentTimeMillis
      // What is due and could not be leased is locked by somebody for a moment.
      const wait = Option.match(dueAt, {
        onNone: () => longestSleep,
        onSome: (at) => (at > now ? at - now : lockedPause)
      })
      yield* rest(wait)
    })

    const round = Effect.gen(function* () {
      const pause = yield* paused
      if (pause > 0) return yield* Effect.sleep(Math.min(pausedLook, pause))
      if ((yield* claim) === 0) yield* idle
    })

    return yield* patiently("Deliveries")(round)
  }).pipe(Effect.scoped)
