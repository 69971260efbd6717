import { assert, describe, expect } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { iamFaults } from "../../../sandbox/upstreams/Iam.ts"
import { requestedScopes } from "../../../src/schema/Identity.ts"
import type { UpstreamFailure } from "../../../src/services/UpstreamFailure.ts"
import { form, iamOver, iamWorld, key, production, reply, startTime } from "./Simulated.ts"
import { type Fault, faults } from "../../../sandbox/upstreams/Simulator.ts"
import { until } from "../../support/Waiting.ts"

const path = "/oauth/introspect"

const someone = Redacted.make(`oat_${"a".repeat(43)}`)
const uuid = (end: number) => `0199a0aa-0000-7000-8000-${String(end).padStart(12, "0")}`

const snapshot = (org: string, changes: object = {}) => ({
  actor_type: "carbon",
  public_id: "c:ana",
  organization_id: uuid(org.length),
  org_id: org,
  membership_id: `c:ana[${org}]`,
  membership_version: 7,
  authorization_epoch: 3,
  audience: "music",
  testing_environment_id: null,
  scopes: ["self.identity.read", "self.profile.read"],
  org_role: null,
  tags: null,
  ...changes
})

const live = (changes: object = {}) => ({
  active: true,
  public_id: "c:ana",
  actor_type: "carbon",
  client_id: "music",
  session_id: uuid(1),
  scope: "self.identity.read self.profile.read",
  audience: "music",
  issued_at: startTime / 1000,
  expires_at: startTime / 1000 + 1800,
  authorization_epoch: 3,
  ...changes
})

const general = (changes: object = {}) => live({ authorizations: [snapshot("acme")], ...changes })

const selected = (changes: object = {}) =>
  live({ org_id: "acme", membership_id: "c:ana[acme]", authorization: snapshot("acme"), ...changes })

const undisclosed = { actor_type: undefined, public_id: undefined }

const must = <A>(option: Option.Option<A>) => Option.getOrThrow(option)

describe("introspect", () => {
  it.scoped("returns every organisation of a live token", function* () {
    const { asked, iam, login, seeded } = yield* iamWorld()
    const { accessToken } = yield* login("c:ana")
    yield* TestClock.adjust("10 seconds")
    const seen = must(yield* iam.introspect(production, accessToken))
    const membership = (organisation: "acme" | "zenith") => ({
      organisation,
      organisationUuid: seeded.organizations[organisation],
      membershipId: `c:ana[${organisation}]`,
      scopes: requestedScopes,
      actor: Option.some({ type: "carbon" as const, public_id: "c:ana" })
    })
    deepStrictEqual(
      { ...seen, sessionId: "" },
      {
        publicId: Option.some("c:ana"),
        sessionId: "",
        expiresAt: startTime / 1000 + 1800,
        answeredAt: startTime + 10_000,
        memberships: [membership("acme"), membership("zenith")]
      }
    )
    const request = asked(path)[0]
    assert.isUndefined(request?.headers.get("x-org-id"))
    assert.isUndefined(request?.headers.get("idempotency-key"))
    assert.strictEqual(form(request).token, Redacted.value(accessToken))
  })

  it.scoped("identifies an undisclosed actor by its membership only", function* () {
    const { iam, login } = yield* iamWorld()
    const { accessToken } = yield* login("si:deejay", ["self.profile.read"])
    const seen = must(yield* iam.introspect(production, accessToken))
    deepStrictEqual(
      seen.memberships.map(({ actor, membershipId }) => ({ actor, membershipId })),
      [{ actor: Option.none(), membershipId: "si:deejay[acme]" }]
    )
  })

  it.scoped(
    "sorts memberships by handle, and accepts an empty list, one authorization, and unknown members",
    function* () {
      const { iam, simulator } = yield* iamWorld()
      const memberships = (body: unknown) =>
        Effect.gen(function* () {
          simulator.fail({ fault: reply(body) })
          const seen = must(yield* iam.introspect(production, someone))
          return seen.memberships.map(({ organisation }) => organisation)
        })
      deepStrictEqual(yield* memberships(general({ authorizations: [] })), [])
      deepStrictEqual(yield* memberships(selected()), ["acme"])
      deepStrictEqual(
        yield* memberships(general({ authorizations: [snapshot("zenith"), snapshot("acme")], later: 1 })),
        ["acme", "zenith"]
      )
      deepStrictEqual(yield* memberships(general({ public_id: undefined, actor_type: null })), ["acme"])
    }
  )

  it.scoped("uses our clock when the response has no `Date`", function* () {
    const { iam, simulator } = yield* iamWorld()
    simulator.fail({
      fault: { kind: "reply", reply: { status: 200, body: general(), headers: { date: "long ago" } } }
    })
    assert.strictEqual(must(yield* iam.introspect(production, someone)).answeredAt, startTime)
  })
})

