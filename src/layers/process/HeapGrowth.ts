import { setFlagsFromString } from "node:v8"
import * as Effect from "effect/Effect"

/**
 * Lets the heap grow to 1.6 times what the last full collection left, instead of up to four times. A request lives long enough to
 * leave the young generation, so that garbage of many requests would fill the memory of a small machine. Throughput
 * is the same, and the pauses are shorter (docs/performance.md).
 */
export const limitHeapGrowth: Effect.Effect<void> = Effect.sync(() =>
  setFlagsFromString("--heap-growing-percent=60")
)
