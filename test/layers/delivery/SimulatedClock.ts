/**
 * A clock that only the test moves. Effect's TestClock spends several real milliseconds on each step,
 * until all fibers have suspended three times in a row; here the caller decides when a step is over.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

interface Sleep {
  readonly at: number
  readonly wake: () => void
}

/** Moves time; `settled` completes when everything that follows from a step is done. */
export const makeSimulatedClock = (startAt: number) =>
  Effect.gen(function* () {
    let now = startAt
    const sleeps = new Set<Sleep>()
    const currentMillis = () => now
    const currentNanos = () => BigInt(Math.round(now * 1_000_000))
    const clock: Clock.Clock = {
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
    }
    yield* Effect.withClockScoped(clock)

    /** Runs everything that is due by then, in one step. Time may also go back. */
    const setTime = (millis: number) =>
      Effect.sync(() => {
        now = millis
        for (const sleep of sleeps)
          if (sleep.at <= now) {
            sleeps.delete(sleep)
            sleep.wake()
          }
      })

    /** Moves from one due time to the next, and settles after each. */
    const passUntil = (end: number, settled: Effect.Effect<void>) =>
      Effect.gen(function* () {
        yield* settled
        for (;;) {
          const due = [...sleeps].map(({ at }) => at).filter((at) => at > now && at < end)
          yield* setTime(Math.min(end, ...due))
          yield* settled
          if (due.length === 0) return
        }
      })

    return { now: currentMillis, setTime, passUntil }
  })

/** In these turns of the event loop, every runnable fiber reaches its next wait. */
const eventLoopTurns = 40

/** Completes when every fiber waits for time or for an answer. */
export const nextTurns = Effect.promise(async () => {
  for (let turn = 0; turn < eventLoopTurns; turn += 1) await new Promise((wake) => setImmediate(wake))
})
