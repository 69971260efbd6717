import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import * as TestServices from "effect/TestServices"
import { iamFaults } from "../../sandbox/upstreams/Iam.ts"
import type { Seen } from "../../sandbox/upstreams/Simulator.ts"
import { reply } from "../layers/iam/Simulated.ts"
import { asks, serverOverIam } from "../support/RealIam.ts"
import type { SettingsOverrides } from "../support/Settings.ts"
import { type Answer, errorOf, json } from "./support.ts"

const introspect = "/api/v1/oauth/introspect"
const tokens = "/api/v1/app-auth/tokens"

const strange = (kind: string, at: number) => `${kind}_${String(at).padStart(43, "x")}`
const codeOf = (answer: Answer) => (answer.status < 300 ? answer.status : errorOf(answer).code)
const retryAfter = (answer: Answer) => Number(answer.headers["retry-after"])

interface Tokens {
  readonly access_token: string
  readonly refresh_token: string
}

const tokensOf = (answer: Answer): Tokens => {
  expect(json(answer)).toMatchObject({
    access_token: expect.any(String),
    refresh_token: expect.any(String)
  })
  // The assertion above checked the shape.
  return json(answer) as Tokens
}

const stranger = "203.0.113.1"
const neighbour = "203.0.113.2"

/** Advances the test's clock until the effect, which waits for real sockets, ends. */
const advanceClockUntil = <A>(effect: Effect.Effect<A>): Effect.Effect<A> =>
  Effect.raceFirst(
    effect,
    Effect.forever(
      Effect.zipRight(TestClock.adjust("250 millis"), TestServices.provideLive(Effect.sleep("2 millis")))
    )
  )

const prepare = (overrides: SettingsOverrides = {}) =>
  Effect.gen(function* () {
    const server = yield* serverOverIam({}, overrides)
    const { from, simulator, slt } = server
    const seen = (path: string): ReadonlyArray<Seen> =>
      simulator.seen.filter((request) => request.path === path)
    // The catalogue is fetched in parallel with the first login, and cached.
    const calls = () => simulator.seen.filter(({ path }) => !path.includes("/obo-access/")).length
    const login = (address: string, actor = "si:deejay") =>
      Effect.map(from(address)(asks.login(Redacted.value(slt(actor)))), tokensOf)
    const me = (address: string, token: string) => from(address)(asks.me(token))
    const limitedByIam = () => simulator.seen.filter(({ status }) => status === 429).length
    return { ...server, calls, limitedByIam, login, me, seen }
  })

const ting = (token: string, key: string) => ({
  method: "POST",
  path: "/api/v1/tings",
  headers: { ...asks.me(token).headers, "content-type": "application/json" },
  body: JSON.stringify({ type: "music.trigger.fired", key, data: {} })
})

describe("A session that polls `me`", () => {
  it.scoped("has 30 introspections a minute, and does not limit other sessions", function* () {
    const { from, limitedByIam, login, me, seen } = yield* prepare()
    const polling = yield* login(stranger)
    const other = yield* login(neighbour, "si:lyra")
    const before = seen(introspect).length
    const polls: Array<Answer> = []
    for (let at = 0; at < 32; at += 1) polls.push(yield* me(stranger, polling.access_token))
    expect(polls.map(codeOf)).toEqual([...Array(30).fill(200), "rate_limited", "rate_limited"])
    expect(seen(introspect).length - before).toBe(30)
    // The refresh of each session, and a login from another address.
    for (const [address, { refresh_token }] of [
      [stranger, polling],
      [neighbour, other]
    ] as const) {
      expect((yield* from(address)(asks.refresh(refresh_token))).status).toBe(200)
    }
    const third = yield* login("198.51.100.1", "c:ana")
    expect((yield* me("198.51.100.1", third.access_token)).status).toBe(200)
    const limited = yield* me(stranger, polling.access_token)
    yield* TestClock.adjust(`${retryAfter(limited) - 1} seconds`)
    expect(codeOf(yield* me(stranger, polling.access_token))).toBe("rate_limited")
    yield* TestClock.adjust("1 seconds")
    expect((yield* me(stranger, polling.access_token)).status).toBe(200)
    expect(limitedByIam()).toBe(0)
  })
})

