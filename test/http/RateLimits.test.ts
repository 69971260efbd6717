import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { RateLimited } from "../../src/schema/Failure.ts"
import { makeQuota } from "../../src/services/Quota.ts"
import { it } from "../world/Test.ts"
import {
  type Backend,
  goodRequests,
  inMemory,
  jsonHeaders,
  type Options,
  outcomeOf,
  requests,
  type Sent,
  withHeaders
} from "./support.ts"

const policies = {
  address: { name: "address", quota: 4, windowSeconds: 60 },
  credential: { name: "credential", quota: 2, windowSeconds: 60 }
}
const limited: Options = { settings: { rateLimit: true }, policies }

const warnings = ({ lines }: Backend) =>
  lines.filter(({ level }) => level === "WARN").map(({ message }) => message)
const summaries = ({ lines }: Backend) =>
  lines.filter(({ message }) => message === "Requests refused by rate limits").map(({ fields }) => fields)

const version: Sent = { path: "/api/v1/version" }
const from = (address: string): Sent => ({ ...version, from: address })

describe("Rate limits", () => {
  it.scoped("let an address use its whole quota at once, and then each use as it is refilled", function* () {
    const server = yield* inMemory(limited)
    const { login } = yield* goodRequests(server)
    for (const remaining of [3, 2, 1, 0]) {
      const { headers, status } = yield* server.send(version)
      expect([status, headers.ratelimit, headers["ratelimit-policy"]]).toEqual([
        200,
        `"address";r=${remaining};t=${(4 - remaining) * 15}`,
        '"address";q=4;w=60'
      ])
    }
    server.reached.length = 0
    const refused = yield* server.send(login)
    expect([outcomeOf(refused), refused.headers["retry-after"], refused.headers.ratelimit]).toEqual([
      "rate_limited",
      "15",
      '"address";r=0;t=60'
    ])
    expect(server.reached).toEqual([])
    yield* TestClock.adjust("14 seconds")
    expect((yield* server.send(login)).headers["retry-after"]).toBe("1")
    yield* TestClock.adjust("1 seconds")
    expect([outcomeOf(yield* server.send(login)), outcomeOf(yield* server.send(login))]).toEqual([
      200,
      "rate_limited"
    ])
    yield* TestClock.adjust("10 minutes")
    expect((yield* server.send(version)).headers.ratelimit).toBe('"address";r=3;t=15')
    // Each process counts for itself.
    expect((yield* (yield* inMemory(limited)).send(version)).headers.ratelimit).toBe('"address";r=3;t=15')
  })

  it.scoped("are 1,200 a minute for an address and 600 for a token", function* () {
    const server = yield* inMemory({ settings: { rateLimit: true } })
    const { me } = yield* goodRequests(server)
    const { headers } = yield* server.send(me)
    expect(headers["ratelimit-policy"]).toBe('"address";q=1200;w=60, "credential";q=600;w=60')
  })

  it.scoped(
    "give each token a quota of its own; what one of the two refuses counts in neither",
    function* () {
      const server = yield* inMemory(limited)
      const { me, send, submit } = yield* goodRequests(server)
      const other = requests.me((yield* server.login("si:lyra")).access_token)
      yield* server.send(me)
      const second = yield* server.send({ ...send, from: "203.0.113.9" })
      expect([second.headers.ratelimit, second.headers["ratelimit-policy"]]).toEqual([
        '"address";r=3;t=15, "credential";r=0;t=60',
        '"address";q=4;w=60, "credential";q=2;w=60'
      ])
      const refused = yield* server.send(me)
      expect([outcomeOf(refused), refused.headers["retry-after"], refused.headers.ratelimit]).toEqual([
        "rate_limited",
        "30",
        '"credential";r=0;t=60'
      ])
      expect(outcomeOf(yield* server.send(withHeaders(me.headers)(submit)))).toBe("rate_limited")
      for (const expected of [200, 200, 200, "rate_limited"])
        expect(outcomeOf(yield* server.send(version))).toBe(expected)
      // The address refuses, and the token keeps its own.
      const full = yield* server.send(other)
      expect([full.headers.ratelimit, full.headers["ratelimit-policy"]]).toEqual([
        '"address";r=0;t=60',
        '"address";q=4;w=60'
      ])
      yield* TestClock.adjust("30 seconds")
      for (const remaining of [1, 0])
        expect((yield* server.send(other)).headers.ratelimit).toContain(`"credential";r=${remaining};`)
      expect(JSON.stringify(server.lines)).not.toContain(me.headers.authorization.slice(7))
    }
  )

  it.scoped("count every call except probes, documents, webhooks and malformed requests", function* () {
    const server = yield* inMemory(limited)
    const good = yield* goodRequests(server)
    const free: ReadonlyArray<Sent> = [
      good.healthz,
      good.readyz,
      good.receive,
      { path: "/openapi.json" },
      { path: "/docs" },
      { path: "/", headers: { accept: "text/html" } },
      { path: "/nope" },
      { method: "OPTIONS", path: version.path },
      { method: "PUT", path: version.path },
      { ...good.login, headers: jsonHeaders },
      { ...good.login, body: "{" },
      { path: good.me.path }
    ]
    for (const sent of [...free, ...free]) {
      const { headers, status } = yield* server.send(sent)
      expect([sent.path, status === 429, headers.ratelimit]).toEqual([sent.path, false, undefined])
    }
    for (const sent of [good.submit, good.accept, good.iam, good.refresh])
      expect([sent.path, (yield* server.send(sent)).headers.ratelimit]).toEqual([
        sent.path,
        expect.any(String)
      ])
    expect(outcomeOf(yield* server.send(good.logout))).toBe("rate_limited")
  })

  it.scoped("distinguish the clients of a trusted proxy, and networks of IPv6", function* () {
    const server = yield* inMemory({
      policies,
      settings: { rateLimit: true, trustedProxies: ["127.0.0.0/8"] }
    })
    const forwarded = (address: string): Sent => withHeaders({ "x-forwarded-for": address })(version)
    for (let at = 0; at < 4; at += 1) yield* server.send(forwarded("203.0.113.1"))
    for (const [address, outcome] of [
      ["203.0.113.1", "rate_limited"],
      ["198.51.100.9, 203.0.113.1", "rate_limited"],
      ["203.0.113.2", 200]
    ] as const)
      expect([address, outcomeOf(yield* server.send(forwarded(address)))]).toEqual([address, outcome])
    for (let at = 0; at < 4; at += 1) yield* server.send(from(`2001:db8:1:2::${at}`))
    expect(outcomeOf(yield* server.send(from("2001:db8:1:2:ffff::1")))).toBe("rate_limited")
    expect(outcomeOf(yield* server.send(from("2001:db8:1:3::1")))).toBe(200)
  })

  it.scoped("are off with MUSIC_RATE_LIMIT=off", function* () {
    const server = yield* inMemory({ policies })
    for (let at = 0; at < 10; at += 1) {
      const { headers, status } = yield* server.send(version)
      expect([status, headers.ratelimit]).toEqual([200, undefined])
    }
  })
})

