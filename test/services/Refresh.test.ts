import { assert, describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { scopes } from "../../src/schema/Identity.ts"
import { upstreamKey } from "../../src/services/Idempotency.ts"
import { type Plane, Production } from "../../src/services/Plane.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import { isLive, loginAs } from "../support/Logins.ts"
import { type Login, SimulatedIam } from "../support/SimulatedIam.ts"
import {
  callerKey,
  inRequest,
  lost,
  advanceClockDuring,
  production,
  scenario,
  unreachable
} from "../support/UseCaseLayers.ts"

const refresh = (token: string, key = callerKey("refresh"), plane: Plane = production) =>
  Effect.flatMap(Sessions, (sessions) =>
    sessions.refresh(plane, { refreshToken: Redacted.make(token), key })
  ).pipe(inRequest())

/** A session; of the deejay by default. */
const session = (who: Partial<Login> = {}) =>
  Effect.gen(function* () {
    const iam = yield* SimulatedIam
    const made = yield* loginAs(who)
    return { iam, made, token: made.refresh_token }
  })

describe("a refresh", () => {
  scenario("rotates the pair and returns the session without `ting`", function* () {
    const { made } = yield* session()
    const fresh = yield* refresh(made.refresh_token)
    assert.notStrictEqual(fresh.access_token, made.access_token)
    assert.notStrictEqual(fresh.refresh_token, made.refresh_token)
    const { ting: _, ...shape } = made
    deepStrictEqual(
      { ...fresh, access_token: "", refresh_token: "" },
      { ...shape, access_token: "", refresh_token: "" }
    )
    assert.isTrue(yield* isLive(made.access_token), "old access tokens stay live")
  })

  scenario(
    "makes two upstream round trips, under the digest of operation, plane and caller's key",
    function* () {
      const { iam, token } = yield* session()
      const introspections = yield* iam.calls("introspect")
      const proofs = yield* iam.calls("prove")
      yield* refresh(token, callerKey("mine"))
      deepStrictEqual(yield* iam.keys("refresh"), [upstreamKey("refresh", Production(), callerKey("mine"))])
      assert.strictEqual(yield* iam.calls("introspect"), introspections + 1)
      assert.strictEqual(yield* iam.calls("prove"), proofs)
    }
  )

  scenario("never adds scopes, and does not require a new consent by itself", function* () {
    const { made } = yield* session({ scopes: ["self.identity.read", "self.profile.read"] })
    const fresh = yield* refresh(made.refresh_token)
    assert.strictEqual(fresh.scope, "self.identity.read self.profile.read")
  })

  scenario("names its actor after the identity scope was withdrawn", function* () {
    const { iam, token } = yield* session()
    iam.production.withdrawScope(scopes.identity)
    const fresh = yield* refresh(token)
    deepStrictEqual(fresh.actor, { type: "silicon", public_id: "si:deejay" })
    assert.notInclude(fresh.scope, scopes.identity)
  })

  scenario("returns the remaining lifetime, also on a replay just under 600 s later", function* () {
    const { token } = yield* session()
    const first = yield* refresh(token)
    yield* TestClock.adjust("599 seconds")
    const again = yield* refresh(token)
    deepStrictEqual(again, { ...first, expires_in: 1201 })
    yield* TestClock.adjust("1 seconds")
    assert.strictEqual((yield* Effect.flip(refresh(token))).code, "idempotency_response_expired")
  })

  scenario("is forbidden without a remaining organisation; the family stays alive", function* () {
    const { iam, token } = yield* session()
    iam.production.setMember("si:deejay", "acme", false)
    const failure = yield* Effect.flip(refresh(token))
    assert.strictEqual(failure.code, "forbidden")
    deepStrictEqual(failure.details, { reason: "no_organization" })
    iam.production.setMember("si:deejay", "acme", true)
    assert.strictEqual((yield* refresh(token)).org_id, "acme")
  })

  scenario("is reconsent_required without any public id; the family stays alive", function* () {
    const { iam, token } = yield* session()
    iam.production.withdrawScope(scopes.identity)
    yield* iam.alter((found) => ({ ...found, publicId: Option.none() }))
    assert.strictEqual((yield* Effect.flip(refresh(token))).code, "reconsent_required")
    yield* iam.alter((found) => found)
    deepStrictEqual((yield* refresh(token)).actor, { type: "silicon", public_id: "si:deejay" })
  })
})

describe("a refused refresh", () => {
  scenario("is 401; a consumed token under a new key revokes the whole family", function* () {
    const { token, made } = yield* session()
    const fresh = yield* refresh(token)
    assert.strictEqual((yield* Effect.flip(refresh(token, callerKey("new")))).code, "unauthenticated")
    assert.isFalse(yield* isLive(fresh.access_token))
    assert.isFalse(yield* isLive(made.access_token))
    assert.strictEqual(
      (yield* Effect.flip(refresh(fresh.refresh_token, callerKey("next")))).code,
      "unauthenticated"
    )
  })

  scenario("says to log in again, and never to refresh", function* () {
    const { iam, token } = yield* session()
    yield* refresh(token)
    const spent = yield* Effect.flip(refresh(token, callerKey("new")))
    const malformed = yield* Effect.flip(refresh("nonsense"))
    for (const { code, hint, message } of [spent, malformed]) {
      assert.strictEqual(code, "unauthenticated")
      assert.match(hint, /^Log in again/)
      assert.notMatch(hint, /access token|refresh the session/)
      assert.match(message, /refresh token/)
    }
    assert.strictEqual(yield* iam.calls("refresh"), 2)
  })

  scenario("is 401 without a call for a string that is no well-formed ort_ token", function* () {
    const { iam } = yield* session()
    for (const token of [
      "",
      "ort_",
      `ort_${"x".repeat(27)}`,
      `ort_${"x".repeat(8189)}`,
      `ort_${"x".repeat(40)} `,
      `oat_${"x".repeat(43)}`,
      "nonsense"
    ]) {
      assert.strictEqual((yield* Effect.flip(refresh(token))).code, "unauthenticated", token.slice(0, 40))
    }
    assert.strictEqual(yield* iam.calls("refresh"), 0)
  })

  scenario("comes from IAM for a token of up to 8192 visible characters", function* () {
    const { iam } = yield* session()
    const given = [`ort_${"x".repeat(8_188)}`, `ort_${"!~/+=.".repeat(5)}`]
    for (const token of given) {
      const refused = yield* Effect.flip(refresh(token, callerKey(String(token.length))))
      assert.strictEqual(refused.code, "unauthenticated")
    }
    assert.strictEqual(yield* iam.calls("refresh"), given.length)
  })

  scenario("is a conflict for the same key with another token, in flight or later", function* () {
    const { iam, token } = yield* session()
    const other = `ort_${"x".repeat(43)}`
    const held = yield* iam.hold("refresh")
    const first = yield* Effect.fork(refresh(token))
    yield* held.arrived
    assert.strictEqual((yield* Effect.flip(refresh(other))).code, "idempotency_conflict")
    assert.strictEqual(yield* iam.calls("refresh"), 1)
    yield* held.release
    yield* Fiber.join(first)
    assert.strictEqual((yield* Effect.flip(refresh(other))).code, "idempotency_conflict")
  })
})

describe("an outage is never a logout", () => {
  scenario("without an answer it is 503, and the same key completes the refresh later", function* () {
    const { iam, token } = yield* session()
    for (const failure of [unreachable("iam"), lost("iam")]) {
      yield* iam.failNext("refresh", failure, { times: 3 })
      assert.strictEqual(
        (yield* advanceClockDuring(Effect.flip(refresh(token)))).code,
        "dependency_unavailable"
      )
    }
    assert.isTrue(yield* isLive((yield* refresh(token)).access_token))
  })

  scenario("a lost answer is retried under the same key: the pair is rotated once", function* () {
    const { iam, token } = yield* session()
    yield* iam.failNext("refresh", lost("iam"), { times: 2, when: "after" })
    const fresh = yield* advanceClockDuring(refresh(token))
    assert.isTrue(yield* isLive(fresh.access_token))
    assert.strictEqual(yield* iam.calls("refresh"), 3)
    assert.strictEqual(new Set(yield* iam.keys("refresh")).size, 1)
  })

  scenario("an unanswered introspection loses no pair", function* () {
    const { iam, token } = yield* session()
    yield* iam.failNext("introspect", lost("iam"), { times: 3 })
    assert.strictEqual(
      (yield* advanceClockDuring(Effect.flip(refresh(token)))).code,
      "dependency_unavailable"
    )
    assert.isTrue(yield* isLive((yield* refresh(token)).access_token))
  })
})

describe("in a testing plane", () => {
  scenario(
    "rotates the session there and names the plane; production does not accept its token",
    function* () {
      const iam = yield* SimulatedIam
      const sessions = yield* Sessions
      const environment = yield* iam.environment("e2e")
      const { plane, state } = environment
      state.addActor("si:tester", ["acme"])
      const made = yield* sessions
        .login(plane, { slt: Redacted.make("si:tester"), key: callerKey("login") })
        .pipe(inRequest())
      assert.strictEqual((yield* Effect.flip(refresh(made.refresh_token))).code, "unauthenticated")
      const fresh = yield* refresh(made.refresh_token, callerKey("refresh"), plane)
      assert.strictEqual(fresh.testing_environment_id, plane.environmentId)
      yield* iam.deleteEnvironment(environment)
      assert.strictEqual(
        (yield* Effect.flip(refresh(fresh.refresh_token, callerKey("2"), plane))).code,
        "testing_secret_invalid"
      )
    }
  )
})
