/** What one client's use of IAM costs others, through the whole service: the contract's 120 calls a minute are never reached. */
import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { iamFaults, production } from "../../sandbox/upstreams/Iam.ts"
import { refreshTokenPattern } from "../../src/schema/Patterns.ts"
import { advanceClockDuring } from "../support/UseCaseLayers.ts"
import type { SettingsOverrides } from "../support/Settings.ts"
import { it } from "../world/Test.ts"
import { type Answer, inMemory, json, outcomeOf, requests, type Sent } from "./support.ts"
import { paths, refusal } from "./Upstreams.ts"

const strange = (kind: string, at: number) => `${kind}_${String(at).padStart(43, "x")}`
const retryAfter = (answer: Answer) => Number(answer.headers["retry-after"])

const tokensOf = (answer: Answer) => {
  expect(json(answer)).toMatchObject({
    access_token: expect.any(String),
    refresh_token: expect.stringMatching(refreshTokenPattern)
  })
  // The assertion above checked the shape.
  return json(answer) as { readonly access_token: string; readonly refresh_token: string }
}

const stranger = "203.0.113.1"
const neighbour = "203.0.113.2"

const prepare = ({ iam, ...settings }: SettingsOverrides = {}) =>
  Effect.gen(function* () {
    const server = yield* inMemory({
      iamLimit: 120,
      settings: { rateLimit: true, ...settings, iam: { ...iam } }
    })
    const { upstreams } = server
    const ask = (from: string, sent: Sent) => server.send({ ...sent, from })
    const outcome = (from: string, sent: Sent) => Effect.map(ask(from, sent), outcomeOf)
    const slt = (actor = "si:deejay") => upstreams.iam.controls.mintSlt(production, { appId: "music", actor })
    const login = (from: string, actor?: string) =>
      Effect.map(ask(from, requests.login(slt(actor))), tokensOf)
    // The catalogue is fetched in parallel with the first login, and cached.
    const calls = () => upstreams.seen.filter(({ path }) => !path.includes("/obo-access/")).length
    return { ...server, ask, calls, login, outcome, slt }
  })

describe("A session that polls `me`", () => {
  it.scoped("has 30 introspections a minute, and does not limit other sessions", function* () {
    const { ask, login, outcome, upstreams } = yield* prepare()
    const polling = yield* login(stranger)
    const other = yield* login(neighbour, "si:lyra")
    const before = upstreams.asked(paths.introspect).length
    const me = requests.me(polling.access_token)
    const polls = yield* Effect.replicateEffect(outcome(stranger, me), 32)
    expect(polls).toEqual([...Array(30).fill(200), "rate_limited", "rate_limited"])
    expect(upstreams.asked(paths.introspect).length - before).toBe(30)
    expect(yield* outcome(stranger, requests.refresh(polling.refresh_token))).toBe(200)
    expect(yield* outcome(neighbour, requests.refresh(other.refresh_token))).toBe(200)
    const third = yield* login("198.51.100.1", "c:ana")
    expect(yield* outcome("198.51.100.1", requests.me(third.access_token))).toBe(200)
    const limited = yield* ask(stranger, me)
    yield* TestClock.adjust(`${retryAfter(limited) - 1} seconds`)
    expect(yield* outcome(stranger, me)).toBe("rate_limited")
    yield* TestClock.adjust("1 seconds")
    expect(yield* outcome(stranger, me)).toBe(200)
    expect(upstreams.seen.filter(({ status }) => status === 429)).toEqual([])
  })
})