describe("A quota", () => {
  it("keeps a bounded number of keys, and drops the least recently used one", () => {
    const { take } = makeQuota({ name: "address", quota: 2, windowSeconds: 60 }, 3)
    for (const key of ["a", "a", "b", "c", "a"]) take(key, 0)
    expect(take("a", 0).retryAfterSeconds).toBeGreaterThan(0)
    take("d", 0)
    expect(take("a", 0).retryAfterSeconds).toBeGreaterThan(0)
    expect(take("b", 0).remaining).toBe(1)
  })
})

describe("A proxy on this machine that is not trusted", () => {
  it.scoped("is warned of once, while limits are on", function* () {
    for (const [settings, warned] of [
      [{ rateLimit: true }, 1],
      [{ rateLimit: true, trustedProxies: ["127.0.0.1"] }, 0],
      [{ rateLimit: false }, 0]
    ] as const)
      for (const headers of [{ "x-forwarded-for": "203.0.113.1" }, { forwarded: "for=203.0.113.1" }]) {
        const server = yield* inMemory({ settings })
        yield* server.send(version)
        yield* server.send({ ...version, headers, from: "203.0.113.5" })
        expect(warnings(server)).toEqual([])
        for (let at = 0; at < 3; at += 1) yield* server.send({ ...version, headers })
        const line = server.lines.find(({ level }) => level === "WARN")
        expect([settings, warnings(server).length]).toEqual([settings, warned])
        if (warned === 1) expect(line?.fields.fix).toContain("MUSIC_TRUSTED_PROXIES")
        expect(JSON.stringify(server.lines)).not.toContain("203.0.113.1")
      }
  })
})

