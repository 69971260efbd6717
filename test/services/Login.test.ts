import { Effect, Fiber, Option, Redacted, TestClock } from "effect"
import { describe, expect } from "vitest"
import { requestedScopes } from "../../src/schema/Identity.ts"
import { upstreamKey } from "../../src/services/combinators/Idempotency.ts"
import type { TokenGrant } from "../../src/services/Iam.ts"
import { LoginOutcome } from "../../src/services/Store.ts"
import { isLive, login, logout } from "../world/Logins.ts"
import { SimulatedIam, SimulatedTing } from "../world/SimulatedIam.ts"
import { StoreSwitches } from "../world/TestStore.ts"
import {
  advanceClockDuring,
  callerKey,
  lost,
  production,
  scenario,
  unreachable
} from "../world/UseCaseLayers.ts"
import { codeOf } from "./Codes.ts"

const deejay = { organisation: "acme", publicId: "si:deejay" }

const prepared = Effect.gen(function* () {
  const iam = yield* SimulatedIam
  const ting = yield* SimulatedTing
  const store = yield* StoreSwitches
  return { iam, ting, store, slt: yield* iam.slt({ actor: "si:deejay" }) }
})

describe("a login", () => {
  scenario("returns the session of the SLT's actor in four round trips", function* () {
    const { iam, slt } = yield* prepared
    const { access_token, refresh_token, ting, ...rest } = yield* login(slt, callerKey("mine"))
    expect(`${access_token} ${refresh_token}`).toMatch(/^oat_\S+ ort_\S+$/)
    expect(ting).toEqual({ subscribed: true, subscription_id: expect.stringMatching(/^sub_/) })
    expect(rest).toEqual({
      token_type: "Bearer",
      expires_in: 1800,
      scope: requestedScopes.join(" "),
      actor: { type: "silicon", public_id: "si:deejay" },
      org_id: "acme",
      org_ids: ["acme"],
      testing_environment_id: null
    })
    for (const method of ["exchange", "introspect", "prove"] as const)
      expect([method, yield* iam.calls(method)]).toEqual([method, 1])
    expect(yield* iam.keys("exchange")).toEqual([upstreamKey("login", production, callerKey("mine"))])
  })

  const actor = { type: "carbon", public_id: "c:ana" } as const
  /** A change of the grant or of the introspection, and what the session has. */
  const grants: ReadonlyArray<readonly [Partial<TokenGrant>, number, object]> = [
    [{ organisation: Option.some("acme") }, 0, { org_id: "acme" }],
    [{ organisation: Option.some("other") }, 0, { org_id: "zenith" }],
    [{ actor: Option.none() }, 0, { actor }],
    [{ expiresInSeconds: 60 }, 0, { expires_in: 60 }],
    // IAM's clock is ahead by so many milliseconds.
    [{}, 100_000, { expires_in: 1_700 }],
    [{}, 1_805_000, { expires_in: 0 }]
  ]
  scenario("has the organisation, actor and lifetime of its grant and introspection", function* () {
    const { iam } = yield* prepared
    for (const [at, [change, ahead, expected]] of grants.entries()) {
      yield* iam.alterGrant((grant) => ({ ...grant, scopes: [...grant.scopes].reverse(), ...change }))
      yield* iam.alter(({ answeredAt, memberships, ...found }) => ({
        ...found,
        answeredAt: answeredAt + ahead,
        memberships: [...memberships].reverse()
      }))
      const session = yield* login(yield* iam.slt({ actor: "c:ana" }), callerKey(`grant-${at}`))
      const usual = { scope: requestedScopes.join(" "), org_ids: ["acme", "zenith"] }
      expect([change, session]).toMatchObject([change, { ...usual, ...expected }])
    }
    const another = Option.some({ type: "carbon", public_id: "c:bob" } as const)
    yield* iam.alterGrant((grant) => ({ ...grant, actor: another }))
    const slt = yield* iam.slt({ actor: "c:ana" })
    expect(yield* codeOf(login(slt, callerKey("another")))).toBe("dependency_unavailable")
  })

  scenario("in a testing plane takes a public id as the SLT, and is apart", function* () {
    const { iam } = yield* prepared
    const environment = yield* iam.environment("e2e")
    const { plane, state } = environment
    for (const one of [state, iam.production]) one.addActor("si:tester", ["acme"])
    const tester = Redacted.make("si:tester")
    const first = yield* login(tester, callerKey("1"), plane)
    expect(first.testing_environment_id).toBe(plane.environmentId)
    expect(yield* iam.keys("exchange")).toEqual([upstreamKey("login", plane, callerKey("1"))])
    expect(yield* codeOf(login(tester))).toBe("slt_rejected")
    expect(yield* isLive(first.access_token)).toBe(false)
    yield* iam.deleteEnvironment(environment)
    expect(yield* codeOf(login(tester, callerKey("3"), plane))).toBe("testing_secret_invalid")
  })
})