describe("A refusal of IAM", () => {
  it.scoped(
    "of a refresh token is repeated without a call, under every key; its address can still log in",
    function* () {
      const { calls, from, login, seen } = yield* prepare()
      const mine = yield* login(stranger)
      yield* from(stranger)(asks.refresh(mine.refresh_token))
      const before = calls()
      const answers: Array<Answer> = []
      for (let at = 0; at < 12; at += 1) {
        answers.push(yield* from(stranger)(asks.refresh(mine.refresh_token)))
        yield* TestClock.adjust("5 seconds")
      }
      expect(answers.map(codeOf)).toEqual(answers.map(() => "unauthenticated"))
      expect(calls() - before).toBe(1)
      expect(seen(tokens)).toHaveLength(3)
      // Another actor at the same address, and the same client.
      for (const actor of ["si:lyra", "si:deejay"]) {
        const { access_token } = yield* login(stranger, actor)
        expect((yield* from(stranger)(asks.me(access_token))).status).toBe(200)
      }
      for (const [seconds, called] of [
        [539, 0],
        [1, 1]
      ] as const) {
        yield* TestClock.adjust(`${seconds} seconds`)
        const again = calls()
        expect(codeOf(yield* from(stranger)(asks.refresh(mine.refresh_token)))).toBe("unauthenticated")
        expect(calls() - again).toBe(called)
      }
    }
  )

  it.scoped("is returned also when the credential's share is used up", function* () {
    const { calls, from, login, me, slt } = yield* prepare({ iam: { callsPerMinute: 10 } })
    const dead = asks.refresh(strange("ort", 1))
    const secret = asks.testing(strange("ask", 1))
    const certain = Effect.all([
      me(stranger, strange("oat", 1)),
      from(stranger)(dead),
      from(stranger)(secret)
    ])
    const verdicts = ["unauthenticated", "unauthenticated", "testing_secret_invalid"]
    expect((yield* certain).map(codeOf)).toEqual(verdicts)
    for (let at = 2; at < 10; at += 1) {
      const address = `198.51.100.${at}`
      yield* me(address, strange("oat", at))
      yield* from(address)(asks.refresh(strange("ort", at)))
      yield* from(address)(asks.testing(strange("ask", at)))
    }
    const others = yield* Effect.all([
      me(stranger, strange("oat", 99)),
      from(stranger)(asks.refresh(strange("ort", 99))),
      from(stranger)(asks.testing(strange("ask", 99)))
    ])
    expect(others.map(codeOf)).toEqual(["rate_limited", "rate_limited", "rate_limited"])
    const before = calls()
    expect((yield* certain).map(codeOf)).toEqual(verdicts)
    expect(calls()).toBe(before)
    // A login has precedence over unknown tokens, except from a network with a refused login.
    yield* login(stranger)
    expect(codeOf(yield* from(neighbour)(asks.login("nonsense")))).toBe("slt_rejected")
    expect(codeOf(yield* from(neighbour)(asks.login(Redacted.value(slt()))))).toBe("rate_limited")
  })
})

describe("An address whose credentials IAM refuses", () => {
  /** Sends unknown tokens until one is rate limited; returns the number of introspections. */
  const countGuesses = (made: Effect.Effect.Success<ReturnType<typeof prepare>>, most: number) =>
    Effect.gen(function* () {
      for (let at = 0; at < most; at += 1)
        if (codeOf(yield* made.me(stranger, strange("oat", 1_000 + at))) === "rate_limited") return at
      return most
    })

  it.scoped(
    "is suspect after six different tokens or secrets: 8 more calls to IAM in a minute",
    function* () {
      const made = yield* prepare()
      const { from, login, me } = made
      made.ting.registerType("production", "music", "music.trigger.fired")
      const session = yield* login(stranger)
      // Different credentials, two of them repeated.
      const sent = [
        ...Array.from({ length: 8 }, () => asks.login("nonsense")),
        ...Array.from({ length: 8 }, () => asks.me(strange("oat", 1))),
        asks.me(strange("oat", 2)),
        asks.refresh(strange("ort", 1)),
        asks.refresh(strange("ort", 2)),
        asks.testing(strange("ask", 1)),
        asks.testing(strange("ask", 2))
      ]
      for (const one of sent) yield* from(stranger)(one)
      expect(yield* countGuesses(made, 8)).toBe(8)
      expect(codeOf(yield* me(stranger, strange("oat", 3)))).toBe("rate_limited")
      // A known token of the same address is still served.
      expect((yield* from(stranger)(ting(session.access_token, "si:deejay/1"))).status).toBe(200)
      expect((yield* me(stranger, session.access_token)).status).toBe(200)
      const fresh = tokensOf(yield* from(stranger)(asks.refresh(session.refresh_token)))
      expect((yield* me(stranger, fresh.access_token)).status).toBe(200)
      expect((yield* from(stranger)(asks.logout(fresh.refresh_token))).status).toBe(204)
      // So is every other address.
      expect(codeOf(yield* me(neighbour, strange("oat", 4)))).toBe("unauthenticated")
      yield* TestClock.adjust("1 minutes")
      expect(codeOf(yield* me(stranger, strange("oat", 5)))).toBe("unauthenticated")
    }
  )

  it.scoped("is not suspect because of one repeated credential", function* () {
    const made = yield* prepare()
    for (let at = 0; at < 8; at += 1) {
      yield* made.from(stranger)(asks.login("nonsense"))
      yield* made.from(stranger)(asks.logout(strange("oat", 1)))
      yield* made.me(stranger, strange("oat", 1))
    }
    expect(yield* countGuesses(made, 12)).toBeGreaterThan(10)
  })

  it.scoped("is not tracked with MUSIC_RATE_LIMIT=off; the budget still holds", function* () {
    const made = yield* prepare({ rateLimit: false, iam: { callsPerMinute: 30 } })
    expect(yield* countGuesses(made, 40)).toBe(15)
    expect(made.seen(introspect)).toHaveLength(15)
    expect((yield* made.login(stranger)).access_token).toMatch(/^oat_/)
  })
})