describe("an answer has an unknown outcome when", () => {
  const one = (changes: object) => general({ authorizations: [snapshot("acme", changes)] })
  const wrong = Object.entries({
    "active is missing": { ...general(), active: undefined },
    "active is no boolean": general({ active: "true" }),
    "the audience is another application": general({ audience: "ting" }),
    "the client is another application": general({ client_id: "ting" }),
    "the public id is none": general({ public_id: "app:music" }),
    "the actor is an application": general({ actor_type: "application" }),
    "a Carbon has the type of a Silicon": general({ actor_type: "silicon" }),
    "the session is no UUID": general({ session_id: "session" }),
    "the times are no integers": general({ expires_at: "soon" }),
    "it holds no authorization": live(),
    "it holds both forms of authorization": selected({ authorizations: [snapshot("acme")] }),
    "a snapshot's audience is another application": one({ audience: "ting" }),
    "a snapshot is of a testing plane": one({ testing_environment_id: uuid(9) }),
    "a snapshot does not name its plane": one({ testing_environment_id: undefined }),
    "a snapshot names another actor": one({ public_id: "c:bob", membership_id: "c:bob[acme]" }),
    "a snapshot's membership is another person's": one({ membership_id: "c:bob[acme]" }),
    "a snapshot's membership is another organisation's": one({ membership_id: "c:ana[zenith]" }),
    "a snapshot's membership names no person": one({ ...undisclosed, membership_id: "ana[acme]" }),
    "an undisclosed snapshot's membership is another person's": one({
      ...undisclosed,
      membership_id: "c:bob[acme]"
    }),
    "a snapshot's membership is a UUID": one({ membership_id: uuid(3) }),
    "a snapshot has a type without an id": one({ public_id: undefined }),
    "a snapshot gives a Carbon the type of a Silicon": one({ actor_type: "silicon" }),
    "a snapshot's organisation is no handle": one({ org_id: "ACME", membership_id: "c:ana[ACME]" }),
    "a snapshot's organisation has no UUID": one({ organization_id: "acme" }),
    "a snapshot has no version": one({ membership_version: 0 }),
    "a snapshot has no scopes": one({ scopes: null }),
    "an organisation is listed twice": general({ authorizations: [snapshot("acme"), snapshot("acme")] }),
    "its one snapshot is of another organisation": selected({ authorization: snapshot("zenith") }),
    "its one membership is not the snapshot's": selected({ membership_id: "c:bob[acme]" })
  })
  it.scoped("it breaks the contract", function* () {
    const { iam, simulator } = yield* iamWorld()
    for (const [name, body] of wrong) {
      simulator.fail({ fault: reply(body) })
      expect([name, yield* Effect.flip(iam.introspect(production, someone))]).toMatchObject([
        name,
        { _tag: "Unknown", dependency: "iam" }
      ])
    }
  })

  it.scoped("a testing plane was asked and production, or another plane, answers", function* () {
    const { iam, simulator, testing } = yield* iamWorld()
    for (const id of [null, uuid(9)]) {
      simulator.fail({ fault: reply(one({ testing_environment_id: id })) })
      assert.strictEqual((yield* Effect.flip(iam.introspect(testing, someone)))._tag, "Unknown")
    }
    simulator.fail({ fault: reply(one({ testing_environment_id: testing.environmentId })) })
    expect(Option.isSome(yield* iam.introspect(testing, someone))).toBe(true)
  })
})

