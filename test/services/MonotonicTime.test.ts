import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as TestClock from "effect/TestClock"
import { recurWithin } from "../../src/services/MonotonicTime.ts"
import { makeSteppedClock } from "../support/SteppedClock.ts"

describe("Retries with a time limit", () => {
  it.effect.each([0, -3_600_000, 3_600_000])(
    "take the same time when the wall clock is stepped by %i ms",
    function* (by) {
      const { clock, step } = yield* makeSteppedClock
      const triedAt: Array<number> = []
      const below = yield* Effect.clock
      const attempt = Effect.suspend(() => {
        triedAt.push(below.unsafeCurrentTimeMillis())
        return Effect.fail("away")
      })
      const retrying = yield* Effect.retry(
        attempt,
        Schedule.spaced(1_000).pipe(Schedule.intersect(recurWithin(5_000)))
      ).pipe(Effect.withClock(clock), Effect.fork)
      yield* TestClock.adjust(2_500)
      step(by)
      yield* TestClock.adjust(60_000)
      expect(yield* Effect.flip(Fiber.join(retrying))).toBe("away")
      expect(triedAt).toEqual([0, 1_000, 2_000, 3_000, 4_000, 5_000])
      expect(yield* Clock.currentTimeMillis).toBe(62_500)
    }
  )
})
