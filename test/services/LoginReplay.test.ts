import { assert, describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { Sessions } from "../../src/services/Sessions.ts"
import { Unknown } from "../../src/services/UpstreamFailure.ts"
import { iamRefusal, SimulatedIam } from "../support/SimulatedIam.ts"
import { isLive, login } from "../support/Logins.ts"
import { StoreSwitches } from "../support/TestStore.ts"
import {
  callerKey,
  inRequest,
  lost,
  advanceClockDuring,
  production,
  scenario,
  unreachable
} from "../support/UseCaseLayers.ts"

describe("an SLT", () => {
  scenario("is single-use: another key is refused", function* () {
    const iam = yield* SimulatedIam
    const slt = yield* iam.slt({ actor: "si:deejay" })
    yield* login(slt)
    assert.strictEqual((yield* Effect.flip(login(slt, callerKey("other")))).code, "slt_rejected")
  })

  scenario("expires after 120 s", function* () {
    const iam = yield* SimulatedIam
    const used = yield* iam.slt({ actor: "si:deejay" })
    const expired = yield* iam.slt({ actor: "si:deejay" })
    yield* TestClock.adjust("119999 millis")
    yield* login(used, callerKey("used"))
    yield* TestClock.adjust("1 millis")
    assert.strictEqual((yield* Effect.flip(login(expired, callerKey("expired")))).code, "slt_rejected")
  })

  scenario("leaves the key free when it is refused", function* () {
    const iam = yield* SimulatedIam
    assert.strictEqual((yield* Effect.flip(login(Redacted.make("oac_unknown")))).code, "slt_rejected")
    yield* login(yield* iam.slt({ actor: "si:deejay" }))
  })
})

describe("the same key", () => {
  scenario("replays the result for 10 minutes, and never later", function* () {
    const iam = yield* SimulatedIam
    const slt = yield* iam.slt({ actor: "si:deejay" })
    const first = yield* login(slt)
    yield* TestClock.adjust("10 seconds")
    const again = yield* login(slt)
    deepStrictEqual({ ...again, expires_in: 0 }, { ...first, expires_in: 0 })
    yield* TestClock.adjust("590 seconds")
    assert.strictEqual((yield* Effect.flip(login(slt))).code, "idempotency_response_expired")
  })

  scenario("conflicts with another SLT, and spends nothing", function* () {
    const iam = yield* SimulatedIam
    yield* login(yield* iam.slt({ actor: "si:deejay" }))
    const other = yield* iam.slt({ actor: "si:deejay" })
    assert.strictEqual((yield* Effect.flip(login(other))).code, "idempotency_conflict")
    assert.isFalse(iam.production.isSpent(Redacted.value(other)))
  })

  scenario("conflicts in flight with another SLT, without an upstream call", function* () {
    const iam = yield* SimulatedIam
    const held = yield* iam.hold("exchange")
    const first = yield* Effect.fork(login(yield* iam.slt({ actor: "si:deejay" })))
    yield* held.arrived
    const other = yield* iam.slt({ actor: "si:deejay" })
    assert.strictEqual((yield* Effect.flip(login(other))).code, "idempotency_conflict")
    assert.strictEqual(yield* iam.calls("exchange"), 1)
    yield* held.release
    yield* Fiber.join(first)
  })

  scenario("is free for a refresh and a logout while a login is in flight", function* () {
    const iam = yield* SimulatedIam
    const sessions = yield* Sessions
    const { refresh_token } = yield* login(yield* iam.slt({ actor: "si:deejay" }), callerKey("first"))
    const held = yield* iam.hold("exchange")
    const running = yield* Effect.fork(login(yield* iam.slt({ actor: "si:deejay" })))
    yield* held.arrived
    const key = callerKey("login")
    const refreshToken = Redacted.make(refresh_token)
    const fresh = yield* sessions.refresh(production, { refreshToken, key }).pipe(inRequest())
    yield* sessions.logout(production, { token: Redacted.make(fresh.refresh_token), key }).pipe(inRequest())
    yield* held.release
    assert.isTrue(yield* isLive((yield* Fiber.join(running)).access_token))
  })

  scenario("waits in flight for the first result when the telemetry preference differs", function* () {
    const iam = yield* SimulatedIam
    const slt = yield* iam.slt({ actor: "si:deejay" })
    const held = yield* iam.hold("exchange")
    const first = yield* Effect.fork(login(slt))
    yield* held.arrived
    const silent = yield* Effect.fork(
      Effect.flatMap(Sessions, (sessions) =>
        sessions.login(production, { slt, key: callerKey("login") })
      ).pipe(inRequest({ recording: false }))
    )
    yield* TestClock.adjust("600 millis")
    yield* held.release
    const session = yield* Fiber.join(first)
    yield* TestClock.adjust("5 seconds")
    assert.strictEqual((yield* Fiber.join(silent)).access_token, session.access_token)
    assert.isAbove(yield* iam.calls("exchange"), 2, "IAM answers that the first one is in progress")
  })

  scenario("answers slt_rejected when the session has ended: the SLT is spent", function* () {
    const iam = yield* SimulatedIam
    const slt = yield* iam.slt({ actor: "si:deejay" })
    const { refresh_token } = yield* login(slt)
    yield* Effect.flatMap(Sessions, (sessions) =>
      sessions.logout(production, { token: Redacted.make(refresh_token), key: callerKey("out") })
    )
    assert.strictEqual((yield* Effect.flip(login(slt))).code, "slt_rejected")
  })
})

describe("a login whose new family was revoked", () => {
  const refusals = [
    {
      code: "forbidden",
      details: { reason: "no_organization" },
      why: "no organisation was granted",
      scopes: undefined,
      organisations: []
    },
    {
      code: "reconsent_required",
      details: undefined,
      why: "no identity was disclosed",
      scopes: ["self.profile.read"],
      organisations: ["acme"]
    }
  ] as const
  for (const { code, details, organisations, scopes, why } of refusals)
    scenario(`because ${why} answers the same refusal again`, function* () {
      const iam = yield* SimulatedIam
      iam.production.addActor("c:ben", organisations)
      const slt = yield* iam.slt({ actor: "c:ben", ...(scopes === undefined ? {} : { scopes }) })
      const first = yield* Effect.flip(login(slt))
      deepStrictEqual([first.code, first.details], [code, details])
      const [token] = yield* iam.revoked
      assert.match(token ?? "", /^ort_/)
      yield* TestClock.adjust("9 minutes")
      const again = yield* Effect.flip(login(slt))
      deepStrictEqual([again.code, again.details], [first.code, first.details])
      assert.strictEqual(yield* iam.calls("revoke"), 1)
    })

  scenario("answers the same refusal when the response to the revocation was lost", function* () {
    const iam = yield* SimulatedIam
    iam.production.addActor("c:ben", [])
    const slt = yield* iam.slt({ actor: "c:ben" })
    yield* iam.failNext("revoke", lost("iam"), { times: 3, when: "after" })
    assert.strictEqual((yield* advanceClockDuring(Effect.flip(login(slt)))).code, "dependency_unavailable")
    assert.strictEqual((yield* Effect.flip(login(slt))).code, "forbidden")
  })

  scenario(
    "answers the same refusal from another instance, to which IAM calls the new token inactive",
    function* () {
      const iam = yield* SimulatedIam
      iam.production.addActor("c:ben", [])
      const slt = yield* iam.slt({ actor: "c:ben" })
      yield* Effect.flip(login(slt))
      const inactive = new Unknown({ dependency: "iam", reason: "inactive", inactive: true })
      yield* iam.failNext("introspect", inactive, { times: 3 })
      assert.strictEqual((yield* advanceClockDuring(Effect.flip(login(slt)))).code, "forbidden")
    }
  )

  scenario(
    "succeeds when the revocation failed and the actor joined an organisation afterwards",
    function* () {
      const iam = yield* SimulatedIam
      const slt = yield* iam.slt({ actor: "si:deejay" })
      iam.production.setMember("si:deejay", "acme", false)
      yield* iam.failNext("revoke", unreachable("iam"), { times: 3 })
      assert.strictEqual((yield* advanceClockDuring(Effect.flip(login(slt)))).code, "dependency_unavailable")
      iam.production.setMember("si:deejay", "acme", true)
      const session = yield* login(slt)
      assert.isTrue(session.ting.subscribed)
      const token = Redacted.make(session.refresh_token)
      yield* Effect.flatMap(Sessions, (sessions) =>
        sessions.logout(production, { token, key: callerKey("out") })
      )
      assert.strictEqual((yield* Effect.flip(login(slt))).code, "slt_rejected")
    }
  )

  scenario("answers slt_rejected when the record was lost", function* () {
    const iam = yield* SimulatedIam
    const store = yield* StoreSwitches
    iam.production.addActor("c:ben", [])
    const slt = yield* iam.slt({ actor: "c:ben" })
    yield* store.breakDown("loginOutcomes.record")
    assert.strictEqual((yield* Effect.flip(login(slt))).code, "forbidden")
    assert.strictEqual((yield* Effect.flip(login(slt))).code, "slt_rejected")
  })
})

describe("a lost answer", () => {
  scenario("is retried under the same key; the SLT is spent once", function* () {
    const iam = yield* SimulatedIam
    yield* iam.failNext("exchange", lost("iam"), { times: 2, when: "after" })
    const session = yield* advanceClockDuring(login(yield* iam.slt({ actor: "si:deejay" })))
    assert.isTrue(yield* isLive(session.access_token))
    assert.strictEqual(yield* iam.calls("exchange"), 3)
    assert.strictEqual(new Set(yield* iam.keys("exchange")).size, 1)
  })

  scenario("of the introspection loses no session: the retry returns the same one", function* () {
    const iam = yield* SimulatedIam
    const slt = yield* iam.slt({ actor: "si:deejay" })
    yield* iam.failNext("introspect", unreachable("iam"), { times: 3 })
    assert.strictEqual((yield* advanceClockDuring(Effect.flip(login(slt)))).code, "dependency_unavailable")
    assert.isTrue(yield* isLive((yield* login(slt)).access_token))
    assert.strictEqual(yield* iam.calls("exchange"), 2)
  })
})

describe("IAM's refusal", () => {
  scenario("while the first request is in progress elsewhere is polled", function* () {
    const iam = yield* SimulatedIam
    yield* iam.failNext("exchange", iamRefusal(409, "idempotency_in_progress"), { times: 8 })
    const session = yield* advanceClockDuring(login(yield* iam.slt({ actor: "si:deejay" })))
    assert.isTrue(yield* isLive(session.access_token))
  })
})
