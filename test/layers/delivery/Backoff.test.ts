import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import { backoffDelay } from "../../../src/layers/delivery/Backoff.ts"
import { repeatThroughOutages } from "../../../src/layers/delivery/Outages.ts"
import { supervised } from "../../../src/layers/delivery/Supervision.ts"
import { StoreUnavailable } from "../../../src/services/Store.ts"
import { makeSimulatedClock, nextTurns } from "./SimulatedClock.ts"

/** Runs a worker for so many seconds and returns the times at which it was called. */
const callsOf = (
  seconds: number,
  worker: (call: Effect.Effect<number>) => Effect.Effect<never>
): Effect.Effect<ReadonlyArray<number>> =>
  Effect.gen(function* () {
    const clock = yield* makeSimulatedClock(0)
    const times: Array<number> = []
    const call = Effect.sync(() => times.push(clock.now() / 1000))
    const fiber = yield* Effect.fork(worker(call))
    yield* clock.passUntil(seconds * 1000, nextTurns)
    yield* Fiber.interrupt(fiber)
    return times
  }).pipe(Effect.scoped)

/** Seconds between calls. */
const pausesOf = (times: ReadonlyArray<number>) => times.slice(1).map((at, index) => at - (times[index] ?? 0))

const expectJittered = (pauses: ReadonlyArray<number>, expected: ReadonlyArray<number>) => {
  for (const [index, delay] of expected.entries()) {
    expect(pauses[index]).toBeGreaterThanOrEqual(delay * 0.8)
    expect(pauses[index]).toBeLessThanOrEqual(delay * 1.2)
  }
}

it("A backoff doubles from the first delay up to the longest, without overflow", () => {
  const delays = [0, 1, 2, 3, 4, 5, 5_000].map((failures) =>
    backoffDelay({ first: 1_000, longest: 5_000 }, failures, 1)
  )
  expect(delays).toEqual([1_000, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000])
  expect(backoffDelay({ first: 1_000, longest: 5_000 }, 9, 1.2)).toBe(6_000)
})

describe("A worker", () => {
  it.effect("retries every 1 to 5 s while the database is unavailable, and resets after a success", () =>
    Effect.gen(function* () {
      let calls = 0
      const times = yield* callsOf(60, (call) =>
        repeatThroughOutages("Test")(
          Effect.flatMap(call, () => {
            calls += 1
            return calls === 6
              ? Effect.void
              : Effect.fail(new StoreUnavailable({ problem: { kind: "unreachable" } }))
          })
        )
      )
      const pauses = pausesOf(times)
      expectJittered(pauses, [1, 2, 4, 5, 5])
      expect(pauses[5]).toBe(0)
      expectJittered(pauses.slice(6), [1, 2, 4])
    }).pipe(Effect.provide(Logger.remove(Logger.defaultLogger)))
  )

  it.effect("restarts after 1 to 30 s when it breaks, and resets after it ran for more than a minute", () =>
    Effect.gen(function* () {
      let calls = 0
      const times = yield* callsOf(400, (call) =>
        supervised("Test")(
          Effect.flatMap(call, () => {
            calls += 1
            return Effect.zipRight(
              calls === 7 ? Effect.sleep("61 seconds") : Effect.void,
              Effect.die("a mistake")
            )
          })
        )
      )
      const pauses = pausesOf(times)
      expectJittered(pauses, [1, 2, 4, 8, 16, 30])
      expectJittered([(pauses[6] ?? 0) - 61, ...pauses.slice(7)], [1, 2, 4])
    }).pipe(Effect.provide(Logger.remove(Logger.defaultLogger)))
  )
})
