import { assert, describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import { upstreamKey } from "../../src/services/Idempotency.ts"
import { Production } from "../../src/services/Plane.ts"
import { LoginOutcome } from "../../src/services/Store.ts"
import { login } from "../support/Logins.ts"
import { iamRefusal, SimulatedIam } from "../support/SimulatedIam.ts"
import { SimulatedTing, tingRefusal } from "../support/SimulatedTing.ts"
import { StoreSwitches } from "../support/TestStore.ts"
import { callerKey, advanceClockDuring, scenario, unreachable } from "../support/UseCaseLayers.ts"

const key = callerKey("login")
const iamKey = upstreamKey("login", Production(), key)
const deejay = { organisation: "acme", publicId: "si:deejay" }

const prepared = Effect.gen(function* () {
  const iam = yield* SimulatedIam
  const ting = yield* SimulatedTing
  const store = yield* StoreSwitches
  return { iam, ting, store, slt: yield* iam.slt({ actor: "si:deejay" }) }
})

describe("registration at a login", () => {
  scenario("returns the subscription and registers the actor as a recipient", function* () {
    const { ting, slt } = yield* prepared
    const session = yield* login(slt)
    assert.isTrue(session.ting.subscribed)
    assert.match(session.ting.subscription_id ?? "", /^sub_/)
    assert.notProperty(session.ting, "error")
    assert.isTrue(yield* ting.isRegistered(deejay))
  })

  scenario("never fails the login: a failure is returned as its code", function* () {
    const { ting, slt } = yield* prepared
    yield* ting.failNext("register", tingRefusal(403, "permission_denied"))
    const session = yield* login(slt)
    deepStrictEqual(session.ting, { subscribed: false, error: "permission_denied" })
    assert.match(session.access_token, /^oat_/)
  })

  scenario("makes 2 attempts, each with a new proof", function* () {
    const { ting, slt } = yield* prepared
    yield* ting.failNext("register", unreachable("ting"), { times: 5 })
    const session = yield* advanceClockDuring(login(slt))
    deepStrictEqual(session.ting, { subscribed: false, error: "dependency_unavailable" })
    assert.strictEqual(yield* ting.calls("register"), 2)
  })

  for (const slow of ["register", "prove"] as const)
    scenario(`takes 5 s at most, also while the ${slow} call is slow`, function* () {
      const { iam, ting, slt } = yield* prepared
      const held = yield* slow === "prove" ? iam.hold(slow) : ting.hold(slow)
      const fiber = yield* Effect.fork(login(slt))
      yield* held.arrived
      yield* TestClock.adjust("4999 millis")
      assert.isTrue((yield* Fiber.poll(fiber))._tag === "None")
      yield* TestClock.adjust("1 millis")
      const session = yield* Fiber.join(fiber)
      deepStrictEqual(session.ting, { subscribed: false, error: "dependency_unavailable" })
    })

  scenario("is recorded without secrets, under the upstream key", function* () {
    const { store, slt } = yield* prepared
    const session = yield* login(slt)
    const [recorded] = yield* store.seen("loginOutcomes.record")
    deepStrictEqual(recorded, [
      iamKey,
      "production",
      LoginOutcome.Registration({ ting: session.ting, transient: false })
    ])
  })

  scenario("succeeds when its record cannot be written", function* () {
    const { store, slt } = yield* prepared
    yield* store.breakDown("loginOutcomes.record")
    yield* store.breakDown("recipients.activate")
    assert.isTrue((yield* login(slt)).ting.subscribed)
  })
})

describe("a replayed login", () => {
  scenario("returns the recorded outcome and does not register again", function* () {
    const { iam, ting, slt } = yield* prepared
    const first = yield* login(slt)
    const again = yield* login(slt)
    deepStrictEqual(again.ting, first.ting)
    assert.strictEqual(yield* ting.calls("register"), 1)
    assert.strictEqual(yield* iam.calls("prove"), 1)
  })

  scenario("does not restore a grant that the recipient revoked in between", function* () {
    const { ting, slt } = yield* prepared
    yield* login(slt)
    yield* ting.revokeGrant(deejay)
    yield* login(slt)
    assert.isFalse(yield* ting.isRegistered(deejay))
  })

  scenario(
    "registers after every failure that is retryable, such as `idempotency_in_progress`",
    function* () {
      const { iam, slt } = yield* prepared
      yield* iam.failNext("prove", iamRefusal(409, "idempotency_in_progress"), { times: 9 })
      const first = yield* advanceClockDuring(login(slt))
      deepStrictEqual(first.ting, { subscribed: false, error: "idempotency_in_progress" })
      assert.isTrue((yield* advanceClockDuring(login(slt))).ting.subscribed)
    }
  )

  scenario("returns a permanent failure again, without another attempt", function* () {
    const { ting, slt } = yield* prepared
    yield* ting.failNext("register", tingRefusal(403, "permission_denied"))
    const first = yield* login(slt)
    deepStrictEqual((yield* login(slt)).ting, first.ting)
    assert.strictEqual(yield* ting.calls("register"), 1)
  })

  scenario("registers again after a transient failure, and records the new outcome", function* () {
    const { ting, slt } = yield* prepared
    for (const failure of [
      unreachable("ting"),
      tingRefusal(429, "temporarily_rate_limited", 1),
      tingRefusal(503, "storage_unavailable")
    ]) {
      yield* ting.failNext("register", failure, { times: failure._tag === "Refused" ? 1 : 2 })
      assert.isFalse((yield* advanceClockDuring(login(slt), "5 seconds")).ting.subscribed)
    }
    assert.isTrue((yield* login(slt)).ting.subscribed)
    const calls = yield* ting.calls("register")
    assert.isTrue((yield* login(slt)).ting.subscribed)
    assert.strictEqual(yield* ting.calls("register"), calls)
  })

  scenario("registers again after a 429 of IAM", function* () {
    const { iam, slt } = yield* prepared
    yield* iam.failNext("prove", iamRefusal(429, "rate_limited"))
    deepStrictEqual((yield* login(slt)).ting, { subscribed: false, error: "rate_limited" })
    assert.isTrue((yield* login(slt)).ting.subscribed)
  })

  scenario("registers when the first login ended before its outcome was recorded", function* () {
    const { store, ting, slt } = yield* prepared
    yield* store.breakDown("loginOutcomes.record")
    yield* login(slt)
    yield* store.repair("loginOutcomes.record")
    assert.isTrue((yield* login(slt)).ting.subscribed)
    assert.strictEqual(yield* ting.calls("register"), 2)
  })

  scenario(
    "is recognised by IAM's replay flag: any other grant registers, whatever is recorded under the key",
    function* () {
      const { iam, ting, slt } = yield* prepared
      yield* login(slt)
      yield* iam.alterGrant((grant) => ({ ...grant, replayed: false }))
      yield* login(slt)
      assert.strictEqual(yield* ting.calls("register"), 2)
    }
  )

  scenario("succeeds without a registration when the record cannot be read", function* () {
    const { store, ting, slt } = yield* prepared
    const first = yield* login(slt)
    yield* ting.revokeGrant(deejay)
    yield* store.breakDown("loginOutcomes.find")
    const again = yield* login(slt)
    assert.strictEqual(again.access_token, first.access_token)
    deepStrictEqual(again.ting, { subscribed: false, error: "dependency_unavailable" })
    assert.isFalse(yield* ting.isRegistered(deejay))
    yield* store.repair("loginOutcomes.find")
    deepStrictEqual((yield* login(slt)).ting, first.ting)
  })

  scenario("is a new login in another plane", function* () {
    const { iam, ting, slt } = yield* prepared
    const { plane, state } = yield* iam.environment("e2e")
    yield* login(slt)
    const there = yield* login(yield* iam.slt({ actor: "si:deejay" }, state), key, plane)
    assert.isTrue(there.ting.subscribed)
    assert.strictEqual(yield* ting.calls("register"), 2)
    assert.isTrue(yield* ting.isRegistered({ ...deejay, plane: plane.environmentId }))
  })
})
