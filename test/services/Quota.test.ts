import { expect, it } from "@effect/vitest"
import { FastCheck } from "effect"
import { makeQuota } from "../../src/services/combinators/Quota.ts"

const policy = FastCheck.record({
  name: FastCheck.constant("any"),
  quota: FastCheck.oneof(FastCheck.integer({ min: 1, max: 13 }), FastCheck.integer({ min: 14, max: 1_200 })),
  windowSeconds: FastCheck.constantFrom(1, 7, 60, 90, 120, 300, 3_600)
})
/** Milliseconds since the epoch, in microseconds as the timer has them. */
const start = FastCheck.nat(100_000_000_000).map((micros) => 1_800_000_000_000 + micros / 1_000)

it("A quota that does not divide its window admits in no time more than itself and what comes back in that time, and nothing less", () => {
  const pauses = FastCheck.array(
    FastCheck.oneof(FastCheck.constant(0), FastCheck.nat(20), FastCheck.nat(2_000), FastCheck.nat(60_000)),
    { maxLength: 60 }
  )
  FastCheck.assert(
    FastCheck.property(policy, start, pauses, (given, begin, all) => {
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
        const { remaining, retryAfterSeconds } = take("a", now)
        if (admitted.length === 0) expect(remaining).toBe(given.quota - 1)
        expect(retryAfterSeconds === 0).toBe(fits(at))
        expect(fits(at + retryAfterSeconds * 1_000)).toBe(true)
        if (retryAfterSeconds === 0) admitted.push(at)
      }
    }),
    { numRuns: 300 }
  )
})
