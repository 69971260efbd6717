/** What one client's use of IAM costs others, through the whole service: the contract's 120 calls a minute are never reached. */
import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { iamFaults, production } from "../../sandbox/upstreams/Iam.ts"
import { advanceClockDuring } from "../world/UseCaseLayers.ts"
import { it } from "../world/Test.ts"
import type { Answer } from "../world/Driver.ts"
import { inMemory, json, outcomeOf, requests, type Sent } from "./support.ts"
import { paths, refusal } from "./Upstreams.ts"

const strange = (kind: string, at: number) => `${kind}_${String(at).padStart(43, "x")}`
const retryAfter = (answer: Answer) => Number(answer.headers["retry-after"])

// The assertions of the tests check what is used.
const tokensOf = (answer: Answer) =>
  json(answer) as { readonly access_token: string; readonly refresh_token: string }

const stranger = "203.0.113.1"
const neighbour = "203.0.113.2"

const prepare = Effect.gen(function* () {
  const server = yield* inMemory({ iamLimit: 120, settings: { rateLimit: true } })
  const { upstreams } = server
  const ask = (from: string, sent: Sent) => server.send({ ...sent, from })
  const outcome = (from: string, sent: Sent) => Effect.map(ask(from, sent), outcomeOf)
  const slt = (actor = "si:deejay") => upstreams.iam.controls.mintSlt(production, { appId: "music", actor })
  const login = (from: string, actor?: string) => Effect.map(ask(from, requests.login(slt(actor))), tokensOf)
  /** Sends unknown tokens until one is rate limited; how many were not. */
  const countGuesses = (most: number) =>
    Effect.gen(function* () {
      for (let at = 0; at < most; at += 1)
        if ((yield* outcome(stranger, requests.me(strange("oat", 1_000 + at)))) === "rate_limited") return at
      return most
    })
  return { ...server, ask, countGuesses, login, outcome, slt }
})

describe("The budget of calls to IAM", () => {
  it.scoped("leaves sessions and other addresses their calls when an address guesses", function* () {
    const { ask, countGuesses, login, outcome } = yield* prepare
    const session = yield* login(stranger)
    yield* login(neighbour)
    expect(yield* outcome(neighbour, requests.me(strange("oat", 4)))).toBe("unauthenticated")
    // Half of the 55 are the neighbour's.
    expect(yield* countGuesses(60)).toBe(27)
    for (const from of [stranger, neighbour])
      for (const one of ["ort", "ask"].map((kind) => strange(kind, 1)))
        yield* ask(from, one.startsWith("ort") ? requests.refresh(one) : requests.testing(one))
    // A known token of the same address is still served.
    expect(yield* outcome(stranger, requests.send(session.access_token))).toBe(200)
    const fresh = tokensOf(yield* ask(stranger, requests.refresh(session.refresh_token)))
    expect(yield* outcome(stranger, requests.me(fresh.access_token))).toBe(200)
    expect(yield* outcome(stranger, requests.logout(fresh.refresh_token))).toBe(204)
    // So is every other address.
    expect(yield* outcome(neighbour, requests.me(strange("oat", 5)))).toBe("unauthenticated")
    yield* TestClock.adjust("1 minutes")
    expect(yield* outcome(stranger, requests.me(strange("oat", 6)))).toBe("unauthenticated")
  })

  it.scoped(
    "spends no token while the introspection fails, serves the first request after it, and pauses for IAM's 429",
    function* () {
      const { ask, login, outcome, slt, upstreams } = yield* prepare
      const { access_token, refresh_token } = yield* login(neighbour)
      const me = requests.me(access_token)
      const unavailable = { path: paths.introspect, fault: refusal(503, "service_unavailable") }
      upstreams.fail(unavailable)
      const sent = [
        requests.me(strange("oat", 1)),
        requests.refresh(refresh_token),
        requests.login(slt()),
        me
      ]
      const spent = upstreams.asked(paths.tokens).length
      for (const one of sent)
        expect(yield* advanceClockDuring(outcome(neighbour, one))).toBe("dependency_unavailable")
      expect(upstreams.asked(paths.tokens)).toHaveLength(spent)
      upstreams.clearFaults()
      expect(yield* outcome(neighbour, me)).toBe(200)
      yield* TestClock.adjust("11 minutes")
      expect(yield* outcome(neighbour, requests.refresh(refresh_token))).toBe(200)
      const fault = iamFaults.rateLimited(20)
      if (fault.kind === "reply") upstreams.fail({ path: paths.introspect, times: 1, fault })
      expect(yield* outcome(neighbour, me)).toBe("rate_limited")
      const before = upstreams.asked(paths.introspect).length
      yield* TestClock.adjust("4 seconds")
      expect(retryAfter(yield* ask(neighbour, me))).toBeLessThanOrEqual(16)
      expect(upstreams.asked(paths.introspect)).toHaveLength(before)
      yield* TestClock.adjust("16 seconds")
      expect(yield* outcome(neighbour, me)).toBe(200)
    }
  )
})
