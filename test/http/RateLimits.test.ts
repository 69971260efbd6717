import type { IncomingMessage } from "node:http"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { clientAddressResolver, toNetwork } from "../../src/http/transport/ClientAddress.ts"
import { defaultPolicies } from "../../src/http/middleware/RateLimits.ts"
import { RateLimited } from "../../src/schema/Failure.ts"
import { makeQuota } from "../../src/services/Quota.ts"
import { accessToken, type Backend, backend, bearer, call, errorOf, good, type Sent } from "./support.ts"

const policies = {
  address: { name: "address", quota: 4, windowSeconds: 60 },
  credential: { name: "credential", quota: 2, windowSeconds: 60 }
}
const settings = { rateLimit: true }

const warnings = ({ lines }: Backend) =>
  lines.filter(({ level }) => level === "WARN").map(({ message }) => message)

const summaries = ({ lines }: Backend) =>
  lines.filter(({ message }) => message === "Requests refused by rate limits")

describe("The log of refused requests", () => {
  it.scoped("is one line a minute, with counts by quota and route, and no address", function* () {
    const server = yield* backend({ settings, policies })
    yield* call(server, good.me)
    for (let at = 0; at < 2; at += 1) yield* call(server, good.version)
    yield* call(server, good.me)
    for (let at = 0; at < 3; at += 1) yield* call(server, good.version)
    yield* call(server, good.me)
    yield* TestClock.adjust("59 seconds")
    expect(summaries(server)).toEqual([])
    yield* TestClock.adjust("1 seconds")
    expect(summaries(server).map(({ fields, level }) => ({ level, ...fields }))).toEqual([
      {
        level: "INFO",
        requests: 4,
        refused: [
          { quota: "address", method: "GET", route: "/api/v1/version", requests: 3 },
          { quota: "credential", method: "GET", route: "/api/v1/auth/me", requests: 1 }
        ]
      }
    ])
    yield* TestClock.adjust("10 minutes")
    expect(summaries(server).length).toBe(1)
    for (let at = 0; at < 5; at += 1) yield* call(server, good.version)
    yield* TestClock.adjust("1 minutes")
    expect(summaries(server).map(({ fields }) => fields.requests)).toEqual([4, 1])
  })

  it.scoped(
    "counts the quotas of reports and of IAM too, and names addresses where the operator asks for them",
    function* () {
      const quota = {
        policy: { name: "reports", quota: 10, windowSeconds: 60 },
        remaining: 0,
        resetSeconds: 60,
        retryAfterSeconds: 6
      }
      const server = yield* backend({
        settings: { ...settings, logClientAddress: true },
        during: {
          submit: Effect.fail(new RateLimited({ retryAfterSeconds: 6, quota })),
          me: Effect.fail(new RateLimited({ retryAfterSeconds: 6 }))
        }
      })
      yield* call(server, good.submit)
      yield* call(server, good.me)
      yield* TestClock.adjust("1 minutes")
      expect(summaries(server).map(({ fields }) => fields)).toEqual([
        {
          requests: 2,
          refused: [
            { quota: "reports", method: "POST", route: "/api/v1/reports", requests: 1 },
            { quota: "iam", method: "GET", route: "/api/v1/auth/me", requests: 1 }
          ],
          addresses: [{ client_address: "127.0.0.1", requests: 2 }]
        }
      ])
    }
  )
})

describe("The addresses in the log of refused requests", () => {
  it.scoped("are the ten with the most", function* () {
    const server = yield* backend({
      settings: { rateLimit: true, trustedProxies: ["127.0.0.1"], logClientAddress: true },
      policies: { ...policies, address: { name: "address", quota: 1, windowSeconds: 60 } }
    })
    const addressOf = (at: number) => `203.0.113.${at}`
    // The address with the number n is refused n times.
    for (let at = 1; at <= 12; at += 1)
      for (let sent = 0; sent <= at; sent += 1)
        yield* call(server, { ...good.version, headers: { "x-forwarded-for": addressOf(at) } })
    yield* TestClock.adjust("1 minutes")
    expect(summaries(server).map(({ fields }) => fields.addresses)).toEqual([
      [12, 11, 10, 9, 8, 7, 6, 5, 4, 3].map((at) => ({ client_address: addressOf(at), requests: at }))
    ])
  })
})

