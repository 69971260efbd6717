import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** A clock that can be moved forward. What sleeps until a time that it passes wakes up. */
export interface OffsetClock {
  /** Milliseconds since the epoch, as the server and the simulators see it. */
  readonly now: () => number
  /** Milliseconds by which it is ahead of the real one. */
  readonly offset: () => number
  readonly advance: (milliseconds: number) => void
  /** Provides this clock to every effect below. */
  readonly layer: Layer.Layer<never>
}

/** The longest time that a timer of the platform takes, milliseconds. */
const longestTimer = 2 ** 31 - 1

interface Sleeper {
  readonly until: number
  readonly wake: () => void
  timer: NodeJS.Timeout | undefined
}

export const makeOffsetClock = (): OffsetClock => {
  const real = Clock.make()
  const sleepers = new Set<Sleeper>()
  let offset = 0
  const now = () => real.unsafeCurrentTimeMillis() + offset
  const nanos = () => real.unsafeCurrentTimeNanos() + BigInt(offset) * 1_000_000n
  /** For sleeps, which a step of the machine's own clock does not change. */
  const elapsed = () => performance.now() + offset

  /** A timer may fire a moment early: then it is set again. */
  const wakeWhenDue = (sleeper: Sleeper): void => {
    clearTimeout(sleeper.timer)
    const left = sleeper.until - elapsed()
    if (left > 0) {
      sleeper.timer = setTimeout(() => wakeWhenDue(sleeper), Math.min(left, longestTimer))
      return
    }
    sleepers.delete(sleeper)
    sleeper.wake()
  }

  const sleep = (duration: Duration.Duration): Effect.Effect<void> =>
    Effect.async<void>((resume) => {
      const sleeper: Sleeper = {
        until: elapsed() + Duration.toMillis(duration),
        wake: () => resume(Effect.void),
        timer: undefined
      }
      sleepers.add(sleeper)
      sleeper.timer = setTimeout(
        () => wakeWhenDue(sleeper),
        Math.min(Duration.toMillis(duration), longestTimer)
      )
      return Effect.sync(() => {
        clearTimeout(sleeper.timer)
        sleepers.delete(sleeper)
      })
    })

  const clock: Clock.Clock = {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: now,
    unsafeCurrentTimeNanos: nanos,
    currentTimeMillis: Effect.sync(now),
    currentTimeNanos: Effect.sync(nanos),
    sleep
  }
  return {
    now,
    offset: () => offset,
    advance: (milliseconds) => {
      offset += Math.max(0, Math.trunc(milliseconds))
      for (const sleeper of [...sleepers]) wakeWhenDue(sleeper)
    },
    layer: Layer.setClock(clock)
  }
}
