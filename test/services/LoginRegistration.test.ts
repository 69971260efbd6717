import { assert, describe, it } from "@effect/vitest"
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
import { callerKey, lost, advanceClockDuring, scenario, unreachable } from "../support/UseCaseLayers.ts"

const key = callerKey("login")
const iamKey = upstreamKey("login", Production(), key)
const deejay = { organisation: "acme", publicId: "si:deejay" }

const prepared = Effect.gen(function* () {
  const iam = yield* SimulatedIam
  const ting = yield* SimulatedTing
  const store = yield* StoreSwitches
  return { iam, ting, store, slt: yield* iam.slt({ actor: "si:deejay" }) }
})

describe("registering at a login", () => {
  it.effect("tells the subscription and makes the actor a recipient", () =>
    scenario(
      Effect.gen(function* () {
        const { ting, slt } = yield* prepared
        const session = yield* login(slt)
        assert.isTrue(session.ting.subscribed)
        assert.match(session.ting.subscription_id ?? "", /^sub_/)
        assert.notProperty(session.ting, "error")
        assert.isTrue(yield* ting.isRegistered(deejay))
      })
    )
  )

  it.effect("failing never fails the login: the code of the failure is told", () =>
    scenario(
      Effect.gen(function* () {
        const { ting, slt } = yield* prepared
        yield* ting.failNext("register", tingRefusal(403, "permission_denied"))
        const session = yield* login(slt)
        deepStrictEqual(session.ting, { subscribed: false, error: "permission_denied" })
        assert.match(session.access_token, /^oat_/)
      })
    )
  )

  it.effect("without its scope asks for no proof and says reconsent_required", () =>
    scenario(
      Effect.gen(function* () {
        const { iam } = yield* prepared
        const slt = yield* iam.slt({
          actor: "si:deejay",
          scopes: ["self.identity.read", "obo:ting:tings.send"]
        })
        const session = yield* login(slt)
        deepStrictEqual(session.ting, { subscribed: false, error: "reconsent_required" })
        assert.strictEqual(yield* iam.calls("prove"), 0)
      })
    )
  )

  it.effect("has 2 attempts, each with a proof of its own", () =>
    scenario(
      Effect.gen(function* () {
        const { ting, slt } = yield* prepared
        yield* ting.failNext("register", unreachable("ting"), { times: 5 })
        const session = yield* advanceClockDuring(login(slt))
        deepStrictEqual(session.ting, { subscribed: false, error: "dependency_unavailable" })
        assert.strictEqual(yield* ting.calls("register"), 2)
      })
    )
  )

  it.effect("whose answer was lost succeeds in the second attempt", () =>
    scenario(
      Effect.gen(function* () {
        const { ting, slt } = yield* prepared
        yield* ting.failNext("register", lost("ting"), { when: "after" })
        const session = yield* advanceClockDuring(login(slt))
        assert.isTrue(session.ting.subscribed)
        const [first, second] = yield* ting.seen
        deepStrictEqual(first?.body, second?.body)
        assert.notStrictEqual(first?.proof, second?.proof)
      })
    )
  )

  it.effect("has 5 s in all: a slow Ting holds no login up", () =>
    scenario(
      Effect.gen(function* () {
        const { ting, slt } = yield* prepared
        const held = yield* ting.hold("register")
        const fiber = yield* Effect.fork(login(slt))
        yield* held.arrived
        yield* TestClock.adjust("4999 millis")
        assert.isTrue((yield* Fiber.poll(fiber))._tag === "None")
        yield* TestClock.adjust("1 millis")
        const session = yield* Fiber.join(fiber)
        deepStrictEqual(session.ting, { subscribed: false, error: "dependency_unavailable" })
      })
    )
  )

  it.effect("a slow proof counts into the same 5 s", () =>
    scenario(
      Effect.gen(function* () {
        const { iam, slt } = yield* prepared
        const held = yield* iam.hold("prove")
        const fiber = yield* Effect.fork(login(slt))
        yield* held.arrived
        yield* TestClock.adjust("5 seconds")
        assert.isFalse((yield* Fiber.join(fiber)).ting.subscribed)
      })
    )
  )

  it.effect("is noted with nothing secret in it, under the upstream key", () =>
    scenario(
      Effect.gen(function* () {
        const { store, slt } = yield* prepared
        const session = yield* login(slt)
        const [recorded] = yield* store.seen("loginOutcomes.record")
        deepStrictEqual(recorded, [
          iamKey,
          "production",
          LoginOutcome.Registration({ ting: session.ting, transient: false })
        ])
      })
    )
  )

  it.effect("whose note is lost fails nothing", () =>
    scenario(
      Effect.gen(function* () {
        const { store, slt } = yield* prepared
        yield* store.breakDown("loginOutcomes.record")
        yield* store.breakDown("recipients.activate")
        assert.isTrue((yield* login(slt)).ting.subscribed)
      })
    )
  )
})

