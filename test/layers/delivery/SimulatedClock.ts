/** The clock of the delivery tests: the test moves it and decides when a step is over. */
import * as Effect from "effect/Effect"
import { makeManualClock } from "../../support/ManualClock.ts"

/** Moves time; `settled` completes when everything that follows from a step is done. */
export const makeSimulatedClock = (startAt: number) =>
  Effect.gen(function* () {
    const { clock, dueTimes, now, setTime: moveTo } = makeManualClock(startAt)
    yield* Effect.withClockScoped(clock)

    const setTime = (millis: number) => Effect.sync(() => moveTo(millis))

    /** Moves from one due time to the next, and settles after each. */
    const passUntil = (end: number, settled: Effect.Effect<void>) =>
      Effect.gen(function* () {
        yield* settled
        for (;;) {
          const due = dueTimes().filter((at) => at > now() && at < end)
          yield* setTime(Math.min(end, ...due))
          yield* settled
          if (due.length === 0) return
        }
      })

    return { now, setTime, passUntil }
  })

/** In these turns of the event loop, every runnable fiber reaches its next wait. */
const eventLoopTurns = 40

/** Completes when every fiber waits for time or for an answer. */
export const nextTurns = Effect.promise(async () => {
  for (let turn = 0; turn < eventLoopTurns; turn += 1) await new Promise((wake) => setImmediate(wake))
})
