/**
 * Time that is never stepped. Quotas, caches, pauses and deadlines in memory use it, so that a correction of the wall clock by an
 * operator or NTP neither extends nor ends them.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as ScheduleDecision from "effect/ScheduleDecision"
import * as ScheduleInterval from "effect/ScheduleInterval"

/** Milliseconds of the process's high-resolution timer, for code that already has a clock. Only differences are meaningful. */
export const unsafeMonotonicMillis = (clock: Clock.Clock): number =>
  Number(clock.unsafeCurrentTimeNanos() / 1_000n) / 1_000

/** The same as an effect. Not `Clock.currentTimeNanos`, which the test clock rounds to milliseconds. */
export const monotonicMillis: Effect.Effect<number> = Effect.map(Effect.clock, unsafeMonotonicMillis)

/** Recurs without a pause until `millis` have passed; intersect it with a schedule that paces. `Schedule.upTo` uses the wall clock. */
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