describe("concurrent introspections of one token", () => {
  const held = Effect.gen(function* () {
    const made = yield* iamWorld()
    const { asked, iam, login, simulator } = made
    const grant = yield* login()
    yield* iam.introspect(production, grant.accessToken)
    const slow = Effect.gen(function* () {
      const before = asked(path).length
      simulator.fail({ path: `/api/v1${path}`, fault: { kind: "delay", milliseconds: 400 } })
      const fiber = yield* Effect.fork(iam.introspect(production, grant.accessToken))
      yield* until(() => asked(path).length === before + 1)
      return fiber
    })
    return { ...made, grant, slow, introspections: () => asked(path).length }
  })

  it.scoped(
    "share one call; a caller that disconnects does not stop it, and the next caller calls again",
    function* () {
      const { grant, iam, introspections, slow } = yield* held
      const first = yield* slow
      const introspection = iam.introspect(production, grant.accessToken)
      const others = yield* Effect.fork(Effect.all([introspection, introspection], { concurrency: 2 }))
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(first)
      expect((yield* Fiber.join(others)).every(Option.isSome)).toBe(true)
      assert.strictEqual(introspections(), 2)
      yield* introspection
      assert.strictEqual(introspections(), 3)
    }
  )

  const refused = faults.status(400, { error: { code: "invalid_grant", message: "no" } })
  const lost = { kind: "drop-after" } as const
  /** What ends meanwhile by which call, what IAM does with it, and whether the next caller calls again. */
  const ends: ReadonlyArray<
    readonly ["revoke" | "refresh", "access" | "refresh" | "other" | "stranger", Fault | undefined, boolean]
  > = [
    ["revoke", "access", undefined, true],
    ["revoke", "refresh", undefined, true],
    ["revoke", "refresh", lost, true],
    ["refresh", "refresh", lost, true],
    ["refresh", "refresh", refused, true],
    ["refresh", "refresh", undefined, false],
    ["refresh", "refresh", iamFaults.rateLimited(5), false],
    ["refresh", "stranger", undefined, false],
    ["revoke", "other", undefined, false]
  ]
  it.scoped.each(ends)(
    "a %s of its %s token (%j) lets the next caller call again: %s",
    function* ([act, which, fault, anew]) {
      const { grant, iam, introspections, login, simulator, slow } = yield* held
      const other = yield* login("c:ana")
      const running = yield* slow
      const tokens = {
        access: grant.accessToken,
        refresh: grant.refreshToken,
        other: other.refreshToken,
        stranger: Redacted.make(`ort_${"e".repeat(43)}`)
      }
      if (fault !== undefined) simulator.fail({ path: /revoke|tokens/, fault })
      const call: Effect.Effect<unknown, UpstreamFailure> =
        act === "revoke"
          ? iam.revoke(production, tokens[which], key("end"))
          : iam.refresh(production, tokens[which], key("end"))
      yield* Effect.exit(call)
      yield* iam.introspect(production, grant.accessToken)
      expect(introspections()).toBe(anew ? 3 : 2)
      yield* Fiber.join(running)
    }
  )
})

