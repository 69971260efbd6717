/** One backoff rule: exponential from `first` up to `longest`, with a jitter of a fifth. */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"

/** Milliseconds. */
export interface BackoffPolicy {
  /** After the first failure; doubles with each further one. */
  readonly first: number
  readonly longest: number
}

/** Keeps the power finite; every policy reaches its longest delay long before. */
const mostDoublings = 30
const jitter = { least: 0.8, most: 1.2 }

/** Milliseconds until the next attempt after `failures` in a row, multiplied by `factor`. */
export const backoffDelay = ({ first, longest }: BackoffPolicy, failures: number, factor: number): number =>
  Math.round(Math.min(longest, first * 2 ** Math.min(mostDoublings, Math.max(0, failures - 1))) * factor)

/** The same with jitter, for due times that are stored. */
export const jitteredDelay = (policy: BackoffPolicy, failures: number): Effect.Effect<number> =>
  Effect.map(Random.nextRange(jitter.least, jitter.most), (factor) => backoffDelay(policy, failures, factor))

/** The same for retries within this process. Never ends. */
export const backoffSchedule = (policy: BackoffPolicy): Schedule.Schedule<number> =>
  Schedule.addDelayEffect(Schedule.forever, (retries) => jitteredDelay(policy, retries + 1))
