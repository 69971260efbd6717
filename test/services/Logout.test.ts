import { assert, describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { upstreamKey } from "../../src/services/Idempotency.ts"
import { type Plane, Production } from "../../src/services/Plane.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import { isLive, loggedIn, loginAs, unknownToken } from "../support/Logins.ts"
import { iamRefusal } from "../support/SimulatedIam.ts"
import {
  callerKey,
  inRequest,
  lost,
  advanceClockDuring,
  production,
  scenario,
  unreachable
} from "../support/UseCaseLayers.ts"

const logout = (token: string, key = callerKey("logout"), plane: Plane = production) =>
  Effect.flatMap(Sessions, (sessions) => sessions.logout(plane, { token: Redacted.make(token), key })).pipe(
    inRequest()
  )

const refresh = (token: string) =>
  Effect.flatMap(Sessions, (sessions) =>
    sessions.refresh(production, { refreshToken: Redacted.make(token), key: callerKey("refresh") })
  ).pipe(inRequest())

describe("logout", () => {
  scenario("with a refresh token revokes its family, and no other login", function* () {
    const { session } = yield* loggedIn
    const other = yield* loginAs({}, callerKey("other"))
    yield* logout(session.refresh_token)
    assert.isFalse(yield* isLive(session.access_token))
    assert.isTrue(yield* isLive(other.access_token))
  })

  scenario("with a rotated refresh token revokes the family too", function* () {
    const { session } = yield* loggedIn
    const fresh = yield* refresh(session.refresh_token)
    yield* logout(session.refresh_token)
    assert.isFalse(yield* isLive(fresh.access_token))
  })

  scenario("with an access token revokes that token only", function* () {
    const { session } = yield* loggedIn
    yield* logout(session.access_token)
    assert.isFalse(yield* isLive(session.access_token))
    assert.isTrue(yield* isLive((yield* refresh(session.refresh_token)).access_token))
  })

  scenario("succeeds for a token that IAM does not know", function* () {
    const { iam } = yield* loggedIn
    yield* logout(unknownToken)
    deepStrictEqual(yield* iam.revoked, [unknownToken])
  })

  scenario("succeeds without a call for a token that IAM never issued", function* () {
    const { iam } = yield* loggedIn
    for (const token of [
      "",
      "an arbitrary text",
      `obo_${"x".repeat(43)}`,
      `ORT_${"x".repeat(43)}`,
      `Bearer oat_${"x".repeat(43)}`,
      "ort_",
      "oat_",
      `oat_${"x".repeat(27)}`,
      `ort_${"x".repeat(4093)}`,
      `oat_${"é".repeat(43)}`
    ]) {
      yield* logout(token)
    }
    assert.strictEqual(yield* iam.calls("revoke"), 0)
    yield* logout(`ort_${"x".repeat(28)}`)
    // The longest token that IAM revokes.
    yield* logout(`ort_${"x".repeat(4_092)}`, callerKey("longest"))
    assert.strictEqual(yield* iam.calls("revoke"), 2)
  })

  scenario("sends IAM the digest of operation, plane and caller's key, and replays under it", function* () {
    const { iam, session } = yield* loggedIn
    yield* logout(session.refresh_token, callerKey("mine"))
    yield* TestClock.adjust("1 hour")
    yield* logout(session.refresh_token, callerKey("mine"))
    const key = upstreamKey("logout", Production(), callerKey("mine"))
    deepStrictEqual(yield* iam.keys("revoke"), [key, key])
  })

  scenario("succeeds after the replay window has passed", function* () {
    const { iam, session } = yield* loggedIn
    yield* iam.failNext("revoke", iamRefusal(409, "idempotency_response_expired"))
    yield* logout(session.refresh_token)
  })

  scenario("refuses the same key with another token, in flight or later", function* () {
    const { iam, session } = yield* loggedIn
    const held = yield* iam.hold("revoke")
    const first = yield* Effect.fork(logout(session.refresh_token))
    yield* held.arrived
    assert.strictEqual((yield* Effect.flip(logout(session.access_token))).code, "idempotency_conflict")
    yield* held.release
    yield* Fiber.join(first)
    assert.strictEqual((yield* Effect.flip(logout(session.access_token))).code, "idempotency_conflict")
  })

  scenario("is retried under the same key after a lost answer", function* () {
    const { iam, session } = yield* loggedIn
    yield* iam.failNext("revoke", lost("iam"), { times: 2, when: "after" })
    yield* advanceClockDuring(logout(session.refresh_token))
    assert.strictEqual(new Set(yield* iam.keys("revoke")).size, 1)
    assert.isFalse(yield* isLive(session.access_token))
  })

  scenario("is 503 when IAM does not answer, because the session may still exist", function* () {
    const { iam, session } = yield* loggedIn
    yield* iam.failNext("revoke", unreachable("iam"), { times: 3 })
    const failure = yield* advanceClockDuring(Effect.flip(logout(session.refresh_token)))
    assert.strictEqual(failure.code, "dependency_unavailable")
    yield* logout(session.refresh_token)
    assert.isFalse(yield* isLive(session.access_token))
  })

  scenario("in one plane does not affect the other", function* () {
    const { iam, session } = yield* loggedIn
    const { plane } = yield* iam.environment("e2e")
    yield* logout(session.refresh_token, callerKey("logout"), plane)
    assert.isTrue(yield* isLive(session.access_token))
    deepStrictEqual(yield* iam.keys("revoke"), [upstreamKey("logout", plane, callerKey("logout"))])
  })
})
