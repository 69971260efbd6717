/**
 * The time by which the age of stored rows is judged. A wall clock that is stepped ahead makes every row old at once; monotonic time is
 * never stepped, but does not cover what an earlier process stored. So a removal needs two readings of both clocks that agree.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"

/** One moment on both clocks, in milliseconds. */
export interface ClockReading {
  readonly wall: number
  readonly monotonic: number
}

/** Milliseconds of monotonic time between two readings, at least. */
const minInterval = 5 * 60_000
/** Milliseconds by which the clocks may differ between two readings: a correction, not a step. */
const tolerance = 60_000

/** Whether the wall clock advanced as monotonic time did. After `too soon` a later reading may still agree with the earlier one. */
export const compareReadings = (
  earlier: ClockReading,
  now: ClockReading
): "agree" | "stepped" | "too soon" => {
  const passed = now.monotonic - earlier.monotonic
  if (Math.abs(now.wall - earlier.wall - passed) > tolerance) return "stepped"
  return passed < minInterval ? "too soon" : "agree"
}

const readClocks: Effect.Effect<ClockReading> = Effect.zipWith(
  Clock.currentTimeMillis,
  Clock.currentTimeNanos,
  (wall, nanos) => ({ wall, monotonic: Number(nanos / 1_000_000n) })
)

/**
 * Takes the first reading. Each run of the inner effect takes another one and returns the wall clock's time (milliseconds since the
 * epoch) that this reading and the one before have both reached; none when they do not agree.
 */
export const makeAgreedTime: Effect.Effect<Effect.Effect<Option.Option<number>>> = Effect.gen(function* () {
  const last = yield* Ref.make(yield* readClocks)
  return Effect.flatMap(readClocks, (now) =>
    Ref.modify(last, (earlier) => {
      switch (compareReadings(earlier, now)) {
        case "agree":
          return [Option.some(Math.min(earlier.wall, now.wall)), now]
        case "stepped":
          return [Option.none(), now]
        case "too soon":
          return [Option.none(), earlier]
      }
    })
  )
})
