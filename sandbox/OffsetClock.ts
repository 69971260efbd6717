import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** A clock that can be moved forward. Reads are ahead by the offset; sleeps take their real time. */
export interface OffsetClock {
  /** Milliseconds since the epoch, as the server and the simulators see it. */
  readonly now: () => number
  readonly advance: (milliseconds: number) => void
  /** Provides this clock to every effect below. */
  readonly layer: Layer.Layer<never>
}

export const makeOffsetClock = (): OffsetClock => {
  const real = Clock.make()
  let offset = 0
  const now = () => real.unsafeCurrentTimeMillis() + offset
  const nanos = () => real.unsafeCurrentTimeNanos() + BigInt(offset) * 1_000_000n
  const clock: Clock.Clock = {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: now,
    unsafeCurrentTimeNanos: nanos,
    currentTimeMillis: Effect.sync(now),
    currentTimeNanos: Effect.sync(nanos),
    sleep: (duration: Duration.Duration) => real.sleep(duration)
  }
  return {
    now,
    advance: (milliseconds) => {
      offset += Math.max(0, Math.trunc(milliseconds))
    },
    layer: Layer.setClock(clock)
  }
}
