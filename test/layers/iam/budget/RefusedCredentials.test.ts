import { assert, describe, it } from "@effect/vitest"
import { makeRefusedCredentials, type Refusal } from "../../../../src/layers/iam/budget/RefusedCredentials.ts"

describe("A credential that IAM refused", () => {
  const times: ReadonlyArray<readonly [Refusal, number]> = [
    ["inactive_access_token", 30_000],
    ["bad_testing_secret", 30_000],
    ["dead_refresh_token", 600_000],
    ["this_call", 0]
  ]
  for (const [refusal, millis] of times)
    it(`is refused again for ${millis / 1_000} s: ${refusal}`, () => {
      const refused = makeRefusedCredentials()
      refused.record("key", refusal, 1_000)
      if (millis > 0) assert.isTrue(refused.isRefused("key", 1_000 + millis - 1))
      assert.isFalse(refused.isRefused("key", 1_000 + millis))
      assert.isFalse(refused.isRefused("another key", 1_000))
    })

  it("is new once, until IAM issues or accepts it", () => {
    const refused = makeRefusedCredentials()
    assert.isTrue(refused.record("key", "this_call", 0))
    assert.isFalse(refused.record("key", "inactive_access_token", 0))
    refused.clear("key")
    assert.isFalse(refused.isRefused("key", 0))
    assert.isTrue(refused.record("key", "inactive_access_token", 0))
  })
})
