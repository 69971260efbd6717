import { assert, describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import { Effect, Fiber, Option, Redacted, TestClock } from "effect"
import { iamFaults } from "../../../sandbox/upstreams/Iam.ts"
import { requestedScopes } from "../../../src/schema/Identity.ts"
import { monotonicMillis } from "../../../src/services/MonotonicTime.ts"
import type { UpstreamFailure } from "../../../src/services/UpstreamFailure.ts"
import {
  form,
  inRequest,
  iamOver,
  iamWorld,
  key,
  liveAnswer,
  production,
  reply,
  startTime
} from "./Simulated.ts"
import { type Fault, faults } from "../../../sandbox/upstreams/Simulator.ts"
import { until } from "../../world/Waiting.ts"

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

const live = (changes: object = {}) =>
  liveAnswer(startTime / 1000, { public_id: "c:ana", actor_type: "carbon", ...changes })

const general = (changes: object = {}) => live({ authorizations: [snapshot("acme")], ...changes })

const one = (changes: object) => general({ authorizations: [snapshot("acme", changes)] })

const stranger = (at: number) => Redacted.make(`ort_${String(at).padStart(43, "e")}`)
const lost = { kind: "drop-after" } as const
const tagOf = <A>(effect: Effect.Effect<Option.Option<A>, UpstreamFailure>) =>
  Effect.match(effect, { onFailure: ({ _tag }) => _tag, onSuccess: ({ _tag }) => _tag })
const must = <A>(option: Option.Option<A>) => Option.getOrThrow(option)

describe("introspect", () => {
  it.scoped("returns every organisation of a live token", function* () {
    const { asked, iam, login, seeded } = yield* iamWorld()
    const { accessToken } = yield* login("c:ana")
    yield* TestClock.adjust("10 seconds")
    const seen = must(yield* iam.introspect(production, accessToken))
    const membership = (org_id: "acme" | "zenith") => ({
      org_id,
      organization_id: seeded.organizations[org_id],
      membership_id: `c:ana[${org_id}]`,
      scopes: requestedScopes,
      public_id: "c:ana"
    })
    expect(seen).toMatchObject({
      public_id: "c:ana",
      session_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      expires_at: startTime / 1000 + 1800,
      answeredAt: startTime + 10_000,
      memberships: [membership("acme"), membership("zenith")]
    })
    const request = asked(path)[0]
    assert.isUndefined(request?.headers.get("x-org-id"))
    assert.strictEqual(form(request).token, Redacted.value(accessToken))
  })

  it.scoped("accepts any number of authorizations, sorted by handle, and no `Date`", function* () {
    const { iam, simulator } = yield* iamWorld()
    const both = [snapshot("zenith"), snapshot("acme")]
    for (const [body, organisations] of [
      [general({ authorizations: [] }), []],
      [general({ authorizations: both, later: 1 }), ["acme", "zenith"]],
      [general({ public_id: undefined, actor_type: null }), ["acme"]],
      [one({ actor_type: null, public_id: null }), ["acme undisclosed"]]
    ] as const) {
      simulator.fail({
        fault: { kind: "reply", reply: { status: 200, body, headers: { date: "long ago" } } }
      })
      const seen = must(yield* iam.introspect(production, someone))
      const found = seen.memberships.map(
        ({ org_id, public_id }) => `${org_id}${public_id === null ? " undisclosed" : ""}`
      )
      expect(found).toEqual(organisations)
      expect(seen.answeredAt).toBe(startTime)
    }
  })
})

describe("an answer has an unknown outcome when", () => {
  /** Members of the answer, and of its only snapshot, that are wrong. */
  const members = `{"active":null} {"audience":"ting"} {"client_id":"ting"} {"public_id":"app:music"}
    {"actor_type":"application"} {"actor_type":"silicon"} {"expires_at":"soon"}`
  const ofSnapshot = `{"audience":"ting"} {"testing_environment_id":"${uuid(9)}"} {"membership_id":"c:bob[acme]"}
    {"public_id":"c:bob","membership_id":"c:bob[acme]"} {"membership_id":"c:ana[zenith]"} {"membership_id":"${uuid(3)}"}
    {"actor_type":null,"public_id":null,"membership_id":"c:bob[acme]"} {"public_id":null} {"actor_type":"silicon"}
    {"org_id":"ACME","membership_id":"c:ana[ACME]"} {"scopes":null}`
  const changes = (rows: string): ReadonlyArray<object> => rows.split(/\s+/).map((row) => JSON.parse(row))
  const wrong = [
    ...changes(members).map(general),
    ...changes(ofSnapshot).map(one),
    one({ testing_environment_id: undefined }),
    // No list of authorizations, and an organisation twice.
    live(),
    general({ authorizations: [snapshot("acme"), snapshot("acme")] })
  ]
  it.scoped("it breaks the contract", function* () {
    const { iam, simulator } = yield* iamWorld()
    for (const body of wrong) {
      simulator.fail({ fault: reply(body) })
      const failure = yield* Effect.flip(iam.introspect(production, someone))
      assert.include(failure, { _tag: "Unknown", dependency: "iam" }, JSON.stringify(body))
    }
  })

  it.scoped("a testing plane was asked and production, or another plane, answers", function* () {
    const { iam, simulator, testing } = yield* iamWorld()
    for (const [id, tag] of [
      [null, "Unknown"],
      [uuid(9), "Unknown"],
      [testing.environmentId, "Some"]
    ] as const) {
      simulator.fail({ fault: reply(one({ testing_environment_id: id })) })
      expect(yield* tagOf(iam.introspect(testing, someone))).toBe(tag)
    }
  })
})

const inactive = { path: `/api/v1${path}`, fault: reply({ active: false }) }

it.scoped("An introspection that began before the end of its login is not shared", function* () {
  const { asked, iam, login, simulator } = yield* iamWorld()
  const { accessToken, refreshToken } = yield* login()
  const introspection = tagOf(iam.introspect(production, accessToken))
  yield* introspection
  // An unknown token may be one of the login, too.
  for (const [token, calls, found] of [
    [stranger(0), 2, "Some"],
    [refreshToken, 4, "None"]
  ] as const) {
    simulator.fail({ path: `/api/v1${path}`, fault: { kind: "delay", milliseconds: 400 } })
    yield* Effect.fork(introspection)
    yield* until(() => asked(path).length === calls)
    yield* iam.revoke(production, token, key(`logout-${calls}`))
    expect([yield* introspection, asked(path).length]).toEqual([found, calls + 1])
  }
})

it.scoped("a token that IAM called inactive is introspected at once when IAM issues it again", function* () {
  const { asked, iam, slt, simulator } = yield* iamWorld()
  const login = iam.exchange(production, slt(), key("login"))
  const { accessToken } = yield* login
  const ask = tagOf(iam.introspect(production, accessToken))
  yield* ask
  simulator.fail(inactive)
  expect(yield* ask).toBe("None")
  yield* login
  expect([yield* ask, asked(path).length]).toEqual(["Some", 3])
})

describe("the introspection cache", () => {
  const cached = iamWorld({ introspectionCacheSeconds: 30 })

  it.scoped("answers for its seconds, and never past the token's expiry", function* () {
    const { asked, iam, login } = yield* cached
    const { accessToken } = yield* login()
    const ask = iam.introspect(production, accessToken)
    yield* ask
    yield* TestClock.adjust("29 seconds")
    expect([must(yield* ask).answeredAt, asked(path).length]).toEqual([startTime, 1])
    for (const [seconds, tag, calls] of [
      [1, "Some", 2],
      [1_765, "Some", 3],
      [5, "None", 4]
    ] as const) {
      yield* TestClock.adjust(`${seconds} seconds`)
      expect([yield* tagOf(ask), asked(path).length]).toEqual([tag, calls])
    }
  })

  it.scoped("drops the tokens of its plane at a verified webhook, and no others", function* () {
    const { asked, environment, iam, login, world } = yield* cached
    const ask = iam.introspect(production, (yield* login()).accessToken)
    const receive = (plane: string) => {
      const { body, headers } = world.buildWebhook(
        plane,
        world.events.membershipUpdated(plane, "si:deejay", "acme")
      )
      const rawHeaders = Object.entries(headers).flat()
      return iam.verifyWebhook({ rawHeaders, body })
    }
    yield* ask
    for (const [plane, calls] of [
      [environment.environmentId, 1],
      ["production", 2]
    ] as const) {
      yield* receive(plane)
      yield* ask
      expect(asked(path)).toHaveLength(calls)
    }
  })

  const refused = faults.status(400, { error: { code: "invalid_grant", message: "no" } })
  /** What ends by which call, what IAM does with that call, what the token is afterwards, and by how many introspections. */
  const ends: ReadonlyArray<readonly ["revoke" | "refresh", string, Fault | undefined, string]> = [
    ["revoke", "access", undefined, "None 0"],
    ["revoke", "refresh", undefined, "None 1"],
    ["revoke", "refresh", lost, "None 1"],
    ["refresh", "refresh", undefined, "Some 1"],
    ["refresh", "refresh", lost, "Some 1"],
    ["refresh", "refresh", refused, "Some 1"],
    ["refresh", "refresh", iamFaults.rateLimited(5), "Some 0"],
    ["refresh", "stranger", undefined, "Some 0"],
    ["revoke", "stranger", undefined, "Some 0"],
    ["revoke", "other", undefined, "Some 0"]
  ]
  it.scoped("drops what a refresh or logout may have ended", function* () {
    const { asked, iam, login, simulator } = yield* cached
    for (const [at, [act, which, fault, found]] of ends.entries()) {
      const { accessToken: access, refreshToken: refresh } = yield* login()
      const { refreshToken: other } = yield* login("c:ana")
      const ask = tagOf(iam.introspect(production, access))
      yield* ask
      const before = asked(path).length
      const token = Reflect.get({ access, refresh, other, stranger: stranger(at) }, which)
      if (fault !== undefined) simulator.fail({ path: /revoke|tokens/, fault })
      yield* Effect.exit<unknown, UpstreamFailure, never>(iam[act](production, token, key(`end-${at}`)))
      expect([act, which, `${yield* ask} ${asked(path).length - before}`]).toEqual([act, which, found])
      yield* TestClock.adjust("60 seconds")
    }
  })

  it.scoped("drops a token that it did not hand out at the end of any login", function* () {
    const { asked, login, simulator } = yield* cached
    const { accessToken, refreshToken } = yield* login()
    const elsewhere = yield* iamOver(simulator.url, { introspectionCacheSeconds: 30 })
    for (const [token, found] of [
      [stranger(0), "Some2"],
      [refreshToken, "None3"]
    ] as const) {
      const ask = tagOf(elsewhere.introspect(production, accessToken))
      yield* ask
      yield* elsewhere.revoke(production, token, key(`logout-${found}`))
      expect(`${yield* ask}${asked(path).length}`).toBe(found)
    }
  })
})

const tokens = "/app-auth/tokens"
const failing = { path: `/api/v1${path}`, fault: iamFaults.serviceUnavailable() }

describe("while the last introspection of a plane failed", () => {
  it.scoped.each(["login", "refresh"] as const)(
    "nothing is spent by a %s, but one a second, after a probe that succeeds",
    function* (use) {
      const { asked, iam, login, simulator, slt } = yield* iamWorld()
      const { refreshToken } = yield* login()
      const token = slt()
      const spend = (name: string) =>
        use === "refresh"
          ? iam.refresh(production, refreshToken, key(name))
          : iam.exchange(production, token, key(name))
      simulator.fail({ ...failing, times: 2 })
      yield* Effect.flip(iam.introspect(production, someone))
      expect((yield* Effect.flip(spend("one")))._tag).toBe("Unknown")
      assert.include(yield* Effect.flip(spend("two")), { _tag: "NotExecuted", retryAfterSeconds: 1 })
      expect([asked(tokens).length, asked(path).length]).toEqual([1, 2])
      yield* TestClock.adjust("1 seconds")
      // Under a third key: if an earlier call had spent the token, this one would be refused.
      const grant = yield* spend("three")
      expect([asked(tokens).length, asked(path).length]).toEqual([2, 3])
      const spent = [Redacted.value(token), Redacted.value(refreshToken)]
      expect(asked(path).filter((request) => spent.includes(form(request).token ?? ""))).toEqual([])
      yield* iam.refresh(production, grant.refreshToken, key("four"))
      expect(asked(path)).toHaveLength(3)
    }
  )

  it.scoped("a refusal of the probe is none of the token that was presented", function* () {
    const { asked, iam, login, simulator } = yield* iamWorld()
    const { refreshToken } = yield* login()
    const fault = faults.status(400, { error: { code: "invalid_token", message: "no" } })
    simulator.fail({ ...failing, fault, times: 2 })
    yield* Effect.flip(iam.introspect(production, someone))
    const refresh = iam.refresh(production, refreshToken, key("refresh"))
    assert.include(yield* Effect.flip(refresh), { _tag: "NotExecuted" })
    expect(asked(tokens)).toHaveLength(1)
    yield* TestClock.adjust("1 seconds")
    yield* refresh
  })

  it.scoped("which it did not by the deadline of its own request", function* () {
    const { asked, iam, login, simulator } = yield* iamWorld()
    const { refreshToken } = yield* login()
    simulator.fail({ path: `/api/v1${path}`, fault: { kind: "delay", milliseconds: 60_000 } })
    const deadline = (yield* monotonicMillis) + 500
    const late = Effect.flip(iam.introspect(production, someone))
    const cut = yield* Effect.fork(inRequest(true, "", deadline)(late))
    yield* until(() => asked(path).length === 1)
    yield* TestClock.adjust("500 millis")
    assert.include(yield* Fiber.join(cut), { _tag: "Unknown" })
    yield* iam.refresh(production, refreshToken, key("refresh"))
    expect(asked(path)).toHaveLength(1)
  })
})

describe("an inactive answer for a token that IAM has just issued", () => {
  it.scoped("has an unknown outcome for a minute after IAM replayed the pair", function* () {
    const { iam, simulator, slt } = yield* iamWorld()
    const one = slt()
    const { refreshToken } = yield* iam.exchange(production, one, key("login"))
    yield* iam.refresh(production, refreshToken, key("refresh"))
    for (const ask of [
      (over: typeof iam) => over.exchange(production, one, key("login")),
      (over: typeof iam) => over.refresh(production, refreshToken, key("refresh"))
    ]) {
      const elsewhere = yield* iamOver(simulator.url)
      // A replay does not prolong the minute, nor begin another one after the verdict.
      for (const [seconds, outcome] of [
        [0, "Unknown"],
        [59, "Unknown"],
        [1, "None"],
        [40, "None"]
      ] as const) {
        yield* TestClock.adjust(`${seconds} seconds`)
        const { accessToken } = yield* ask(elsewhere)
        simulator.fail(inactive)
        expect(yield* tagOf(elsewhere.introspect(production, accessToken))).toBe(outcome)
      }
    }
  })

  it.scoped("is accepted a minute later, after a live answer, and after a logout", function* () {
    const { iam, login, simulator, slt } = yield* iamWorld()
    const ask = (token: Redacted.Redacted) => {
      simulator.fail(inactive)
      return tagOf(iam.introspect(production, token))
    }
    const early = yield* login()
    expect(yield* ask(early.accessToken)).toBe("Unknown")
    const seen = yield* login()
    yield* iam.introspect(production, seen.accessToken)
    expect(yield* ask(seen.accessToken)).toBe("None")
    yield* TestClock.adjust("60 seconds")
    expect(yield* ask(early.accessToken)).toBe("None")
    const one = slt()
    yield* iam.exchange(production, one, key("login"))
    const elsewhere = yield* iamOver(simulator.url)
    const { refreshToken } = yield* iam.exchange(production, one, key("login"))
    yield* elsewhere.revoke(production, refreshToken, key("logout-elsewhere"))
    const replayed = yield* elsewhere.exchange(production, one, key("login"))
    expect(yield* tagOf(elsewhere.introspect(production, replayed.accessToken))).toBe("None")
  })
})
