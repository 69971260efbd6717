/** Rate limits by key with an even refill. In memory, bounded, on monotonic time. */
import { constVoid } from "effect/Function"
import { Failure, type QuotaPolicy, type QuotaReading } from "../../schema/Failure.ts"
import { putBounded } from "./BoundedMap.ts"

/** Keys that a quota keeps; beyond it the least recently used key is dropped. */
const keyLimit = 50_000

/**
 * One evenly refilled bucket per key, stored as the time at which it is full again (GCRA). In any time it admits the quota and
 * what comes back in that time, and no use more.
 */
export const makeQuota = (policy: QuotaPolicy) => {
  // A tick is a millisecond divided by the quota: uses and windows are whole numbers of ticks, so their sums are not rounded.
  // The present counts from the epoch, and from a quota of about 5,000 on it is exact to a few ticks only.
  const ticks = (millis: number): number => Math.floor(millis) * policy.quota
  const seconds = (time: number): number => Math.ceil(time / ticks(1_000))
  const window = ticks(policy.windowSeconds * 1_000)
  const interval = policy.windowSeconds * 1_000
  const fullAt = new Map<string, number>()

  return {
    /** `millis` is `monotonicMillis`; parts of a millisecond do not count. A use that is not admitted costs nothing. */
    take: (key: string, millis: number): QuotaReading => {
      const now = ticks(millis)
      const full = Math.max(fullAt.get(key) ?? now, now)
      const admitted = full + interval <= now + window
      const next = admitted ? full + interval : full
      putBounded(fullAt, key, next, keyLimit)
      return {
        policy,
        remaining: Math.floor((now + window - next) / interval),
        resetSeconds: seconds(next - now),
        retryAfterSeconds: admitted ? 0 : Math.max(1, seconds(full + interval - now - window))
      }
    },
    /** Undoes one `take` that was admitted. */
    giveBack: (key: string): void => {
      const full = fullAt.get(key)
      if (full !== undefined) fullAt.set(key, full - interval)
    }
  }
}

type Quota = ReturnType<typeof makeQuota>

/**
 * Takes a use of each quota, or of none where one refuses it, with the refusal that lasts longest: the loop of one sender would use up
 * what it shares with others. `giveBack` undoes it.
 */
export const takeAll = (uses: ReadonlyArray<readonly [Quota, key: string]>, millis: number) => {
  const takes = uses.map(([quota, key]) => ({ quota, key, reading: quota.take(key, millis) }))
  const admitted = takes.filter(({ reading }) => reading.retryAfterSeconds === 0)
  const giveBack = (): void => {
    for (const { key, quota } of admitted) quota.giveBack(key)
  }
  const readings = takes.map(({ reading }) => reading)
  if (admitted.length === takes.length) return { readings, refusal: undefined, giveBack }
  giveBack()
  const quota = readings.reduce((one, other) =>
    other.retryAfterSeconds > one.retryAfterSeconds ? other : one
  )
  const refusal = new Failure("rate_limited", { retryAfterSeconds: quota.retryAfterSeconds, quota })
  return { readings: [], refusal, giveBack: constVoid }
}