describe("A refusal of IAM", () => {
  it.scoped(
    "of a refresh token is repeated without a call, under every key; its address can still log in",
    function* () {
      const { calls, login, outcome } = yield* prepare()
      const { refresh_token } = yield* login(stranger)
      const refresh = Effect.suspend(() => outcome(stranger, requests.refresh(refresh_token)))
      expect(yield* refresh).toBe(200)
      const before = calls()
      for (let at = 0; at < 12; at += 1) {
        expect(yield* refresh).toBe("unauthenticated")
        yield* TestClock.adjust("5 seconds")
      }
      expect(calls() - before).toBe(1)
      // Another actor at the same address, and the same one.
      for (const actor of ["si:lyra", "si:deejay"]) {
        const { access_token } = yield* login(stranger, actor)
        expect(yield* outcome(stranger, requests.me(access_token))).toBe(200)
      }
      for (const [seconds, called] of [
        [539, 0],
        [1, 1]
      ] as const) {
        yield* TestClock.adjust(`${seconds} seconds`)
        const again = calls()
        expect(yield* refresh).toBe("unauthenticated")
        expect(calls() - again).toBe(called)
      }
    }
  )

  it.scoped("is returned also when the credential's share is used up", function* () {
    const { calls, login, outcome, slt } = yield* prepare({ iam: { callsPerMinute: 10 } })
    const strangers = (from: string, at: number) =>
      Effect.all([
        outcome(from, requests.me(strange("oat", at))),
        outcome(from, requests.refresh(strange("ort", at))),
        outcome(from, requests.testing(strange("ask", at)))
      ])
    const verdicts = ["unauthenticated", "unauthenticated", "testing_secret_invalid"]
    expect(yield* strangers(stranger, 1)).toEqual(verdicts)
    for (let at = 2; at < 10; at += 1) yield* strangers(`198.51.100.${at}`, at)
    expect(yield* strangers(stranger, 99)).toEqual(["rate_limited", "rate_limited", "rate_limited"])
    const before = calls()
    expect(yield* strangers(stranger, 1)).toEqual(verdicts)
    expect(calls()).toBe(before)
    // A login has precedence over unknown tokens, except from a network with a refused login.
    yield* login(stranger)
    expect(yield* outcome(neighbour, requests.login("nonsense"))).toBe("slt_rejected")
    expect(yield* outcome(neighbour, requests.login(slt()))).toBe("rate_limited")
  })
})

describe("An address whose credentials IAM refuses", () => {
  /** Sends unknown tokens until one is rate limited; the number of introspections. */
  const countGuesses = (
    { outcome }: Pick<Effect.Effect.Success<ReturnType<typeof prepare>>, "outcome">,
    most: number
  ) =>
    Effect.gen(function* () {
      for (let at = 0; at < most; at += 1)
        if ((yield* outcome(stranger, requests.me(strange("oat", 1_000 + at)))) === "rate_limited") return at
      return most
    })

  it.scoped(
    "is suspect after six different tokens or secrets: 8 more calls to IAM in a minute",
    function* () {
      const made = yield* prepare()
      const { ask, login, outcome } = made
      const session = yield* login(stranger)
      // Different credentials, two of them repeated.
      const sent = [
        ...Array.from({ length: 8 }, () => requests.login("nonsense")),
        ...Array.from({ length: 8 }, () => requests.me(strange("oat", 1))),
        requests.me(strange("oat", 2)),
        requests.refresh(strange("ort", 1)),
        requests.refresh(strange("ort", 2)),
        requests.testing(strange("ask", 1)),
        requests.testing(strange("ask", 2))
      ]
      for (const one of sent) yield* ask(stranger, one)
      expect(yield* countGuesses(made, 8)).toBe(8)
      expect(yield* outcome(stranger, requests.me(strange("oat", 3)))).toBe("rate_limited")
      // A known token of the same address is still served.
      expect(yield* outcome(stranger, requests.send(session.access_token))).toBe(200)
      const fresh = tokensOf(yield* ask(stranger, requests.refresh(session.refresh_token)))
      expect(yield* outcome(stranger, requests.me(fresh.access_token))).toBe(200)
      expect(yield* outcome(stranger, requests.logout(fresh.refresh_token))).toBe(204)
      // So is every other address.
      expect(yield* outcome(neighbour, requests.me(strange("oat", 4)))).toBe("unauthenticated")
      yield* TestClock.adjust("1 minutes")
      expect(yield* outcome(stranger, requests.me(strange("oat", 5)))).toBe("unauthenticated")
    }
  )

  it.scoped("is not suspect because of one repeated credential, nor with MUSIC_RATE_LIMIT=off", function* () {
    const made = yield* prepare()
    for (let at = 0; at < 8; at += 1) {
      yield* made.ask(stranger, requests.login("nonsense"))
      yield* made.ask(stranger, requests.logout(strange("oat", 1)))
      yield* made.ask(stranger, requests.me(strange("oat", 1)))
    }
    expect(yield* countGuesses(made, 12)).toBeGreaterThan(10)
    const off = yield* prepare({ rateLimit: false, iam: { callsPerMinute: 30 } })
    // The budget still holds.
    expect(yield* countGuesses(off, 40)).toBe(15)
    yield* off.login(stranger)
  })
})

