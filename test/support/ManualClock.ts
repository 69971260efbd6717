/**
 * A clock that only its owner moves. Effect's TestClock spends several real milliseconds on each step, until all fibers have
 * suspended three times in a row; here the owner decides when a step is over.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

interface Sleep {
  readonly at: number
  readonly wake: () => void
}

export interface ManualClock {
  readonly clock: Clock.Clock
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Wakes everything that is due by then, in one step. Time may also go back. */
  readonly setTime: (millis: number) => void
  /** When the sleeps end that have not ended. */
  readonly dueTimes: () => ReadonlyArray<number>
}

export const makeManualClock = (startAt: number): ManualClock => {
  let now = startAt
  const sleeps = new Set<Sleep>()
  const currentMillis = () => now
  const currentNanos = () => BigInt(Math.round(now * 1_000_000))
  return {
    clock: {
      [Clock.ClockTypeId]: Clock.ClockTypeId,
      unsafeCurrentTimeMillis: currentMillis,
      unsafeCurrentTimeNanos: currentNanos,
      currentTimeMillis: Effect.sync(currentMillis),
      currentTimeNanos: Effect.sync(currentNanos),
      sleep: (duration) =>
        Effect.async((resume) => {
          const at = now + Duration.toMillis(duration)
          if (at <= now) return resume(Effect.void)
          const sleep = { at, wake: () => resume(Effect.void) }
          sleeps.add(sleep)
          return Effect.sync(() => sleeps.delete(sleep))
        })
    },
    now: currentMillis,
    setTime: (millis) => {
      now = millis
      for (const sleep of sleeps)
        if (sleep.at <= now) {
          sleeps.delete(sleep)
          sleep.wake()
        }
    },
    dueTimes: () => [...sleeps].map(({ at }) => at)
  }
}
