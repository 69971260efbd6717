/** Deadlines on a monotonic clock, which a wrong or corrected wall clock does not affect. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { TimedOut, withExchange } from "./Failures.ts"

/** Milliseconds of a monotonic clock. */
export const monotonicMillis: Effect.Effect<number> = Effect.map(
  Clock.currentTimeNanos,
  (nanos) => Number(nanos / 1_000n) / 1_000
)

/** A moment of the monotonic clock, milliseconds. */
export type Deadline = number

export const deadlineIn = (milliseconds: number): Effect.Effect<Deadline> =>
  Effect.map(monotonicMillis, (now) => now + milliseconds)

/** Fails with `TimedOut` once the deadline has passed. */
export const within =
  (deadline: Deadline, hint?: string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | TimedOut, R> =>
    Effect.flatMap(monotonicMillis, (now) =>
      Effect.timeoutFail(effect, {
        duration: Math.max(0, deadline - now),
        onTimeout: () => withExchange(new TimedOut(hint === undefined ? {} : { hint }), { requestId: null })
      })
    )