describe("a replayed login", () => {
  it.effect("tells the recorded outcome and registers nobody", () =>
    scenario(
      Effect.gen(function* () {
        const { iam, ting, slt } = yield* prepared
        const first = yield* login(slt)
        const again = yield* login(slt)
        deepStrictEqual(again.ting, first.ting)
        assert.strictEqual(yield* ting.calls("register"), 1)
        assert.strictEqual(yield* iam.calls("prove"), 1)
      })
    )
  )

  it.effect("does not give back a grant that the recipient revoked in between", () =>
    scenario(
      Effect.gen(function* () {
        const { ting, slt } = yield* prepared
        yield* login(slt)
        yield* ting.revokeGrant(deejay)
        yield* login(slt)
        assert.isFalse(yield* ting.isRegistered(deejay))
      })
    )
  )

  it.effect("tells a lasting failure again, without another attempt", () =>
    scenario(
      Effect.gen(function* () {
        const { ting, slt } = yield* prepared
        yield* ting.failNext("register", tingRefusal(403, "permission_denied"))
        const first = yield* login(slt)
        deepStrictEqual((yield* login(slt)).ting, first.ting)
        assert.strictEqual(yield* ting.calls("register"), 1)
      })
    )
  )

  it.effect("registers again after a transient failure, and remembers the new outcome", () =>
    scenario(
      Effect.gen(function* () {
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
    )
  )

  it.effect("registers again after a 429 of IAM", () =>
    scenario(
      Effect.gen(function* () {
        const { iam, slt } = yield* prepared
        yield* iam.failNext("prove", iamRefusal(429, "rate_limited"))
        deepStrictEqual((yield* login(slt)).ting, { subscribed: false, error: "rate_limited" })
        assert.isTrue((yield* login(slt)).ting.subscribed)
      })
    )
  )

  it.effect("registers when the first login died before its outcome was recorded", () =>
    scenario(
      Effect.gen(function* () {
        const { store, ting, slt } = yield* prepared
        yield* store.breakDown("loginOutcomes.record")
        yield* login(slt)
        yield* store.repair("loginOutcomes.record")
        assert.isTrue((yield* login(slt)).ting.subscribed)
        assert.strictEqual(yield* ting.calls("register"), 2)
      })
    )
  )

  it.effect("is what IAM calls one: another answer registers, whatever was recorded under the key", () =>
    scenario(
      Effect.gen(function* () {
        const { iam, ting, slt } = yield* prepared
        yield* login(slt)
        yield* iam.alterGrant((grant) => ({ ...grant, replayed: false }))
        yield* login(slt)
        assert.strictEqual(yield* ting.calls("register"), 2)
      })
    )
  )

  it.effect("whose record cannot be read is still a login, and registers nobody", () =>
    scenario(
      Effect.gen(function* () {
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
    )
  )

  it.effect("of another plane is another login", () =>
    scenario(
      Effect.gen(function* () {
        const { iam, ting, slt } = yield* prepared
        const { plane, state } = yield* iam.environment("e2e")
        yield* login(slt)
        const there = yield* login(yield* iam.slt({ actor: "si:deejay" }, state), key, plane)
        assert.isTrue(there.ting.subscribed)
        assert.strictEqual(yield* ting.calls("register"), 2)
        assert.isTrue(yield* ting.isRegistered({ ...deejay, plane: plane.environmentId }))
      })
    )
  )
})