describe("Rate limits", () => {
  it.scoped("let an address use its whole quota at once, and then each use as it is refilled", function* () {
    const server = yield* backend({ settings, policies })
    for (const remaining of [3, 2, 1, 0]) {
      const answer = yield* call(server, good.version)
      expect([answer.status, answer.headers.ratelimit]).toEqual([
        200,
        `"address";r=${remaining};t=${(4 - remaining) * 15}`
      ])
      expect(answer.headers["ratelimit-policy"]).toBe('"address";q=4;w=60')
    }
    const refused = yield* call(server, good.login)
    expect([refused.status, errorOf(refused).code, refused.headers["retry-after"]]).toEqual([
      429,
      "rate_limited",
      "15"
    ])
    expect(refused.headers.ratelimit).toBe('"address";r=0;t=60')
    expect(server.reached).toEqual([])
    yield* TestClock.adjust("14 seconds")
    expect((yield* call(server, good.login)).headers["retry-after"]).toBe("1")
    yield* TestClock.adjust("1 seconds")
    expect((yield* call(server, good.login)).status).toBe(200)
    expect((yield* call(server, good.login)).status).toBe(429)
    yield* TestClock.adjust("10 minutes")
    expect((yield* call(server, good.version)).headers.ratelimit).toBe('"address";r=3;t=15')
  })

  it.scoped("are 1,200 a minute for an address and 600 for a token", function* () {
    const server = yield* backend({ settings })
    const { headers } = yield* call(server, good.me)
    expect(headers["ratelimit-policy"]).toBe('"address";q=1200;w=60, "credential";q=600;w=60')
  })

  it.scoped("are counted by each process for itself", function* () {
    const [one, other] = [yield* backend({ settings, policies }), yield* backend({ settings, policies })]
    for (let at = 0; at < 5; at += 1) yield* call(one, good.version)
    expect((yield* call(one, good.version)).status).toBe(429)
    expect((yield* call(other, good.version)).headers.ratelimit).toBe('"address";r=3;t=15')
  })

  it.scoped("give each token a quota of its own, from any address", function* () {
    const server = yield* backend({ settings, policies })
    yield* call(server, good.me)
    const second = yield* call(server, good.send)
    expect(second.headers.ratelimit).toBe('"address";r=2;t=30, "credential";r=0;t=60')
    expect(second.headers["ratelimit-policy"]).toBe('"address";q=4;w=60, "credential";q=2;w=60')
    const refused = yield* call(server, good.me)
    expect([refused.status, refused.headers["retry-after"]]).toEqual([429, "30"])
    const other = { ...bearer, authorization: `Bearer ${accessToken}b` }
    expect((yield* call(server, { ...good.me, headers: other })).status).toBe(200)
    const signed = { ...good.submit, headers: { ...good.submit.headers, ...bearer } }
    expect((yield* call(server, signed)).status).toBe(429)
    expect(JSON.stringify(server.lines)).not.toContain(accessToken)
  })

  it.scoped("count a request that one of them refuses in neither", function* () {
    const server = yield* backend({ settings, policies })
    for (let at = 0; at < 2; at += 1) yield* call(server, good.me)
    const refused = yield* call(server, good.me)
    expect([refused.status, refused.headers.ratelimit]).toEqual([429, '"credential";r=0;t=60'])
    for (const expected of [200, 200, 429]) expect((yield* call(server, good.version)).status).toBe(expected)
    const other = { ...good.me, headers: { ...bearer, authorization: `Bearer ${accessToken}b` } }
    expect((yield* call(server, other)).status).toBe(429)
    yield* TestClock.adjust("30 seconds")
    for (const remaining of [1, 0])
      expect((yield* call(server, other)).headers.ratelimit).toContain(`"credential";r=${remaining};`)
  })

  it.scoped("show only the quota of the address when that one is used up", function* () {
    const server = yield* backend({
      settings,
      policies: {
        address: { ...policies.address, quota: 1 },
        credential: { ...policies.credential, quota: 10 }
      }
    })
    expect((yield* call(server, good.me)).headers.ratelimit).toContain('"credential";r=9;')
    for (let at = 0; at < 2; at += 1) {
      const { headers, status } = yield* call(server, good.me)
      expect([status, headers.ratelimit, headers["ratelimit-policy"]]).toEqual([
        429,
        '"address";r=0;t=60',
        '"address";q=1;w=60'
      ])
    }
    yield* TestClock.adjust("60 seconds")
    expect((yield* call(server, good.me)).headers.ratelimit).toContain('"credential";r=9;')
  })

  it.scoped("count every call except probes, documents, webhooks and malformed requests", function* () {
    const server = yield* backend({ settings, policies })
    const free: ReadonlyArray<Sent> = [
      good.healthz,
      good.readyz,
      good.receive,
      { path: "/openapi.json" },
      { path: "/docs" },
      { path: "/", headers: { accept: "text/html" } },
      { path: "/nope" },
      { method: "OPTIONS", path: "/api/v1/version" },
      { method: "PUT", path: "/api/v1/version" },
      { ...good.login, headers: {} },
      { ...good.login, body: "{" },
      { ...good.me, headers: {} }
    ]
    for (const sent of [...free, ...free]) {
      const answer = yield* call(server, sent)
      expect([sent.path, answer.status === 429, answer.headers.ratelimit]).toEqual([
        sent.path,
        false,
        undefined
      ])
    }
    for (const sent of [good.submit, good.accept, good.iam, good.refresh]) {
      expect((yield* call(server, sent)).headers.ratelimit).toBeDefined()
    }
    expect((yield* call(server, good.logout)).status).toBe(429)
  })

  it.scoped("are off with MUSIC_RATE_LIMIT=off", function* () {
    const server = yield* backend({ policies })
    for (let at = 0; at < 10; at += 1) {
      const answer = yield* call(server, good.version)
      expect([answer.status, answer.headers.ratelimit]).toEqual([200, undefined])
    }
  })

  it.scoped("distinguish clients behind a trusted proxy", function* () {
    const server = yield* backend({
      settings: { rateLimit: true, trustedProxies: ["127.0.0.0/8"] },
      policies
    })
    const from = (address: string): Sent => ({ ...good.version, headers: { "x-forwarded-for": address } })
    for (let at = 0; at < 4; at += 1) yield* call(server, from("203.0.113.1"))
    expect((yield* call(server, from("203.0.113.1"))).status).toBe(429)
    expect((yield* call(server, from("198.51.100.9, 203.0.113.1"))).status).toBe(429)
    expect((yield* call(server, from("203.0.113.2"))).status).toBe(200)
  })

  const untrusted: ReadonlyArray<readonly [string, string]> = [
    ["x-forwarded-for", "203.0.113.1"],
    ["forwarded", "for=203.0.113.1"]
  ]
  for (const [name, value] of untrusted)
    it.scoped(`warn once of an untrusted proxy on this machine, by its ${name}`, function* () {
      const server = yield* backend({ settings: { rateLimit: true } })
      const sent: Sent = { ...good.version, headers: { [name]: value } }
      yield* call(server, good.version)
      expect(warnings(server)).toEqual([])
      for (const one of [sent, sent, sent]) yield* call(server, one)
      expect(warnings(server)).toEqual([
        "A proxy on this machine is not trusted, so all its clients share one limit"
      ])
      const line = server.lines.find(({ level }) => level === "WARN")
      expect(line?.fields).toMatchObject({ fix: expect.stringContaining("MUSIC_TRUSTED_PROXIES") })
      expect(JSON.stringify(server.lines)).not.toContain("203.0.113.1")
    })

  it.scoped("do not warn of a trusted proxy, or while limits are off", function* () {
    for (const settings of [{ rateLimit: true, trustedProxies: ["127.0.0.1"] }, { rateLimit: false }]) {
      const server = yield* backend({ settings })
      yield* call(server, { ...good.version, headers: { "x-forwarded-for": "203.0.113.1" } })
      expect(warnings(server)).toEqual([])
    }
  })

  it("keep a bounded number of keys, and drop the least recently used one", () => {
    const { take } = makeQuota({ name: "address", quota: 2, windowSeconds: 60 }, 3)
    for (const key of ["a", "a", "b", "c", "a"]) take(key, 0)
    expect(take("a", 0).retryAfterSeconds).toBeGreaterThan(0)
    take("d", 0)
    expect(take("a", 0).retryAfterSeconds).toBeGreaterThan(0)
    expect(take("b", 0).remaining).toBe(1)
  })

  it("never refuse a client that keeps the pace", () => {
    const { quota, windowSeconds } = defaultPolicies.credential
    const { take } = makeQuota(defaultPolicies.credential)
    for (let at = 0; at < 5_000; at += 1) {
      expect(take("a", at * ((windowSeconds * 1_000) / quota)).retryAfterSeconds).toBe(0)
    }
  })
})

