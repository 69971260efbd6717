import { describe, expect, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { makeQuota } from "../../src/services/combinators/Quota.ts"

describe("A quota that does not divide its window", () => {
  const policy = FastCheck.record({
    name: FastCheck.constant("any"),
    quota: FastCheck.oneof(
      { arbitrary: FastCheck.integer({ min: 1, max: 1_200 }), weight: 19 },
      { arbitrary: FastCheck.integer({ min: 5_000, max: 10_000 }), weight: 1 }
    ),
    windowSeconds: FastCheck.constantFrom(1, 7, 60, 90, 120, 300, 3_600)
  })
  /** Milliseconds since the epoch, in microseconds as the timer has them. */
  const start = FastCheck.nat(100_000_000_000).map((micros) => 1_800_000_000_000 + micros / 1_000)

  it("can be used up at once, to the last use, whenever it is full", () => {
    FastCheck.assert(
      FastCheck.property(policy, start, (given, now) => {
        const { take } = makeQuota(given)
        for (const at of [now, now + given.windowSeconds * 1_000]) {
          for (let use = 1; use <= given.quota; use += 1) {
            const { remaining, retryAfterSeconds } = take("a", at)
            if (retryAfterSeconds !== 0 || remaining !== given.quota - use)
              expect([use, remaining, retryAfterSeconds]).toEqual([use, given.quota - use, 0])
          }
          expect(take("a", at).retryAfterSeconds).toBeGreaterThan(0)
        }
      }),
      { numRuns: 200 }
    )
  })

  it("admits in no time more than itself and what comes back in that time, and nothing less", () => {
    const small = policy.map((given) => ({ ...given, quota: 1 + (given.quota % 13) }))
    const pauses = FastCheck.array(
      FastCheck.oneof(FastCheck.constant(0), FastCheck.nat(20), FastCheck.nat(2_000), FastCheck.nat(60_000)),
      { maxLength: 60 }
    )
    FastCheck.assert(
      FastCheck.property(small, start, pauses, (given, begin, all) => {
        const { take } = makeQuota(given)
        const window = given.windowSeconds * 1_000
        const admitted: Array<number> = []
        // From each earlier use to the next: the quota, and what comes back between them. In whole numbers.
        const fits = (at: number) =>
          [...admitted, at].every(
            (from, index) => (admitted.length - index + 1) * window <= (window + at - from) * given.quota
          )
        let now = begin
        for (const pause of all) {
          now += pause
          const at = Math.floor(now)
          const { retryAfterSeconds } = take("a", now)
          expect(retryAfterSeconds === 0).toBe(fits(at))
          expect(fits(at + retryAfterSeconds * 1_000)).toBe(true)
          if (retryAfterSeconds === 0) admitted.push(at)
        }
      }),
      { numRuns: 300 }
    )
  })
})
