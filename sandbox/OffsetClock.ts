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

export const makeOffsetClock = (): OffsetClock => {
  const real = Clock.make()
  /** Each wakes what sleeps when it is due. */
  const sleepers = new Set<() => void>()
  let offset = 0
  const now = () => real.unsafeCurrentTimeMillis() + offset
  const nanos = () => real.unsafeCurrentTimeNanos() + BigInt(offset) * 1_000_000n
  /** For sleeps, which a step of the machine's own clock does not change. */
  const elapsed = () => performance.now() + offset

  const sleep = (duration: Duration.Duration): Effect.Effect<void> =>
    Effect.async<void>((resume) => {
      const until = elapsed() + Duration.toMillis(duration)
      const waitFor = (left: number) => setTimeout(wakeWhenDue, Math.min(left, longestTimer))
      const end = () => {
        clearTimeout(timer)
        sleepers.delete(wakeWhenDue)
      }
      /** A timer may fire a moment early: then it is set again. */
      const wakeWhenDue = (): void => {
        const left = until - elapsed()
        clearTimeout(timer)
        if (left > 0) {
          timer = waitFor(left)
          return
        }
        end()
        resume(Effect.void)
      }
      sleepers.add(wakeWhenDue)
      let timer = waitFor(Duration.toMillis(duration))
      return Effect.sync(end)
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
      for (const wakeWhenDue of [...sleepers]) wakeWhenDue()
    },
    layer: Layer.setClock(clock)
  }
}