describe("The address of a client", () => {
  const message = (remoteAddress: string, forwarded?: string) =>
    ({
      socket: { remoteAddress },
      headers: forwarded === undefined ? {} : { "x-forwarded-for": forwarded }
    }) as unknown as IncomingMessage

  it.each<[string, ReadonlyArray<string>, string, string | undefined, string]>([
    ["the peer", [], "203.0.113.9", undefined, "203.0.113.9"],
    ["the peer, regardless of its header", [], "203.0.113.9", "10.0.0.1", "203.0.113.9"],
    ["the peer, when it is no trusted proxy", ["10.0.0.0/8"], "203.0.113.9", "198.51.100.1", "203.0.113.9"],
    ["the client of the proxy", ["10.0.0.0/8"], "10.0.0.2", "198.51.100.1", "198.51.100.1"],
    [
      "the rightmost address that is not a proxy",
      ["10.0.0.0/8"],
      "10.0.0.2",
      "192.0.2.7, 198.51.100.1, 10.0.0.3",
      "198.51.100.1"
    ],
    ["one named proxy only", ["10.0.0.2"], "10.0.0.2", "198.51.100.1, 10.0.0.3", "10.0.0.3"],
    ["the last valid address", ["10.0.0.0/8"], "10.0.0.2", "198.51.100.1, evil, 10.0.0.3", "10.0.0.3"],
    ["the proxy itself without a header", ["10.0.0.0/8"], "10.0.0.2", undefined, "10.0.0.2"],
    ["IPv4 in IPv6", ["10.0.0.0/8"], "::ffff:10.0.0.2", "::ffff:198.51.100.1", "198.51.100.1"],
    ["IPv6 with brackets and port", ["fd00::/8"], "fd00::2", "[2001:db8::7]:4711", "2001:db8::7"],
    ["IPv4 with a port", ["10.0.0.0/8"], "10.0.0.2", "198.51.100.1:4711", "198.51.100.1"],
    [
      "the first proxy of a chain of proxies only",
      ["10.0.0.0/8"],
      "10.0.0.2",
      "10.0.0.4, 10.0.0.3",
      "10.0.0.4"
    ]
  ])("is %s", (_, trusted, peer, forwarded, expected) => {
    expect(clientAddressResolver(trusted)(message(peer, forwarded))).toBe(expected)
  })

  it.each([
    ["198.51.100.1", "198.51.100.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
    ["2001:0DB8:0001:0002::1", "2001:db8:1:2"],
    ["2001:db8::1", "2001:db8:0:0"],
    ["::1", "0:0:0:0"],
    ["", ""]
  ])("%s counts as %s", (address, network) => {
    expect(toNetwork(address)).toBe(network)
  })
})
