import { assert, describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { scopes } from "../../src/schema/Identity.ts"
import type { Caller } from "../../src/services/RequestCredentials.ts"
import { planeId } from "../../src/services/Plane.ts"
import { TingOnBehalf } from "../../src/services/TingOnBehalf.ts"
import { Store } from "../../src/services/Store.ts"
import { Ting } from "../../src/services/Ting.ts"
import { Refused } from "../../src/services/UpstreamFailure.ts"
import { iamRefusal, SimulatedIam } from "../support/SimulatedIam.ts"
import { SimulatedTing, tingRefusal } from "../support/SimulatedTing.ts"
import { StoreSwitches } from "../support/TestStore.ts"
import {
  inRequest,
  lost,
  advanceClockDuring,
  production,
  scenario,
  signedIn,
  unreachable
} from "../support/UseCaseLayers.ts"

const deejay = { plane: "production", organisation: "acme", publicId: "si:deejay" }

/** A caller who is not registered yet. */
const prepared = Effect.gen(function* () {
  const registration = yield* TingOnBehalf
  const iam = yield* SimulatedIam
  const ting = yield* SimulatedTing
  const { caller } = yield* signedIn()
  return { registration, iam, ting, caller, proofs: (yield* iam.proofRequests).length }
})

const withScopes = (caller: Caller, held: ReadonlyArray<string>): Caller => ({
  ...caller,
  membership: { ...caller.membership, scopes: held }
})

describe("a scope is checked before a proof is requested", () => {
  scenario("both the call's own scope and the identity scope", function* () {
    const { registration, caller } = yield* prepared
    yield* registration.requireScope(withScopes(caller, [scopes.send, scopes.identity]), scopes.send)
    for (const held of [[scopes.send], [scopes.identity], [scopes.register, scopes.identity], []]) {
      const failure = yield* Effect.flip(registration.requireScope(withScopes(caller, held), scopes.send))
      assert.strictEqual(failure.code, "reconsent_required")
    }
  })
})

describe("a call to Ting", () => {
  scenario("is proved and sent with the same bytes, for the caller's organisation", function* () {
    const { registration, iam, ting, caller } = yield* prepared
    yield* registration.register(production, caller)
    const request = (yield* iam.proofRequests).at(-1)
    const call = (yield* ting.seen).at(-1)
    assert.strictEqual(request?.organisation, "acme")
    assert.strictEqual(request?.endpoint, "subscriptions.register")
    assert.strictEqual(request?.body, call?.body)
    deepStrictEqual(JSON.parse(new TextDecoder().decode(call?.body)), {
      org_id: "acme",
      app_id: "music",
      for: "si:deejay"
    })
  })

  scenario("requests a new proof under a new key for every attempt, over the same bytes", function* () {
    const { registration, iam, ting, caller, proofs } = yield* prepared
    yield* ting.failNext("register", lost("ting"), { times: 2, when: "after" })
    yield* advanceClockDuring(registration.register(production, caller).pipe(inRequest()))
    const requests = (yield* iam.proofRequests).slice(proofs)
    assert.strictEqual(new Set(requests.map(({ key }) => key)).size, 3)
    const calls = yield* ting.seen
    assert.strictEqual(calls.length, 3)
    assert.strictEqual(new Set(calls.map(({ proof }) => proof)).size, 3)
    assert.strictEqual(new Set(calls.map(({ body }) => Buffer.from(body).toString("hex"))).size, 1)
  })

  scenario("whose proof is refused is retried with another proof, at most 3 attempts in all", function* () {
    const { registration, ting, caller } = yield* prepared
    const register = registration.register(production, caller).pipe(inRequest())
    const expired = tingRefusal(401, "proof_expired")
    yield* ting.failNext("register", expired, { times: 2 })
    assert.match((yield* advanceClockDuring(register)).id, /^sub_/)
    yield* ting.failNext("register", expired, { times: 3 })
    const failure = yield* advanceClockDuring(Effect.flip(register))
    assert.strictEqual(failure.code, "dependency_unavailable")
    assert.strictEqual(yield* ting.calls("register"), 6)
  })

  for (const [slow, dependency] of [
    ["prove", "iam"],
    ["register", "ting"]
  ] as const)
    scenario(`names ${dependency} when the deadline passes during the ${slow} call`, function* () {
      const { registration, iam, ting, caller } = yield* prepared
      const held = yield* slow === "prove" ? iam.hold(slow) : ting.hold(slow)
      const fiber = yield* registration
        .register(production, caller)
        .pipe(inRequest(), Effect.flip, Effect.fork)
      yield* held.arrived
      yield* TestClock.adjust("25 seconds")
      const failure = yield* Fiber.join(fiber)
      assert.strictEqual(failure.code, "dependency_unavailable")
      assert.strictEqual(failure.details?.dependency, dependency)
    })

  scenario("refused with another code is not retried", function* () {
    const { registration, ting, caller } = yield* prepared
    for (const [status, code, ours] of [
      [403, "permission_denied", "permission_denied"],
      [401, "session_expired", "dependency_misconfigured"],
      [429, "temporarily_rate_limited", "temporarily_rate_limited"]
    ] as const) {
      const calls = yield* ting.calls("register")
      yield* ting.failNext("register", tingRefusal(status, code))
      assert.strictEqual((yield* Effect.flip(registration.register(production, caller))).code, ours)
      assert.strictEqual(yield* ting.calls("register"), calls + 1)
    }
  })

  scenario("fails with IAM's refusal when IAM refuses the proof, and is not retried", function* () {
    const { registration, iam, ting, caller } = yield* prepared
    for (const [status, code, ours] of [
      [400, "invalid_subject_token", "unauthenticated"],
      [403, "obo_organization_not_authorized", "forbidden"],
      [404, "not_found", "reconsent_required"],
      [401, "invalid_client", "dependency_misconfigured"],
      [401, "proof_expired", "dependency_unavailable"]
    ] as const) {
      const calls = yield* iam.calls("prove")
      yield* iam.failNext("prove", iamRefusal(status, code))
      const failure = yield* Effect.flip(registration.register(production, caller))
      assert.strictEqual(failure.code, ours, code)
      assert.strictEqual(failure.details?.dependency ?? "iam", "iam")
      assert.strictEqual(yield* iam.calls("prove"), calls + 1, code)
    }
    assert.strictEqual(yield* ting.calls("register"), 0)
  })

  scenario("names IAM or Ting in an outage, whichever failed", function* () {
    const { registration, iam, ting, caller } = yield* prepared
    const failure = advanceClockDuring(
      Effect.flip(registration.register(production, caller).pipe(inRequest()))
    )
    yield* iam.failNext("prove", unreachable("iam"), { times: 3 })
    deepStrictEqual((yield* failure).details, { dependency: "iam" })
    yield* ting.failNext("register", unreachable("ting"), { times: 3 })
    deepStrictEqual((yield* failure).details, { dependency: "ting" })
  })

  scenario("compares the clock with the time of the answer for its clock hint", function* () {
    const { registration, iam, caller } = yield* prepared
    yield* TestClock.adjust("5 minutes")
    const answeredAt = yield* TestClock.currentTimeMillis
    const invalidClient = (at: number) =>
      new Refused({ dependency: "iam", status: 401, code: "invalid_client", answeredAt: at })
    yield* iam.failNext("prove", invalidClient(answeredAt))
    assert.notInclude((yield* Effect.flip(registration.register(production, caller))).hint, "clock")
    yield* iam.failNext("prove", invalidClient(answeredAt - 61_000))
    assert.include((yield* Effect.flip(registration.register(production, caller))).hint, "clock")
  })
})

describe("a registration", () => {
  scenario("is recorded for ting_ready, with organisation and subscription", function* () {
    const { registration, caller } = yield* prepared
    const store = yield* Store
    assert.isFalse(yield* store.recipients.isActive(deejay))
    const registered = yield* registration.register(production, caller)
    assert.isTrue(yield* store.recipients.isActive(deejay))
    const [recorded] = yield* (yield* StoreSwitches).seen("recipients.activate")
    deepStrictEqual(recorded, [
      {
        ...deejay,
        organisationUuid: caller.membership.organisationUuid,
        subscriptionId: registered.id
      }
    ])
  })

  scenario("succeeds when the record cannot be written", function* () {
    const { registration, ting, caller } = yield* prepared
    yield* (yield* StoreSwitches).breakDown("recipients.activate")
    yield* registration.register(production, caller)
    assert.isTrue(yield* ting.isRegistered(deejay))
  })

  scenario("in a testing plane sends Ting's own test credentials", function* () {
    const { registration } = yield* prepared
    const ting = yield* Ting
    const { caller, plane } = yield* signedIn({ environment: "e2e" })
    const recipient = ting.prepareRegistration({ organisation: "acme", publicId: "si:deejay" })
    const proof = yield* registration.callWithProof(plane, caller, recipient, (_, given) =>
      Effect.succeed(given)
    )
    assert.isTrue(Option.isSome(proof.testing))
    yield* registration.register(plane, caller)
    assert.isTrue(yield* (yield* SimulatedTing).isRegistered({ ...deejay, plane: planeId(plane) }))
  })
})
