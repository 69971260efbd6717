/**
 * Time that never steps. Quotas, caches, pauses and deadlines that live in memory count with it: a wall clock that an
 * operator or NTP corrects must neither stretch nor end them.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

const toMillis = (nanos: bigint): number => Number(nanos / 1_000n) / 1_000

/** Milliseconds of the process' high-resolution timer. Only differences have a meaning. */
export const monotonicMillis: Effect.Effect<number> = Effect.map(Clock.currentTimeNanos, toMillis)

/** The same, where a clock is at hand. */
export const unsafeMonotonicMillis = (clock: Clock.Clock): number => toMillis(clock.unsafeCurrentTimeNanos())
