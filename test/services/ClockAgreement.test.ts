import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { compareReadings, makeAgreedTime } from "../../src/services/ClockAgreement.ts"
import { makeOffsetClock } from "../../sandbox/OffsetClock.ts"
import { makeSteppedClock } from "../support/SteppedClock.ts"

const minute = 60_000
const hour = 60 * minute

describe("Two looks at the clock", () => {
  const first = { wall: 1_000 * hour, monotonic: 5 * hour }
  const after = (wall: number, monotonic: number) => ({
    wall: first.wall + wall,
    monotonic: first.monotonic + monotonic
  })

  it.each([
    ["agree, minutes apart", 10 * minute, 10 * minute, "agree"],
    ["agree, however far apart", 40 * hour, 40 * hour, "agree"],
    ["agree while the clock is corrected a little", 10 * minute + 59_000, 10 * minute, "agree"],
    ["tell nothing so soon", 4 * minute, 4 * minute, "too soon"],
    ["see a step ahead", 72 * hour, 10 * minute, "stepped"],
    ["see a step ahead at once", hour, 1_000, "stepped"],
    ["see a step back", -hour, 10 * minute, "stepped"],
    ["see a clock that stood still", 0, 10 * minute, "stepped"],
    // Monotonic time may stand still while a machine sleeps: then an hour passed, but nothing says so.
    ["see a machine that slept", hour + 10 * minute, 10 * minute, "stepped"]
  ] as const)("%s", (_, wall, monotonic, verdict) => {
    assert.strictEqual(compareReadings(first, after(wall, monotonic)), verdict)
  })
})

describe("The agreed time", () => {
  it.effect(
    "is the earlier one of two looks that agree, and none after a step until two have agreed again",
    () =>
      Effect.gen(function* () {
        const { clock, step } = yield* makeSteppedClock
        const agreed = yield* Effect.withClock(makeAgreedTime, clock)
        const look = Effect.withClock(agreed, clock)
        const afterMinutes = (minutes: number) =>
          Effect.map(Effect.zipRight(TestClock.adjust(minutes * minute), look), Option.getOrNull)
        deepStrictEqual(yield* afterMinutes(0), null)
        deepStrictEqual(yield* afterMinutes(4), null, "the first look still counts")
        deepStrictEqual(yield* afterMinutes(6), 0)
        deepStrictEqual(yield* afterMinutes(10), 10 * minute)
        step(72 * hour)
        deepStrictEqual(yield* afterMinutes(10), null)
        step(-72 * hour)
        deepStrictEqual(yield* afterMinutes(10), null)
        deepStrictEqual(yield* afterMinutes(10), 40 * minute)
        // A step that lasts is what the time is by then.
        step(hour)
        deepStrictEqual(yield* afterMinutes(10), null)
        deepStrictEqual(yield* afterMinutes(10), 60 * minute + hour)
      })
  )

  it.live("comes with the sandbox's clock, which moves both", () =>
    Effect.gen(function* () {
      const clock = makeOffsetClock()
      yield* Effect.gen(function* () {
        const agreed = yield* makeAgreedTime
        clock.advance(24 * hour)
        assert.isTrue(Option.isSome(yield* agreed))
      }).pipe(Effect.provide(clock.layer))
    })
  )
})
