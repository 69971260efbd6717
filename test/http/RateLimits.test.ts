import { spawnSync } from "node:child_process"
import { describe, expect } from "vitest"
import { Effect, TestClock } from "effect"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { makeSteppedClock } from "../world/Time.ts"
import { settle, until } from "../world/Waiting.ts"
import type { PathName } from "../world/Faults.ts"
import { start } from "../world/UseCaseLayers.ts"
import { it } from "../world/Test.ts"
import { type Answer, json, requests as calls } from "../world/Driver.ts"
import {
  type Backend,
  backend,
  goodRequests,
  inMemory,
  type Options,
  outcomeOf,
  requestLines,
  requests,
  type Sent,
  textOf,
  used,
  withHeaders
} from "./support.ts"

const policies = {
  address: { name: "address", quota: 4, windowSeconds: 60 },
  credential: { name: "credential", quota: 2, windowSeconds: 60 }
}
const limited: Options = { settings: { rateLimit: true }, bounds: policies }

const warnings = ({ lines }: Backend) =>
  lines.filter(({ level }) => level === "WARN").map(({ message }) => message)
const askedOf = ({ upstreams }: Backend, path: PathName) =>
  upstreams.calls.filter((call) => call.path === path).length
const quotasOf = (answer: Answer) => [
  outcomeOf(answer),
  answer.headers["retry-after"],
  answer.headers.ratelimit,
  answer.headers["ratelimit-policy"]
]

const version: Sent = { path: "/api/v1/version" }

describe("Rate limits", () => {
  it.scoped("let an address use its whole quota at once, and then each use as it is refilled", function* () {
    const server = yield* inMemory(limited)
    const { login } = yield* goodRequests(server)
    const policy = '"address";q=4;w=60'
    for (const remaining of [3, 2, 1, 0]) {
      const quota = `"address";r=${remaining};t=${(4 - remaining) * 15}`
      expect(quotasOf(yield* server.send(version))).toEqual([200, undefined, quota, policy])
    }
    server.reached.length = 0
    const refusal = ["rate_limited", "15", '"address";r=0;t=60', policy]
    expect([quotasOf(yield* server.send(login)), server.reached]).toEqual([refusal, []])
    expect(requestLines(server).at(-1)?.fields.quota).toBe("address")
    yield* TestClock.adjust("14 seconds")
    expect((yield* server.send(login)).headers["retry-after"]).toBe("1")
    yield* TestClock.adjust("1 seconds")
    expect(outcomeOf(yield* server.send(login))).toBe(200)
    expect(outcomeOf(yield* server.send(login))).toBe("rate_limited")
  })

  it.scoped("are 1,200 a minute for an address and 600 for a token, and off by the setting", function* () {
    const server = yield* inMemory({ settings: { rateLimit: true } })
    const { me } = yield* goodRequests(server)
    const { headers } = yield* server.send(me)
    expect(headers["ratelimit-policy"]).toBe('"address";q=1200;w=60, "credential";q=600;w=60')
    const off = yield* inMemory({ bounds: policies })
    for (let at = 0; at < 10; at += 1)
      expect(quotasOf(yield* off.send(version))).toEqual([200, undefined, undefined, undefined])
  })

  it.scoped("give each token a quota of its own; what one refuses counts in neither", function* () {
    const server = yield* inMemory(limited)
    const { me, send, submit } = yield* goodRequests(server)
    const other = requests.me((yield* server.login("si:lyra")).access_token)
    yield* server.send(me)
    const second = yield* server.send({ ...send, from: "203.0.113.9" })
    expect(quotasOf(second).slice(2)).toEqual([
      '"address";r=3;t=15, "credential";r=0;t=60',
      '"address";q=4;w=60, "credential";q=2;w=60'
    ])
    const refused = yield* server.send(me)
    expect(quotasOf(refused).slice(0, 3)).toEqual(["rate_limited", "30", '"credential";r=0;t=60'])
    expect(outcomeOf(yield* server.send(withHeaders(me.headers)(submit)))).toBe("rate_limited")
    for (const expected of [200, 200, 200, "rate_limited"])
      expect(outcomeOf(yield* server.send(version))).toBe(expected)
    // The address refuses, and the token keeps its own.
    const full = yield* server.send(other)
    expect(quotasOf(full).slice(2)).toEqual(['"address";r=0;t=60', '"address";q=4;w=60'])
    yield* TestClock.adjust("30 seconds")
    for (const remaining of [1, 0])
      expect((yield* server.send(other)).headers.ratelimit).toContain(`"credential";r=${remaining};`)
    expect(JSON.stringify(server.lines)).not.toContain(me.headers.authorization.slice(7))
  })

  it.scoped("count every call except probes, documents, webhooks and malformed requests", function* () {
    const server = yield* inMemory(limited)
    const good = yield* goodRequests(server)
    const free: ReadonlyArray<Sent> = [
      ...[good.healthz, good.readyz, good.receive],
      ...["/openapi.json", "/docs", "/nope", good.me.path].map((path) => ({ path })),
      ...["OPTIONS", "PUT"].map((method) => ({ method, path: version.path })),
      { ...good.login, headers: json },
      { ...good.login, body: "{" }
    ]
    for (const sent of [...free, ...free]) {
      const { headers, status } = yield* server.send(sent)
      expect([sent.path, status === 429, headers.ratelimit]).toEqual([sent.path, false, undefined])
    }
    for (const sent of [good.submit, good.accept, good.iam, good.refresh])
      expect([sent.path, (yield* server.send(sent)).headers.ratelimit !== undefined]).toEqual([
        sent.path,
        true
      ])
    expect(outcomeOf(yield* server.send(good.logout))).toBe("rate_limited")
  })
})