describe("While upstreams fail", () => {
  it.scoped("a call that never reached IAM is not counted", function* () {
    const { outcome, upstreams } = yield* prepare({ iam: { callsPerMinute: 10 } })
    upstreams.fail({ fault: { kind: "unsent" } })
    // Three attempts each: more than the share of newcomers, and more than the whole budget.
    for (let at = 0; at < 4; at += 1)
      expect(yield* advanceClockDuring(outcome(neighbour, requests.me(strange("oat", at))))).toBe(
        "dependency_unavailable"
      )
  })

  it.scoped(
    "a failing introspection makes refresh and login spend nothing, and the session works later",
    function* () {
      const { login, outcome, slt, upstreams } = yield* prepare()
      const session = yield* login(neighbour)
      upstreams.fail({ path: paths.introspect, fault: refusal(503, "service_unavailable") })
      const failing = (from: string, sent: Sent) => advanceClockDuring(outcome(from, sent))
      const answers = [yield* failing(stranger, requests.me(strange("oat", 1)))]
      const spent = upstreams.asked(paths.tokens).length
      for (let at = 0; at < 2; at += 1)
        answers.push(yield* failing(neighbour, requests.refresh(session.refresh_token)))
      answers.push(yield* failing(neighbour, requests.login(slt())))
      expect(answers).toEqual(answers.map(() => "dependency_unavailable"))
      expect(upstreams.asked(paths.tokens)).toHaveLength(spent)
      yield* TestClock.adjust("11 minutes")
      upstreams.clearFaults()
      expect(yield* outcome(neighbour, requests.refresh(session.refresh_token))).toBe(200)
      yield* login(neighbour)
    }
  )

  it.scoped("an upstream that recovers serves the next request, however many failed before", function* () {
    const { login, outcome, upstreams } = yield* prepare()
    const { access_token } = yield* login(neighbour)
    for (const [path, ask] of [
      [paths.introspect, () => requests.me(access_token)],
      ["/v1/tings", (at: number) => requests.send(access_token, `si:deejay/${at}`)]
    ] as const) {
      upstreams.fail({ path, fault: { kind: "drop" } })
      // Three attempts each: fewer calls in all than the 30 of a credential, however little time passes.
      for (let at = 0; at < 5; at += 1)
        expect(yield* advanceClockDuring(outcome(neighbour, ask(at)))).toBe("dependency_unavailable")
      upstreams.clearFaults()
      expect(yield* outcome(neighbour, ask(9))).toBe(200)
    }
  })

  it.scoped("IAM's `unauthenticated` in production is 502, and the session stays alive", function* () {
    const { login, outcome, upstreams } = yield* prepare()
    const { access_token, refresh_token } = yield* login(neighbour)
    upstreams.fail({ times: 2, fault: refusal(401, "unauthenticated") })
    const refresh = requests.refresh(refresh_token)
    for (const expected of ["dependency_misconfigured", 200]) {
      expect(yield* outcome(neighbour, requests.me(access_token))).toBe(expected)
      expect(yield* outcome(neighbour, refresh)).toBe(expected)
    }
  })

  it.scoped("IAM's 429 is a pause of its seconds", function* () {
    const { ask, login, outcome, upstreams } = yield* prepare()
    const { access_token } = yield* login(neighbour)
    const fault = iamFaults.rateLimited(20)
    if (fault.kind === "reply") upstreams.fail({ path: paths.introspect, times: 1, fault })
    const me = requests.me(access_token)
    expect(yield* outcome(neighbour, me)).toBe("rate_limited")
    const before = upstreams.asked(paths.introspect).length
    yield* TestClock.adjust("4 seconds")
    expect(retryAfter(yield* ask(neighbour, me))).toBeLessThanOrEqual(16)
    expect(upstreams.asked(paths.introspect)).toHaveLength(before)
    yield* TestClock.adjust("16 seconds")
    expect(yield* outcome(neighbour, me)).toBe(200)
  })
})
