/** One stranger must not use up what IAM gives the whole application. */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import * as TestServices from "effect/TestServices"
import { defaultPolicies } from "../../src/http/middleware/Limits.ts"
import { asks, freshKey, serverOverIam } from "../support/RealIam.ts"
import { type Answer, errorOf } from "./support.ts"

const policies = { ...defaultPolicies, refusals: { name: "refusals", quota: 2, windowSeconds: 60 } }

const strange = (kind: string, at: number) => `${kind}_${String(at).padStart(43, "x")}`
const codeOf = (answer: Answer) => (answer.status < 300 ? answer.status : errorOf(answer).code)
const stranger = "203.0.113.1"
const neighbour = "203.0.113.2"

/** Lets it pass while real sockets are waited for. */
const time = Effect.forever(
  Effect.zipRight(TestClock.adjust("250 millis"), TestServices.provideLive(Effect.sleep("5 millis")))
)

const prepared = Effect.gen(function* () {
  const server = yield* serverOverIam({ policies })
  // The catalogue is fetched beside the first login, and kept.
  const calls = () => server.simulator.seen.filter(({ path }) => !path.includes("/obo-access/")).length
  const login = (address: string, actor = "si:deejay") =>
    Effect.map(server.from(address)(asks.login(Redacted.value(server.slt(actor)))), (answer) => {
      const told: unknown = JSON.parse(answer.text)
      expect(told).toMatchObject({ access_token: expect.any(String) })
      // The line above has looked.
      return told as { readonly access_token: string; readonly refresh_token: string }
    })
  return { ...server, calls, login }
})

