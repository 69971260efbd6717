/**
 * Time that never steps. Quotas, caches, pauses and deadlines that live in memory count with it: a wall clock that an
 * operator or NTP corrects must neither stretch nor end them.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as ScheduleDecision from "effect/ScheduleDecision"
import * as ScheduleInterval from "effect/ScheduleInterval"

const toMillis = (nanos: bigint): number => Number(nanos / 1_000n) / 1_000

/** Milliseconds of the process' high-resolution timer, where a clock is at hand. Only differences have a meaning. */
export const unsafeMonotonicMillis = (clock: Clock.Clock): number => toMillis(clock.unsafeCurrentTimeNanos())

/** The same. Not `Clock.currentTimeNanos`, which the test's clock does not know at a fraction of a millisecond. */
export const monotonicMillis: Effect.Effect<number> = Effect.clockWith((clock) =>
  Effect.sync(() => unsafeMonotonicMillis(clock))
)

/** Recurs at once until so many milliseconds have passed; to be intersected with what paces it. `Schedule.upTo` goes by the wall clock. */
export const recurWithin = (millis: number): Schedule.Schedule<void> =>
  Schedule.makeWithState<number | undefined, unknown, void>(undefined, (wall, _, startedAt) =>
    Effect.map(monotonicMillis, (now) => {
      const from = startedAt ?? now
      return [
        from,
        undefined,
        now - from < millis
          ? ScheduleDecision.continueWith(ScheduleInterval.after(wall))
          : ScheduleDecision.done
      ]
    })
  )
