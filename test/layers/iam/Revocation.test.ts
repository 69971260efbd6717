import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { faults } from "../../../sandbox/upstreams/Simulator.ts"
import { form, header, iamWorld, key, production, reply } from "./Simulated.ts"

const revokePath = "/oauth/revoke"

describe("revoke", () => {
  it.scoped("ends a family by its refresh token, and one token by itself", function* () {
    const { asked, iam, login } = yield* iamWorld()
    const first = yield* login()
    yield* iam.revoke(production, first.refreshToken, key("logout-1"))
    assert.isTrue(Option.isNone(yield* iam.introspect(production, first.accessToken)))
    const second = yield* login()
    yield* iam.revoke(production, second.accessToken, key("logout-2"))
    assert.isTrue(Option.isNone(yield* iam.introspect(production, second.accessToken)))
    yield* iam.refresh(production, second.refreshToken, key("refresh"))
    deepStrictEqual(asked(revokePath).map(form), [
      { token: Redacted.value(first.refreshToken), token_type_hint: "refresh_token" },
      { token: Redacted.value(second.accessToken), token_type_hint: "access_token" }
    ])
    assert.strictEqual(header(asked(revokePath)[0], "idempotency-key"), key("logout-1"))
  })

  it.scoped("accepts only an empty 200", function* () {
    const { iam, simulator } = yield* iamWorld()
    for (const fault of [
      faults.html(200),
      faults.html(403),
      faults.redirect(),
      reply({}),
      { kind: "reply", reply: { status: 204 } } as const
    ]) {
      simulator.fail({ fault })
      const failure = yield* Effect.flip(
        iam.revoke(production, Redacted.make(`ort_${"a".repeat(43)}`), key("logout"))
      )
      assert.strictEqual(failure._tag, "Unknown")
    }
  })
})