describe("Credentials that IAM refuses", () => {
  it.scoped("cost their address tries; without any left nothing reaches IAM, and others go on", () =>
    Effect.gen(function* () {
      const { calls, from, login } = yield* prepared
      const { access_token } = yield* login(neighbour)
      const before = calls()
      const me = (at: number) => from(stranger)(asks.me(strange("oat", at)))
      expect([codeOf(yield* me(1)), codeOf(yield* me(2))]).toEqual(["unauthenticated", "unauthenticated"])
      const held = yield* me(3)
      expect([codeOf(held), held.headers["retry-after"]]).toEqual(["rate_limited", "30"])
      expect(held.headers.ratelimit).toContain(`"refusals";r=0;t=60`)
      expect(held.headers["ratelimit-policy"]).toContain(`"refusals";q=2;w=60`)
      expect(calls()).toBe(before + 2)
      expect((yield* from(neighbour)(asks.me(access_token))).status).toBe(200)
      yield* TestClock.adjust("30 seconds")
      expect([codeOf(yield* me(4)), codeOf(yield* me(5))]).toEqual(["unauthenticated", "rate_limited"])
    })
  )

  it.scoped("may be of any kind, from any address of a /64: two reach IAM", () =>
    Effect.gen(function* () {
      const { calls, from } = yield* prepared
      const kinds = [
        (at: number) => asks.login(`x${at}`),
        (at: number) => asks.refresh(strange("ort", at)),
        (at: number) => asks.logout(strange("oat", at)),
        (at: number) => asks.logout(strange("ort", at)),
        (at: number) => asks.testing(strange("ask", at))
      ]
      for (const [kind, ask] of kinds.entries()) {
        const before = calls()
        const answers = yield* Effect.forEach([1, 2, 3], (at) => from(`2001:db8:1:${kind}::${at}`)(ask(at)))
        expect([kind, ...answers.map(({ status }) => status === 429)]).toEqual([kind, false, false, true])
        expect(calls()).toBe(before + 2)
      }
    })
  )

  it.scoped("many at once pass no more often than one after the other", () =>
    Effect.gen(function* () {
      const { calls, from } = yield* prepared
      const answers = yield* Effect.forEach(
        [1, 2, 3, 4, 5, 6],
        (at) => from(stranger)(asks.me(strange("oat", at))),
        { concurrency: "unbounded" }
      )
      expect(answers.filter(({ status }) => status === 429)).toHaveLength(4)
      expect(calls()).toBe(2)
    })
  )

  it.scoped("leave alone who is known at that address: me, refresh and logout of a session", () =>
    Effect.gen(function* () {
      const { from, login } = yield* prepared
      const session = yield* login(stranger)
      for (const at of [1, 2]) yield* from(stranger)(asks.me(strange("oat", at)))
      expect(codeOf(yield* from(stranger)(asks.me(strange("oat", 3))))).toBe("rate_limited")
      expect((yield* from(stranger)(asks.me(session.access_token))).status).toBe(200)
      expect((yield* from(stranger)(asks.refresh(session.refresh_token))).status).toBe(200)
      expect((yield* from(stranger)(asks.logout(session.refresh_token))).status).toBe(204)
      expect(codeOf(yield* from(stranger)(asks.logout(session.refresh_token)))).toBe("rate_limited")
    })
  )

  it.scoped("cost nothing before they are refused: a login takes no try, an outage neither", () =>
    Effect.gen(function* () {
      const { from, login, simulator } = yield* prepared
      for (const _ of [1, 2, 3]) yield* login(stranger)
      simulator.fail({ times: 9, fault: { kind: "reply", reply: { status: 403, body: "<html>" } } })
      for (const at of [1, 2, 3]) {
        const answer = yield* Effect.fork(from(stranger)(asks.me(strange("oat", at))))
        yield* Effect.raceFirst(Fiber.await(answer), time)
        expect(codeOf(yield* Fiber.join(answer))).toBe("dependency_unavailable")
      }
    })
  )

  it.scoped("cost tries also when IAM vouched for them before", () =>
    Effect.gen(function* () {
      const { from, login, simulator } = yield* prepared
      const sessions = [yield* login(stranger), yield* login(stranger)]
      const dead = { status: 200, body: JSON.stringify({ active: false }) }
      simulator.fail({ path: "/api/v1/oauth/introspect", times: 2, fault: { kind: "reply", reply: dead } })
      for (const { access_token } of sessions)
        expect(codeOf(yield* from(stranger)(asks.me(access_token)))).toBe("unauthenticated")
      expect(codeOf(yield* from(stranger)(asks.me(strange("oat", 1))))).toBe("rate_limited")
    })
  )

  it.scoped("cost nothing while limits are off", () =>
    Effect.gen(function* () {
      const { from } = yield* serverOverIam({ policies }, { rateLimit: false })
      for (const at of [1, 2, 3, 4])
        expect(codeOf(yield* from(stranger)(asks.me(strange("oat", at))))).toBe("unauthenticated")
    })
  )

  it.scoped("of a report store it unverified instead", () =>
    Effect.gen(function* () {
      const { from } = yield* prepared
      for (const at of [1, 2]) yield* from(stranger)(asks.me(strange("oat", at)))
      const { headers } = asks.me(strange("oat", 3))
      const answer = yield* from(stranger)({
        method: "POST",
        path: "/api/v1/reports",
        headers: { ...headers, "content-type": "application/json", "idempotency-key": freshKey() },
        body: JSON.stringify({ message: "Playback stops after a seek." })
      })
      expect(answer.status).toBe(200)
    })
  )
})

describe("A daemon that polls with a dead token", () => {
  it.scoped("costs IAM one call in 30 s", () =>
    Effect.gen(function* () {
      const { calls, from } = yield* prepared
      const me = from(stranger)(asks.me(strange("oat", 1)))
      for (let at = 0; at < 29; at += 1) {
        expect(codeOf(yield* me)).toBe("unauthenticated")
        yield* TestClock.adjust("1 seconds")
      }
      expect(calls()).toBe(1)
      yield* TestClock.adjust("1 seconds")
      expect(codeOf(yield* me)).toBe("unauthenticated")
      expect(calls()).toBe(2)
    })
  )
})
