/** The budget for IAM from outside: a real server and IAM client, and a simulated IAM that allows 120 calls a minute and path. */
import { type AddressInfo, connect, createServer, type Socket } from "node:net"
import { assert, describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import * as TestServices from "effect/TestServices"
import { iamFaults } from "../../sandbox/upstreams/Iam.ts"
import type { Seen } from "../../sandbox/upstreams/Simulator.ts"
import { reply, startTime } from "../layers/iam/Simulated.ts"
import { asks, freshKey, serverOverIam } from "../support/RealIam.ts"
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

/** Advances the test's clock until the effect, which waits for real sockets, is done. */
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
    // The catalogue is fetched beside the first login, and kept.
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

const report = (token: string) => ({
  method: "POST",
  path: "/api/v1/reports",
  headers: {
    ...asks.me(token).headers,
    "content-type": "application/json",
    "idempotency-key": freshKey()
  },
  body: JSON.stringify({ message: "Playback stops after a seek." })
})

/** IAM's answer about a live token without a public id. */
const undisclosed = (organisation: string) => ({
  active: true,
  client_id: "music",
  session_id: organisation,
  scope: "self.profile.read",
  audience: "music",
  issued_at: startTime / 1_000,
  expires_at: startTime / 1_000 + 1_800,
  authorization_epoch: 1,
  authorizations: [
    {
      organization_id: organisation,
      org_id: "acme",
      membership_id: "si:deejay[acme]",
      membership_version: 1,
      authorization_epoch: 1,
      audience: "music",
      testing_environment_id: null,
      scopes: ["self.profile.read"]
    }
  ]
})

/** A TCP proxy to IAM that a test can close; connections are then refused. */
const makeGate = Effect.acquireRelease(
  Effect.promise(async () => {
    const gate = { target: 0 }
    const sockets = new Set<Socket>()
    const server = createServer((inward) => {
      const outward = connect(gate.target, "127.0.0.1")
      for (const [one, other] of [
        [inward, outward],
        [outward, inward]
      ] as const) {
        sockets.add(one)
        one.pipe(other)
        one.on("error", () => other.destroy())
        one.on("close", () => {
          sockets.delete(one)
          other.destroy()
        })
      }
    })
    const listen = (port: number) =>
      new Promise<void>((resolve) => server.listen(port, "127.0.0.1", () => resolve()))
    await listen(0)
    // The address of a TCP server is never a pipe's name.
    const { port } = server.address() as AddressInfo
    const close = Effect.promise(
      () =>
        new Promise<void>((resolve) => {
          server.close(() => resolve())
          for (const socket of sockets) socket.destroy()
        })
    )
    return { gate, url: `http://127.0.0.1:${port}`, close, open: Effect.promise(() => listen(port)) }
  }),
  ({ close }) => close
)

describe("One caller that calls too often leaves IAM to the others", () => {
  it.scoped(
    "a session that polls `me` once a second on average: 30 introspections a minute reach IAM, and other callers are served",
    () =>
      Effect.gen(function* () {
        const { from, limitedByIam, login, me, seen } = yield* prepare()
        const polling = yield* login(stranger)
        let other = yield* login(neighbour, "si:lyra")
        const before = seen(introspect).length
        const polls: Array<Answer> = []
        let others = 0
        for (let round = 0; round < 10; round += 1) {
          for (let poll = 0; poll < 5; poll += 1) polls.push(yield* me(stranger, polling.access_token))
          if (round % 2 === 1) {
            other = tokensOf(yield* from(neighbour)(asks.refresh(other.refresh_token)))
            const third = yield* login(`198.51.100.${round}`, "c:ana")
            expect((yield* me(`198.51.100.${round}`, third.access_token)).status).toBe(200)
            others += 3
          }
          yield* TestClock.adjust("5 seconds")
        }
        const served = polls.filter(({ status }) => status === 200).length
        assert.isAtMost(served, 30)
        assert.isAtLeast(served, 29)
        assert.strictEqual(seen(introspect).length - before, served + others)
        const held = polls.filter(({ status }) => status !== 200)
        expect(new Set(held.map(codeOf))).toEqual(new Set(["rate_limited"]))
        // Its own refresh is served too.
        expect((yield* from(stranger)(asks.refresh(polling.refresh_token))).status).toBe(200)
        const limited = yield* me(stranger, polling.access_token)
        yield* TestClock.adjust(`${retryAfter(limited) - 1} seconds`)
        expect(codeOf(yield* me(stranger, polling.access_token))).toBe("rate_limited")
        yield* TestClock.adjust("1 seconds")
        expect((yield* me(stranger, polling.access_token)).status).toBe(200)
        expect(limitedByIam()).toBe(0)
      }),
    60_000
  )

  it.scoped(
    "a client that repeats its refresh under its own key: 8 a minute reach IAM, with the same pair",
    () =>
      Effect.gen(function* () {
        const { from, limitedByIam, login, seen } = yield* prepare()
        const mine = yield* login(stranger)
        const other = yield* login(neighbour, "si:lyra")
        const before = seen(tokens).length
        const repeat = from(stranger)(asks.refresh(mine.refresh_token, freshKey()))
        const pairs: Array<Tokens> = []
        for (let at = 0; at < 8; at += 1) {
          pairs.push(tokensOf(yield* repeat))
          yield* TestClock.adjust("1 seconds")
        }
        expect(new Set(pairs.map(({ refresh_token }) => refresh_token)).size).toBe(1)
        const held: Array<Answer> = []
        for (let at = 0; at < 5; at += 1) held.push(yield* repeat)
        expect(held.map(codeOf)).toEqual(held.map(() => "rate_limited"))
        expect(held.map(retryAfter)).toEqual(held.map(() => 52))
        expect(seen(tokens).length - before).toBe(8)
        const fresh = tokensOf(yield* from(neighbour)(asks.refresh(other.refresh_token)))
        expect((yield* from(neighbour)(asks.me(fresh.access_token))).status).toBe(200)
        yield* TestClock.adjust("51 seconds")
        expect(codeOf(yield* repeat)).toBe("rate_limited")
        yield* TestClock.adjust("1 seconds")
        expect(tokensOf(yield* repeat).refresh_token).toBe(pairs[0]?.refresh_token)
        expect(limitedByIam()).toBe(0)
      })
  )

  it.scoped("simultaneous introspections of one token are one call, also for different organisations", () =>
    Effect.gen(function* () {
      const { from, login, seen, simulator } = yield* prepare()
      const { access_token } = yield* login(neighbour, "c:ana")
      const before = seen(introspect).length
      simulator.fail({ path: introspect, fault: { kind: "delay", milliseconds: 150 } })
      const sent = ["acme", "zenith", "acme", "nowhere"].map((organisation) => {
        const { headers, path } = asks.me(access_token)
        return from(neighbour)({ path, headers: { ...headers, "x-org-id": organisation } })
      })
      const answers = yield* Effect.all(sent, { concurrency: "unbounded" })
      expect(answers.map(codeOf)).toEqual([200, 200, 200, "forbidden"])
      expect(seen(introspect).length - before).toBe(1)
    })
  )
})

describe("A verdict of IAM", () => {
  it.scoped("on a refresh token is repeated at once, whatever the key; its address still logs in", () =>
    Effect.gen(function* () {
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
      // A neighbour at the same address, and the client itself.
      for (const actor of ["si:lyra", "si:deejay"]) {
        const { access_token } = yield* login(stranger, actor)
        expect((yield* from(stranger)(asks.me(access_token))).status).toBe(200)
      }
      yield* TestClock.adjust("540 seconds")
      const again = calls()
      expect(codeOf(yield* from(stranger)(asks.refresh(mine.refresh_token)))).toBe("unauthenticated")
      expect(calls() - again).toBe(1)
    })
  )

  it.scoped("on an access token is repeated for 30 s", () =>
    Effect.gen(function* () {
      const { calls, me } = yield* prepare()
      const poll = me(stranger, strange("oat", 1))
      for (const seconds of [1, 14, 14]) {
        expect(codeOf(yield* poll)).toBe("unauthenticated")
        yield* TestClock.adjust(`${seconds} seconds`)
      }
      expect(codeOf(yield* poll)).toBe("unauthenticated")
      expect(calls()).toBe(1)
      yield* TestClock.adjust("1 seconds")
      expect(codeOf(yield* poll)).toBe("unauthenticated")
      expect(calls()).toBe(2)
    })
  )

  it.scoped("is never hidden behind a share that is used up", () =>
    Effect.gen(function* () {
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
      // A login goes before strangers, except where one was refused.
      yield* login(stranger)
      expect(codeOf(yield* from(neighbour)(asks.login("nonsense")))).toBe("slt_rejected")
      expect(codeOf(yield* from(neighbour)(asks.login(Redacted.value(slt()))))).toBe("rate_limited")
    })
  )

  it.scoped("shows at the next call when a session was revoked", () =>
    Effect.gen(function* () {
      const { login, me, world } = yield* prepare()
      const { access_token } = yield* login(neighbour)
      expect((yield* me(neighbour, access_token)).status).toBe(200)
      world.revokeSession("production", "si:deejay")
      expect(codeOf(yield* me(neighbour, access_token))).toBe("unauthenticated")
    })
  )
})

describe("An address whose credentials IAM refuses", () => {
  /** Sends unknown tokens until one is rate limited; the number that IAM was asked about. */
  const countGuesses = (made: Effect.Effect.Success<ReturnType<typeof prepare>>, most: number) =>
    Effect.gen(function* () {
      for (let at = 0; at < most; at += 1)
        if (codeOf(yield* made.me(stranger, strange("oat", 1_000 + at))) === "rate_limited") return at
      return most
    })

  it.scoped("is suspect after six different tokens or secrets: IAM is asked about 8 more in a minute", () =>
    Effect.gen(function* () {
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
    })
  )

  it.scoped("is not suspect because of one repeated credential", () =>
    Effect.gen(function* () {
      const made = yield* prepare()
      for (let at = 0; at < 8; at += 1) {
        yield* made.from(stranger)(asks.login("nonsense"))
        yield* made.from(stranger)(asks.logout(strange("oat", 1)))
        yield* made.me(stranger, strange("oat", 1))
      }
      expect(yield* countGuesses(made, 12)).toBeGreaterThan(10)
    })
  )

  it.scoped("is not tracked with MUSIC_RATE_LIMIT=off; the budget still holds", () =>
    Effect.gen(function* () {
      const made = yield* prepare({ rateLimit: false, iam: { callsPerMinute: 30 } })
      expect(yield* countGuesses(made, 40)).toBe(15)
      expect(made.seen(introspect)).toHaveLength(15)
      expect((yield* made.login(stranger)).access_token).toMatch(/^oat_/)
    })
  )

  it.scoped("has its reports stored, unverified", () =>
    Effect.gen(function* () {
      const made = yield* prepare({ iam: { callsPerMinute: 10 } })
      const { from, login } = made
      const session = yield* login(neighbour)
      expect(json(yield* from(neighbour)(report(session.access_token)))).toMatchObject({
        reporter: "si:deejay"
      })
      expect(yield* countGuesses(made, 10)).toBeLessThan(10)
      const answer = yield* from(stranger)(report(strange("oat", 1)))
      expect([answer.status, json(answer)]).toMatchObject([200, { reporter: null, status: "stored" }])
    })
  )
})

describe("The budget", () => {
  it.scoped("is one for each plane", () =>
    Effect.gen(function* () {
      const { environment, from, limitedByIam, world } = yield* prepare({ iam: { callsPerMinute: 10 } })
      const actors = ["si:deejay", "si:lyra", "c:ana"]
      const second = world.addEnvironment({ orgId: "acme", name: "second" }).environmentId
      world.addOrganization(second, "acme")
      for (const actor of actors) {
        world.addActor(second, actor)
        world.addMembership(second, actor, "acme")
      }
      const { secret } = world.importApp(second, "music")
      world.importApp(second, "ting")
      const countIntrospections = (
        headers: Readonly<Record<string, string>>,
        slt: (actor: string) => string
      ) =>
        Effect.gen(function* () {
          let introspections = 0
          for (const actor of actors) {
            const login = asks.login(slt(actor))
            const { access_token } = tokensOf(
              yield* from(neighbour)({ ...login, headers: { ...login.headers, ...headers } })
            )
            const me = asks.me(access_token)
            for (let at = 0; at < 2; at += 1)
              if ((yield* from(neighbour)({ ...me, headers: { ...me.headers, ...headers } })).status === 200)
                introspections += 1
          }
          return introspections
        })
      const used = [
        yield* countIntrospections({}, (actor) => world.mintSlt("production", { appId: "music", actor }))
      ]
      for (const key of [environment.musicSecret, secret])
        used.push(yield* countIntrospections({ "x-testing-environment-key": key }, (actor) => actor))
      expect(used).toEqual([5, 5, 5])
      expect(limitedByIam()).toBe(0)
    })
  )

  it.scoped("is not used up while IAM is away", () =>
    Effect.gen(function* () {
      const { close, gate, open, url } = yield* makeGate
      const made = yield* prepare({ iam: { url, callsPerMinute: 10 } })
      gate.target = made.simulator.port
      const { access_token } = yield* made.login(neighbour)
      yield* close
      for (let at = 0; at < 6; at += 1) {
        const away = yield* advanceClockUntil(made.me(neighbour, access_token))
        expect(codeOf(away)).toBe("dependency_unavailable")
      }
      yield* open
      expect((yield* made.me(neighbour, access_token)).status).toBe(200)
    })
  )
})

describe("While introspection fails and token calls work", () => {
  const broken = { path: introspect, times: Number.POSITIVE_INFINITY, fault: iamFaults.serviceUnavailable() }

  it.scoped(
    "refresh and login answer 503 with nothing spent, and the session works eleven minutes later",
    () =>
      Effect.gen(function* () {
        const { from, login, me, seen, simulator, slt } = yield* prepare()
        const session = yield* login(neighbour)
        simulator.fail(broken)
        expect(codeOf(yield* advanceClockUntil(me(stranger, strange("oat", 1))))).toBe(
          "dependency_unavailable"
        )
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
      })
  )

  it.scoped("the refresh that met the failure first gets its pair later, under its key", () =>
    Effect.gen(function* () {
      const { from, login, me, seen, simulator } = yield* prepare()
      const session = yield* login(neighbour)
      const other = yield* login(stranger, "si:lyra")
      simulator.fail(broken)
      const spent = seen(tokens).length
      const key = freshKey()
      const first = asks.refresh(session.refresh_token, key)
      for (const sent of [first, asks.refresh(other.refresh_token), first])
        expect(codeOf(yield* advanceClockUntil(from(neighbour)(sent)))).toBe("dependency_unavailable")
      expect(seen(tokens)).toHaveLength(spent + 1)
      yield* TestClock.adjust("9 minutes")
      simulator.clearFaults()
      const { access_token } = tokensOf(yield* from(neighbour)(first))
      expect((yield* me(neighbour, access_token)).status).toBe(200)
      expect((yield* from(stranger)(asks.refresh(other.refresh_token))).status).toBe(200)
    })
  )
})

describe("An answer of IAM that is no verdict", () => {
  it.scoped("inactive, right after a grant: 503, and a retry gets the pair", () =>
    Effect.gen(function* () {
      const { from, login, me, simulator, slt } = yield* prepare()
      const session = yield* login(neighbour)
      for (const sent of [asks.refresh(session.refresh_token), asks.login(Redacted.value(slt()))]) {
        simulator.fail({ path: introspect, times: 3, fault: reply({ active: false }) })
        expect(codeOf(yield* advanceClockUntil(from(neighbour)(sent)))).toBe("dependency_unavailable")
        const { access_token } = tokensOf(yield* from(neighbour)(sent))
        expect((yield* me(neighbour, access_token)).status).toBe(200)
      }
    })
  )

  it.scoped("unauthenticated, in production: 502, and the session stays alive", () =>
    Effect.gen(function* () {
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
  )

  it.scoped("a session without any public id: 403 reconsent_required, for a refresh too", () =>
    Effect.gen(function* () {
      const { from, login, seeded, simulator } = yield* prepare()
      const session = yield* login(neighbour)
      simulator.fail({ path: introspect, fault: reply(undisclosed(seeded.organizations.acme)) })
      expect(codeOf(yield* from(neighbour)(asks.refresh(session.refresh_token)))).toBe("reconsent_required")
    })
  )
})
