import { expect, it } from "vitest"
import { makeQuota } from "../../src/services/Quota.ts"

it("A quota rounds against the client: seconds and uses up, remaining uses down", () => {
  // One use comes back in 7.5 s.
  const { take, used } = makeQuota({ name: "reports", quota: 8, windowSeconds: 60 })
  for (let use = 0; use < 8; use += 1) take("a", 0)
  expect(take("a", 0)).toMatchObject({ retryAfterSeconds: 8, remaining: 0 })
  expect(take("a", 8_000)).toMatchObject({ retryAfterSeconds: 0, resetSeconds: 60, remaining: 0 })
  take("b", 0)
  expect(used("b", 1)).toBe(1)
})
