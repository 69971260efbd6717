import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { compareReadings, makeAgreedTime } from "../../src/services/ClockAgreement.ts"
import { makeSteppedClock } from "../world/Time.ts"

const minute = 60_000
const hour = 60 * minute

describe("Two clock readings", () => {
  const first = { wall: 1_000 * hour, monotonic: 5 * hour }
  const after = (wall: number, monotonic: number) => ({
    wall: first.wall + wall,
    monotonic: first.monotonic + monotonic
  })

  it.each([
    ["agree, minutes apart", 10 * minute, 10 * minute, "agree"],
    ["agree, however far apart", 40 * hour, 40 * hour, "agree"],
    ["agree while the clock is corrected a little", 10 * minute + 59_000, 10 * minute, "agree"],
    ["are inconclusive when they are too close together", 4 * minute, 4 * minute, "too soon"],
    ["detect a step ahead", 72 * hour, 10 * minute, "stepped"],
    ["detect a step ahead at once", hour, 1_000, "stepped"],
    ["detect a step back", -hour, 10 * minute, "stepped"],
    ["detect a paused clock", 0, 10 * minute, "stepped"],
    // Monotonic time may pause while a machine sleeps: an hour has passed, but monotonic time does not show it.
    ["detect a sleep of the machine", hour + 10 * minute, 10 * minute, "stepped"]
  ] as const)("%s", (_, wall, monotonic, verdict) => {
    assert.strictEqual(compareReadings(first, after(wall, monotonic)), verdict)
  })
})

describe("The agreed time", () => {
  it.effect("is the earlier of two readings that agree, and absent after a step", function* () {
    const { clock, step } = yield* makeSteppedClock
    const agreed = yield* Effect.withClock(makeAgreedTime, clock)
    const reading = Effect.withClock(agreed, clock)
    const afterMinutes = (minutes: number) =>
      Effect.map(Effect.zipRight(TestClock.adjust(minutes * minute), reading), Option.getOrNull)
    deepStrictEqual(yield* afterMinutes(0), null)
    deepStrictEqual(yield* afterMinutes(4), null, "the first reading still counts")
    deepStrictEqual(yield* afterMinutes(6), 0)
    deepStrictEqual(yield* afterMinutes(10), 10 * minute)
    step(72 * hour)
    deepStrictEqual(yield* afterMinutes(10), null)
    step(-72 * hour)
    deepStrictEqual(yield* afterMinutes(10), null)
    deepStrictEqual(yield* afterMinutes(10), 40 * minute)
    // A step that lasts is the correct time by then.
    step(hour)
    deepStrictEqual(yield* afterMinutes(10), null)
    deepStrictEqual(yield* afterMinutes(10), 60 * minute + hour)
  })
})