describe("a token that IAM called inactive", () => {
  it.scoped("is not introspected again for 30 s, in its plane", function* () {
    const { asked, iam, login, testing } = yield* iamWorld()
    const { accessToken } = yield* login()
    yield* iam.introspect(production, accessToken)
    yield* iam.revoke(production, accessToken, key("logout"))
    for (const _ of [1, 2, 3])
      expect(Option.isNone(yield* iam.introspect(production, accessToken))).toBe(true)
    expect(asked(path)).toHaveLength(2)
    yield* iam.introspect(testing, accessToken)
    yield* TestClock.adjust("29999 millis")
    yield* iam.introspect(production, accessToken)
    expect(asked(path)).toHaveLength(3)
    yield* TestClock.adjust("1 millis")
    yield* iam.introspect(production, accessToken)
    expect(asked(path)).toHaveLength(4)
  })

  it.scoped("is introspected at once when IAM issues it again", function* () {
    const { asked, iam, slt, simulator } = yield* iamWorld()
    const one = slt()
    const { accessToken } = yield* iam.exchange(production, one, key("login"))
    yield* iam.introspect(production, accessToken)
    simulator.fail({ path: `/api/v1${path}`, fault: reply({ active: false }) })
    expect(Option.isNone(yield* iam.introspect(production, accessToken))).toBe(true)
    yield* iam.exchange(production, one, key("login"))
    expect(Option.isSome(yield* iam.introspect(production, accessToken))).toBe(true)
    expect(asked(path)).toHaveLength(3)
  })
})

describe("the introspection cache", () => {
  const cached = iamWorld({ introspectionCacheSeconds: 30 })

  it.scoped(
    "answers for its seconds, with the age of the answer, and never past the token's expiry",
    function* () {
      const { asked, iam, login } = yield* cached
      const { accessToken } = yield* login()
      yield* iam.introspect(production, accessToken)
      yield* TestClock.adjust("29 seconds")
      const seen = must(yield* iam.introspect(production, accessToken))
      assert.strictEqual(seen.answeredAt, startTime + 29_000)
      expect(asked(path)).toHaveLength(1)
      yield* TestClock.adjust("1 seconds")
      yield* iam.introspect(production, accessToken)
      expect(asked(path)).toHaveLength(2)
      yield* TestClock.adjust("1765 seconds")
      expect(Option.isSome(yield* iam.introspect(production, accessToken))).toBe(true)
      yield* TestClock.adjust("5 seconds")
      expect(Option.isNone(yield* iam.introspect(production, accessToken))).toBe(true)
    }
  )

  it.scoped("separates planes and tokens, and caches no failure", function* () {
    const { asked, iam, login, simulator, testing } = yield* cached
    const { accessToken } = yield* login()
    yield* iam.introspect(production, accessToken)
    expect(Option.isNone(yield* iam.introspect(testing, accessToken))).toBe(true)
    expect(Option.isNone(yield* iam.introspect(production, someone))).toBe(true)
    expect(asked(path)).toHaveLength(3)
    expect(Option.isSome(yield* iam.introspect(production, accessToken))).toBe(true)
    expect(asked(path)).toHaveLength(3)
    const other = yield* login("c:ana")
    simulator.fail({ fault: iamFaults.internalError() })
    yield* Effect.flip(iam.introspect(production, other.accessToken))
    expect(Option.isSome(yield* iam.introspect(production, other.accessToken))).toBe(true)
  })

  it.scoped("drops tokens of unknown family when any family ends", function* () {
    const { asked, login, simulator } = yield* cached
    const elsewhere = yield* iamOver(simulator.url)
    const { accessToken, refreshToken } = yield* login()
    const { refreshToken: other } = yield* login()
    const here = yield* iamOver(simulator.url, { introspectionCacheSeconds: 30 })
    yield* here.introspect(production, accessToken)
    yield* here.revoke(production, other, key("logout-1"))
    yield* here.introspect(production, accessToken)
    expect(asked(path)).toHaveLength(2)
    yield* here.revoke(production, refreshToken, key("logout-2"))
    expect(Option.isNone(yield* here.introspect(production, accessToken))).toBe(true)
    expect(Option.isNone(yield* elsewhere.introspect(production, accessToken))).toBe(true)
  })
})