describe("The budget", () => {
  it.scoped("does not count a call that never reached IAM", function* () {
    const { me } = yield* prepare({ iam: { url: "http://127.0.0.1:1", callsPerMinute: 10 } })
    // Three attempts each: more than the share of newcomers, and more than the whole budget.
    for (let at = 0; at < 4; at += 1) {
      const answer = yield* advanceClockUntil(me(neighbour, strange("oat", at)))
      expect(codeOf(answer)).toBe("dependency_unavailable")
    }
  })
})

describe("While introspection fails and token calls work", () => {
  const broken = { path: introspect, times: Number.POSITIVE_INFINITY, fault: iamFaults.serviceUnavailable() }

  it.scoped(
    "refresh and login answer 503 without spending anything, and the session works eleven minutes later",
    function* () {
      const { from, login, me, seen, simulator, slt } = yield* prepare()
      const session = yield* login(neighbour)
      simulator.fail(broken)
      expect(codeOf(yield* advanceClockUntil(me(stranger, strange("oat", 1))))).toBe("dependency_unavailable")
      const spent = seen(tokens).length
      const answers = [
        yield* advanceClockUntil(from(neighbour)(asks.refresh(session.refresh_token))),
        yield* advanceClockUntil(from(neighbour)(asks.refresh(session.refresh_token))),
        yield* advanceClockUntil(from(neighbour)(asks.login(Redacted.value(slt()))))
      ]
      expect(answers.map(codeOf)).toEqual(answers.map(() => "dependency_unavailable"))
      expect(seen(tokens)).toHaveLength(spent)
      yield* TestClock.adjust("11 minutes")
      simulator.clearFaults()
      expect((yield* from(neighbour)(asks.refresh(session.refresh_token))).status).toBe(200)
      yield* login(neighbour)
    }
  )
})

describe("An upstream that recovers", () => {
  it.scoped("serves the next request, however many failed before", function* () {
    const { from, login, me, simulator, ting: notifier } = yield* prepare()
    notifier.registerType("production", "music", "music.trigger.fired")
    const session = yield* login(neighbour)
    const failing = { times: Number.POSITIVE_INFINITY, fault: { kind: "drop" } } as const
    simulator.fail({ ...failing, path: introspect })
    // Three attempts each: fewer calls in all than the 30 of a credential, however little time passes.
    for (let at = 0; at < 5; at += 1)
      expect(codeOf(yield* advanceClockUntil(me(neighbour, session.access_token)))).toBe(
        "dependency_unavailable"
      )
    simulator.clearFaults()
    expect((yield* me(neighbour, session.access_token)).status).toBe(200)
    notifier.fail(failing)
    const send = (key: string) => from(neighbour)(ting(session.access_token, `si:deejay/${key}`))
    for (let at = 0; at < 5; at += 1)
      expect(codeOf(yield* advanceClockUntil(send(`${at}`)))).toBe("dependency_unavailable")
    notifier.clearFaults()
    expect((yield* send("last")).status).toBe(200)
  })
})

describe("IAM's `unauthenticated` in production", () => {
  it.scoped("is 502, not a verdict on the token: the session stays alive", function* () {
    const { from, login, me, simulator } = yield* prepare()
    const session = yield* login(neighbour)
    const body = { error: { code: "unauthenticated", message: "no" } }
    simulator.fail({ times: 2, fault: reply(body, 401) })
    const refresh = asks.refresh(session.refresh_token)
    expect(codeOf(yield* me(neighbour, session.access_token))).toBe("dependency_misconfigured")
    expect(codeOf(yield* from(neighbour)(refresh))).toBe("dependency_misconfigured")
    expect((yield* me(neighbour, session.access_token)).status).toBe(200)
    expect((yield* from(neighbour)(refresh)).status).toBe(200)
  })
})
