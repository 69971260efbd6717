/** Rate limits by key with an even refill. In memory, bounded, on monotonic time. */
import { putBounded } from "./BoundedMap.ts"

export interface QuotaPolicy {
  readonly name: string
  /** Uses within the window; all of them may come at once. A whole number from 1 on; it need not divide the window. */
  readonly quota: number
  /** A whole number. */
  readonly windowSeconds: number
}

export interface QuotaReading {
  readonly policy: QuotaPolicy
  readonly remaining: number
  /** Seconds until the whole quota is free again. */
  readonly resetSeconds: number
  /** Seconds until one use is free; 0 when this one was admitted. */
  readonly retryAfterSeconds: number
}

export interface Quota {
  /**
   * `now` is `monotonicMillis`; parts of a millisecond do not count. A use that is not admitted costs nothing. `leave`: uses
   * that are left after an admitted one, fewer than the quota; 0 by default.
   */
  readonly take: (key: string, now: number, leave?: number) => QuotaReading
  /** Uses that are not refilled. */
  readonly used: (key: string, now: number) => number
  /** Undoes one `take` that was admitted. */
  readonly giveBack: (key: string) => void
}

/** Keys that a quota keeps; beyond it the least recently used key is dropped. */
const keyLimit = 50_000

/**
 * One evenly refilled bucket per key, stored as the time at which it is full again (GCRA). In any time it admits the quota and
 * what comes back in that time, and no use more.
 */
export const makeQuota = (policy: QuotaPolicy, limit = keyLimit): Quota => {
  // A tick is a millisecond divided by the quota: uses and windows are whole numbers of ticks, so their sums are not rounded.
  // The present counts from the epoch, and from a quota of about 5,000 on it is exact to a few ticks only.
  const ticks = (millis: number): number => Math.floor(millis) * policy.quota
  const seconds = (time: number): number => Math.ceil(time / ticks(1_000))
  const window = ticks(policy.windowSeconds * 1_000)
  const interval = policy.windowSeconds * 1_000
  const fullAt = new Map<string, number>()

  const take = (key: string, time: number, leave = 0): QuotaReading => {
    const now = ticks(time)
    const full = Math.max(fullAt.get(key) ?? now, now)
    const needed = full + interval * (1 + leave)
    const admitted = needed <= now + window
    const next = admitted ? full + interval : full
    putBounded(fullAt, key, next, limit)
    return {
      policy,
      remaining: Math.floor((now + window - next) / interval),
      resetSeconds: seconds(next - now),
      retryAfterSeconds: admitted ? 0 : Math.max(1, seconds(needed - now - window))
    }
  }

  const used = (key: string, time: number): number => {
    const now = ticks(time)
    return Math.ceil(Math.max(0, (fullAt.get(key) ?? now) - now) / interval)
  }

  const giveBack = (key: string): void => {
    const full = fullAt.get(key)
    if (full !== undefined) fullAt.set(key, full - interval)
  }

  return { take, used, giveBack }
}