it.scoped.each([
  [{ rateLimit: true }, 1],
  [{ rateLimit: true, trustedProxies: ["127.0.0.1"] }, 0],
  [{ rateLimit: false }, 0]
] as const)("An untrusted proxy here is warned of once, with limits: %j", function* ([settings, warned]) {
  const server = yield* inMemory({ settings })
  const headers = { forwarded: "for=203.0.113.1" }
  yield* server.send({ ...version, headers, from: "203.0.113.5" })
  expect(warnings(server)).toEqual([])
  for (const sent of [headers, headers, { "x-forwarded-for": "203.0.113.1" }])
    yield* server.send({ ...version, headers: sent })
  expect(warnings(server).length).toBe(warned)
  const log = JSON.stringify(server.lines)
  expect([log.includes("MUSIC_TRUSTED_PROXIES"), log.includes("203.0.113.1")]).toEqual([warned === 1, false])
})

/** Sends each text on a connection of its own, and resets that. */
const sendAndReset = `
  const { connect } = require("node:net")
  const [port, ...texts] = process.argv.slice(1)
  for (const text of texts) {
    const socket = connect(Number(port), "127.0.0.1")
    socket.write(text, () => socket.resetAndDestroy())
  }`

// The system does not name the other end of such a connection any more.
it.scoped("Clients that reset before they are read count as one address, also for IAM", function* () {
  const server = yield* backend({ settings: { rateLimit: true, iam: { callsPerMinute: 110 } } })
  const texts = Array.from({ length: 100 }, (_, at) =>
    textOf(requests.login(`oac_${String(at).padStart(43, "0")}`))
  )
  // This process, and with it the server, stands still until the child has ended.
  expect(spawnSync(process.execPath, ["-e", sendAndReset, String(server.port), ...texts]).status).toBe(0)
  yield* until(() => requestLines(server).length === texts.length)
  expect(used(server).filter((useCase) => useCase === "login").length).toBe(texts.length)
  yield* settle
  // 50 % of 110, because IAM refuses them: others have more.
  expect(askedOf(server, "tokens")).toBeLessThanOrEqual(55)
  const slt = server.upstreams.iam.controls.mintSlt(production, { appId: "music", actor: "si:deejay" })
  expect(outcomeOf(yield* server.send(requests.login(slt)))).toBe(200)
})

it.scoped("A wall clock that is set back changes neither quotas nor what is known of IAM", function* () {
  yield* TestClock.setTime(start)
  const below = yield* Effect.clock
  const { clock, step } = yield* makeSteppedClock
  step(3_600_000)
  const pass = (seconds: number) => Effect.withClock(TestClock.adjust(seconds * 1_000), below)
  const test = Effect.gen(function* () {
    const server = yield* inMemory({ settings: { iam: { introspectionCacheSeconds: 10 } } })
    const quota = yield* inMemory(limited)
    yield* Effect.replicateEffect(quota.send(version), 4)
    const { me } = yield* goodRequests(server)
    const asks = [
      calls.plane(server.upstreams.seeded.environment.musicSecret),
      calls.plane(`ask_${"x".repeat(43)}`),
      requests.me(`oat_${"x".repeat(43)}`),
      me
    ]
    const expectCalls = (contexts: number, introspections: number) =>
      Effect.gen(function* () {
        const answers = yield* Effect.forEach(asks, server.send)
        expect(answers.map(outcomeOf)).toEqual([200, "testing_secret_invalid", "unauthenticated", 200])
        const counts = (["context", "introspect"] as const).map((path) => askedOf(server, path))
        expect(counts).toEqual([contexts, introspections])
      })
    server.upstreams.calls.length = 0
    // A login knows its own introspection.
    yield* expectCalls(2, 1)
    step(-3_600_000)
    expect((yield* quota.send(version)).headers["retry-after"]).toBe("15")
    yield* pass(9)
    yield* expectCalls(2, 1)
    // The live token is asked for again after 10 s, refusals after 30 s, the plane after 60 s.
    yield* pass(6)
    yield* expectCalls(2, 2)
    expect(outcomeOf(yield* quota.send(version))).toBe(200)
    yield* pass(17)
    yield* expectCalls(3, 4)
    yield* pass(31)
    yield* expectCalls(5, 6)
  })
  yield* Effect.withClock(test, clock)
})
