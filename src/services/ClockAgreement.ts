/**
 * The time by which something is old enough to be removed. A wall clock that is stepped ahead makes everything old at once; monotonic time
 * is never stepped, but does not know the age of what an earlier process stored. So removal waits for two looks that agree.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"

/** One moment by both clocks, in milliseconds. */
export interface ClockLook {
  readonly wall: number
  readonly monotonic: number
}

/** Milliseconds of monotonic time from one look to the next, at least. */
const leastApart = 5 * 60_000
/** Milliseconds by which the clocks may differ from one look to the next: a correction, not a step. */
const tolerance = 60_000

/** Whether the wall clock went on as monotonic time did. A later look under `too soon` may still agree with the earlier one. */
export const compareLooks = (earlier: ClockLook, now: ClockLook): "agree" | "stepped" | "too soon" => {
  const passed = now.monotonic - earlier.monotonic
  if (Math.abs(now.wall - earlier.wall - passed) > tolerance) return "stepped"
  return passed < leastApart ? "too soon" : "agree"
}

const look: Effect.Effect<ClockLook> = Effect.zipWith(
  Clock.currentTimeMillis,
  Clock.currentTimeNanos,
  (wall, nanos) => ({ wall, monotonic: Number(nanos / 1_000_000n) })
)

/**
 * Takes the first look. Each run takes another one, and gives the wall clock's time (milliseconds since the epoch) that it and the one
 * before have both reached; none when they do not agree.
 */
export const makeAgreedTime: Effect.Effect<Effect.Effect<Option.Option<number>>> = Effect.gen(function* () {
  const last = yield* Ref.make(yield* look)
  return Effect.flatMap(look, (now) =>
    Ref.modify(last, (earlier) => {
      switch (compareLooks(earlier, now)) {
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
