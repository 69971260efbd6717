/** A wall clock that a test steps, as an operator or NTP does. Monotonic time and sleeps use the underlying clock. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

export interface SteppedClock {
  readonly clock: Clock.Clock
  /** Moves the wall clock by some milliseconds. */
  readonly step: (milliseconds: number) => void
}

export const makeSteppedClock: Effect.Effect<SteppedClock> = Effect.clockWith((below) =>
  Effect.sync(() => {
    let offset = 0
    const now = () => below.unsafeCurrentTimeMillis() + offset
    return {
      clock: {
        [Clock.ClockTypeId]: Clock.ClockTypeId,
        unsafeCurrentTimeMillis: now,
        unsafeCurrentTimeNanos: () => below.unsafeCurrentTimeNanos(),
        currentTimeMillis: Effect.sync(now),
        currentTimeNanos: below.currentTimeNanos,
        sleep: (duration) => below.sleep(duration)
      },
      step: (milliseconds) => {
        offset += milliseconds
      }
    }
  })
)