describe("the same key", () => {
  scenario("replays the session for 10 minutes; an SLT is single-use and expires after 120 s", function* () {
    const { iam, slt } = yield* prepared
    const expired = yield* iam.slt({ actor: "si:deejay" })
    expect(yield* codeOf(login(Redacted.make("oac_unknown")))).toBe("slt_rejected")
    yield* TestClock.adjust("119999 millis")
    const first = yield* login(slt)
    expect(yield* codeOf(login(slt, callerKey("other")))).toBe("slt_rejected")
    yield* TestClock.adjust("1 millis")
    expect(yield* codeOf(login(expired, callerKey("expired")))).toBe("slt_rejected")
    yield* TestClock.adjust("598999 millis")
    expect(yield* login(slt)).toEqual({ ...first, expires_in: 1800 - 599 })
    yield* TestClock.adjust("1 seconds")
    expect(yield* codeOf(login(slt))).toBe("idempotency_response_expired")
    // The SLT is spent when the session has ended.
    const other = yield* iam.slt({ actor: "si:deejay" })
    yield* logout((yield* login(other, callerKey("ended"))).refresh_token)
    expect(yield* codeOf(login(other, callerKey("ended")))).toBe("slt_rejected")
  })
})

describe("a login whose new family was revoked", () => {
  const refusals = [
    ["forbidden", { reason: "no_organization" }, {}, []],
    ["reconsent_required", undefined, { scopes: ["self.profile.read"] }, ["acme"]]
  ] as const
  scenario.each(refusals)("answers the same again: %s", function* ([code, details, given, orgs]) {
    const { iam } = yield* prepared
    iam.production.addActor("c:ben", orgs)
    const slt = yield* iam.slt({ actor: "c:ben", ...given })
    for (const wait of ["9 minutes", "0 minutes"] as const) {
      const failure = yield* Effect.flip(login(slt))
      expect([failure.code, failure.details]).toEqual([code, details])
      yield* TestClock.adjust(wait)
    }
    const key = upstreamKey("abandon", production, callerKey("login"))
    for (const made of [yield* iam.revoked, yield* iam.keys("revoke")]) expect(new Set(made).size).toBe(1)
    expect(yield* iam.keys("revoke")).toContain(key)
  })

  const withoutOrganisation = Effect.gen(function* () {
    const made = yield* prepared
    made.iam.production.setMember("si:deejay", "acme", false)
    return { ...made, answer: advanceClockDuring(codeOf(login(made.slt))) }
  })

  scenario.each([lost("iam"), unreachable("iam")])(
    "is an outage when the revocation fails: %s",
    function* (fault) {
      const { answer, iam } = yield* withoutOrganisation
      yield* iam.failNext("revoke", fault, { times: 3, when: fault._tag === "Unknown" ? "after" : "before" })
      expect([yield* answer, yield* answer]).toEqual(["dependency_unavailable", "forbidden"])
      expect(new Set(yield* iam.revoked).size).toBe(1)
      // The refusal stands under its key.
      iam.production.setMember("si:deejay", "acme", true)
      expect(yield* answer).toBe("forbidden")
    }
  )
})

describe("registration at a login", () => {
  scenario("is recorded without secrets, and returned again without another call", function* () {
    const { iam, slt, store, ting } = yield* prepared
    const session = yield* login(slt)
    expect(yield* ting.isRegistered(deejay)).toBe(true)
    expect(yield* store.seen("loginOutcomes.record")).toEqual([
      [
        upstreamKey("login", production, callerKey("login")),
        LoginOutcome.Registration({ ting: session.ting, transient: false })
      ]
    ])
    // A replay does not restore a grant that the recipient revoked in between.
    yield* ting.revokeGrant(deejay)
    expect((yield* login(slt)).ting).toEqual(session.ting)
    expect([yield* ting.calls("register"), yield* iam.calls("prove")]).toEqual([1, 1])
    expect(yield* ting.isRegistered(deejay)).toBe(false)
  })

  scenario("takes 5 s at most", function* () {
    const { iam, slt } = yield* prepared
    const held = yield* iam.hold("prove")
    const fiber = yield* Effect.fork(login(slt))
    yield* held.arrived
    yield* TestClock.adjust("4999 millis")
    expect(Option.isNone(yield* Fiber.poll(fiber))).toBe(true)
    yield* TestClock.adjust("1 millis")
    expect((yield* Fiber.join(fiber)).ting).toEqual({ subscribed: false, error: "dependency_unavailable" })
  })

  scenario("is done again without a record, and left out where none can be read", function* () {
    const { slt, store, ting } = yield* prepared
    for (const method of ["loginOutcomes.record", "recipients.activate"] as const)
      yield* store.breakDown(method)
    expect((yield* login(slt)).ting.subscribed).toBe(true)
    yield* store.repair("loginOutcomes.record")
    yield* login(slt)
    yield* store.breakDown("loginOutcomes.find")
    expect((yield* login(slt)).ting).toEqual({ subscribed: false, error: "dependency_unavailable" })
    expect(yield* ting.calls("register")).toBe(2)
  })
})