describe("The log of refused requests", () => {
  it.scoped("is one line a minute, with counts by quota and route, and no address", function* () {
    const server = yield* inMemory(limited)
    const { me } = yield* goodRequests(server)
    for (let at = 0; at < 3; at += 1) yield* server.send({ ...me, from: "203.0.113.9" })
    for (let at = 0; at < 7; at += 1) yield* server.send(version)
    yield* TestClock.adjust("59 seconds")
    expect(summaries(server)).toEqual([])
    yield* TestClock.adjust("1 seconds")
    expect(summaries(server)).toEqual([
      {
        requests: 4,
        refused: [
          { quota: "credential", method: "GET", route: "/api/v1/auth/me", requests: 1 },
          { quota: "address", method: "GET", route: "/api/v1/version", requests: 3 }
        ]
      }
    ])
    yield* TestClock.adjust("10 minutes")
    expect(summaries(server).length).toBe(1)
    for (let at = 0; at < 5; at += 1) yield* server.send(version)
    yield* TestClock.adjust("1 minutes")
    expect(summaries(server).map(({ requests }) => requests)).toEqual([4, 1])
  })

  it.scoped(
    "counts the quotas of reports and of IAM too, and names the ten addresses with the most where asked",
    function* () {
      const quota = {
        policy: { name: "reports", quota: 10, windowSeconds: 60 },
        remaining: 0,
        resetSeconds: 60,
        retryAfterSeconds: 6
      }
      const server = yield* inMemory({
        policies: { ...policies, address: { name: "address", quota: 1, windowSeconds: 60 } },
        settings: { rateLimit: true, logClientAddress: true },
        during: {
          submit: Effect.fail(new RateLimited({ retryAfterSeconds: 6, quota })),
          me: Effect.fail(new RateLimited({ retryAfterSeconds: 6 }))
        }
      })
      const { me, submit } = yield* goodRequests(server)
      yield* server.send({ ...submit, from: "198.51.100.1" })
      yield* server.send({ ...me, from: "198.51.100.2" })
      // The address with the number n is refused n times.
      for (let at = 1; at <= 12; at += 1)
        for (let sent = 0; sent <= at; sent += 1) yield* server.send(from(`203.0.113.${at}`))
      yield* TestClock.adjust("1 minutes")
      expect(summaries(server)).toEqual([
        {
          requests: 80,
          refused: [
            { quota: "reports", method: "POST", route: "/api/v1/reports", requests: 1 },
            { quota: "iam", method: "GET", route: "/api/v1/auth/me", requests: 1 },
            { quota: "address", method: "GET", route: "/api/v1/version", requests: 78 }
          ],
          addresses: [12, 11, 10, 9, 8, 7, 6, 5, 4, 3].map((at) => ({
            client_address: `203.0.113.${at}`,
            requests: at
          }))
        }
      ])
    }
  )
})
