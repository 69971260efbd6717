/** A refresh that rotated the pair and could not return it, because the introspection was answered with 429. */
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { iamFaults } from "../../sandbox/upstreams/Iam.ts"
import { type Answer, errorOf } from "../http/support.ts"
import { asks, freshKey, serverOverIam } from "../support/RealIam.ts"

const address = "203.0.113.1"

const blocked = Effect.gen(function* () {
  const { asked, from, login, simulator } = yield* serverOverIam()
  const { refreshToken } = yield* login()
  const key = freshKey()
  const refresh = from(address)(asks.refresh(Redacted.value(refreshToken), key))
  simulator.fail({ path: "/api/v1/oauth/introspect", fault: iamFaults.rateLimited(900) })
  const first = yield* refresh
  assert.deepStrictEqual(
    [first.status, errorOf(first).code, first.headers["retry-after"]],
    [429, "rate_limited", "60"]
  )
  const refreshes = () =>
    asked("/app-auth/tokens").filter(({ body }) => body.toString().includes("refresh_token=")).length
  return { asked, refresh, refreshes, simulator }
})

const pairOf = (answer: Answer): string => {
  assert.strictEqual(answer.status, 200)
  return answer.text
}

describe("A rotated pair whose introspection answered 429", () => {
  it.scoped("is returned as soon as introspection works again, and rotated once", function* () {
    const { refresh, refreshes } = yield* blocked
    yield* TestClock.adjust("4 seconds")
    const held = yield* refresh
    assert.deepStrictEqual([held.status, held.headers["retry-after"]], [429, "56"])
    assert.strictEqual(refreshes(), 1)
    yield* TestClock.adjust("1 seconds")
    const pair = pairOf(yield* refresh)
    assert.strictEqual(
      pairOf(yield* refresh).replace(/"expires_in":\d+/, ""),
      pair.replace(/"expires_in":\d+/, "")
    )
  })

  it.scoped("is introspected once in 5 s while IAM answers 429", function* () {
    const { asked, refresh, simulator } = yield* blocked
    simulator.fail({ path: "/api/v1/oauth/introspect", times: 2, fault: iamFaults.rateLimited(900) })
    const introspections = () => asked("/oauth/introspect").length
    const before = introspections()
    for (let second = 0; second < 14; second += 1) {
      assert.strictEqual((yield* refresh).status, 429)
      yield* TestClock.adjust("1 seconds")
    }
    assert.strictEqual(introspections(), before + 2)
    yield* TestClock.adjust("1 seconds")
    pairOf(yield* refresh)
  })
})
