import { assert, describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { requestedScopes } from "../../src/schema/Identity.ts"
import { upstreamKey } from "../../src/services/Idempotency.ts"
import { Production } from "../../src/services/Plane.ts"
import { isLive, login } from "../support/Logins.ts"
import { SimulatedIam, type SimulatedIamService } from "../support/SimulatedIam.ts"
import { callerKey, advanceClockDuring, production, scenario, unreachable } from "../support/UseCaseLayers.ts"

describe("a login", () => {
  scenario("returns the session of the SLT's actor", function* () {
    const iam = yield* SimulatedIam
    const session = yield* login(yield* iam.slt({ actor: "si:deejay" }))
    const { access_token, refresh_token, ting, ...rest } = session
    assert.match(access_token, /^oat_/)
    assert.match(refresh_token, /^ort_/)
    assert.isTrue(ting.subscribed)
    deepStrictEqual(rest, {
      token_type: "Bearer",
      expires_in: 1800,
      scope: requestedScopes.join(" "),
      actor: { type: "silicon", public_id: "si:deejay" },
      org_id: "acme",
      org_ids: ["acme"],
      testing_environment_id: null
    })
  })

  scenario("makes four upstream round trips, with the catalogue request in parallel", function* () {
    const iam = yield* SimulatedIam
    yield* login(yield* iam.slt({ actor: "si:deejay" }))
    for (const method of ["exchange", "introspect", "prove", "warmCatalogue"] as const) {
      assert.strictEqual(yield* iam.calls(method), 1, method)
    }
    assert.strictEqual(yield* iam.calls("revoke"), 0)
  })

  scenario("sends IAM the digest of operation, plane and caller's key as the idempotency key", function* () {
    const iam = yield* SimulatedIam
    yield* login(yield* iam.slt({ actor: "si:deejay" }), callerKey("mine"))
    deepStrictEqual(yield* iam.keys("exchange"), [upstreamKey("login", Production(), callerKey("mine"))])
  })

  scenario("sorts scopes and organisations", function* () {
    const iam = yield* SimulatedIam
    yield* iam.alterGrant((grant) => ({ ...grant, scopes: [...grant.scopes].reverse() }))
    yield* iam.alter((found) => ({ ...found, memberships: [...found.memberships].reverse() }))
    const session = yield* login(yield* iam.slt({ actor: "c:ana" }))
    assert.strictEqual(session.scope, requestedScopes.join(" "))
    deepStrictEqual(session.org_ids, ["acme", "zenith"])
  })
})

describe("the session's organisation", () => {
  scenario("is IAM's own choice when that organisation was granted", function* () {
    const iam = yield* SimulatedIam
    yield* iam.alterGrant((grant) => ({ ...grant, organisation: Option.some("zenith") }))
    const session = yield* login(yield* iam.slt({ actor: "c:ana" }))
    assert.strictEqual(session.org_id, "zenith")
    deepStrictEqual(session.org_ids, ["acme", "zenith"])
  })

  scenario("is not IAM's choice when that organisation was not granted", function* () {
    const iam = yield* SimulatedIam
    yield* iam.alterGrant((grant) => ({ ...grant, organisation: Option.some("elsewhere") }))
    assert.strictEqual((yield* login(yield* iam.slt({ actor: "c:ana" }))).org_id, "acme")
  })

  scenario(
    "is required: a revocation that fails is an outage; the retry revokes, then answers 403",
    function* () {
      const iam = yield* SimulatedIam
      iam.production.addActor("c:ben", [])
      const slt = yield* iam.slt({ actor: "c:ben" })
      yield* iam.failNext("revoke", unreachable("iam"), { times: 3 })
      assert.strictEqual((yield* advanceClockDuring(Effect.flip(login(slt)))).code, "dependency_unavailable")
      assert.strictEqual((yield* Effect.flip(login(slt))).code, "forbidden")
      assert.strictEqual(yield* iam.calls("revoke"), 4)
      assert.strictEqual(new Set(yield* iam.revoked).size, 1)
      deepStrictEqual(
        [...new Set(yield* iam.keys("revoke"))],
        [upstreamKey("abandon", production, callerKey("login"))]
      )
    }
  )
})

describe("the actor", () => {
  scenario("must be the same in the grant and the introspection", function* () {
    const iam = yield* SimulatedIam
    yield* iam.alterGrant((grant) => ({
      ...grant,
      actor: Option.some({ type: "silicon", public_id: "si:other" })
    }))
    const failure = yield* Effect.flip(login(yield* iam.slt({ actor: "si:deejay" })))
    assert.strictEqual(failure.code, "dependency_unavailable")
    deepStrictEqual(failure.details, { dependency: "iam", reason: "actor_mismatch" })
  })

  scenario("may be missing in the grant", function* () {
    const iam = yield* SimulatedIam
    yield* iam.alterGrant((grant) => ({ ...grant, actor: Option.none() }))
    const session = yield* login(yield* iam.slt({ actor: "c:ana" }))
    deepStrictEqual(session.actor, { type: "carbon", public_id: "c:ana" })
  })
})

describe("expires_in", () => {
  scenario("is the remaining lifetime, also on a replay", function* () {
    const iam = yield* SimulatedIam
    const slt = yield* iam.slt({ actor: "si:deejay" })
    const first = yield* login(slt)
    yield* TestClock.adjust("599 seconds")
    const replayed = yield* login(slt)
    assert.strictEqual(replayed.access_token, first.access_token)
    assert.strictEqual(replayed.expires_in, 1800 - 599)
  })

  const cases: ReadonlyArray<readonly [string, (iam: SimulatedIamService) => Effect.Effect<void>, number]> = [
    [
      "is IAM's value when that is smaller",
      (iam) => iam.alterGrant((grant) => ({ ...grant, expiresInSeconds: 60 })),
      60
    ],
    [
      "uses IAM's clock, not ours",
      (iam) => iam.alter((found) => ({ ...found, answeredAt: found.answeredAt + 100_000 })),
      1700
    ],
    [
      "is never below 0",
      (iam) => iam.alter((found) => ({ ...found, expiresAt: Math.floor(found.answeredAt / 1000) - 5 })),
      0
    ]
  ]
  for (const [name, change, expected] of cases)
    scenario(name, function* () {
      const iam = yield* SimulatedIam
      yield* change(iam)
      assert.strictEqual((yield* login(yield* iam.slt({ actor: "si:deejay" }))).expires_in, expected)
    })
})

describe("in a testing plane", () => {
  scenario(
    "accepts a public id as the SLT, makes a session for every key, and names the plane",
    function* () {
      const iam = yield* SimulatedIam
      const { plane, state } = yield* iam.environment("e2e")
      state.addActor("si:tester", ["acme"])
      const first = yield* login(Redacted.make("si:tester"), callerKey("1"), plane)
      const second = yield* login(Redacted.make("si:tester"), callerKey("2"), plane)
      assert.strictEqual(first.testing_environment_id, plane.environmentId)
      assert.notStrictEqual(first.access_token, second.access_token)
      deepStrictEqual(yield* iam.keys("exchange"), [
        upstreamKey("login", plane, callerKey("1")),
        upstreamKey("login", plane, callerKey("2"))
      ])
    }
  )

  scenario("does not accept its public ids and sessions in production", function* () {
    const iam = yield* SimulatedIam
    const { plane, state } = yield* iam.environment("e2e")
    state.addActor("si:tester", ["acme"])
    iam.production.addActor("si:tester", ["acme"])
    assert.strictEqual((yield* Effect.flip(login(Redacted.make("si:tester")))).code, "slt_rejected")
    const { access_token } = yield* login(Redacted.make("si:tester"), callerKey("1"), plane)
    assert.isFalse(yield* isLive(access_token))
  })

  scenario("answers testing_secret_invalid after the secret was revoked", function* () {
    const iam = yield* SimulatedIam
    const environment = yield* iam.environment("e2e")
    environment.state.addActor("si:tester", ["acme"])
    yield* iam.deleteEnvironment(environment)
    const failure = yield* Effect.flip(login(Redacted.make("si:tester"), callerKey("1"), environment.plane))
    assert.strictEqual(failure.code, "testing_secret_invalid")
  })
})
