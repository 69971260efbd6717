import { describe, expect } from "vitest"
import { Effect, TestClock } from "effect"
import { Failure } from "../../src/schema/Failure.ts"
import { it } from "../world/Test.ts"
import { openPeer } from "../world/RawHttp.ts"
import { until } from "../world/Waiting.ts"
import {
  backend,
  goodRequests,
  inMemory,
  makeGate,
  requestLines,
  type Sent,
  textOf,
  withHeaders
} from "./support.ts"

describe("The log line of a request", () => {
  it.scoped("contains facts, and no content of the request; also of a caller who opted out", function* () {
    const server = yield* inMemory({ during: { login: TestClock.adjust("1500 millis") } })
    const { login, me } = yield* goodRequests(server)
    const described = {
      ...me.headers,
      "x-music-source": "cli",
      "x-request-id": "request-0001",
      "x-music-client-version": "1.2.0-rc.1+7",
      cookie: "a=b"
    }
    const token = me.headers.authorization.slice(7)
    const path = `${login.path}?token=${token}`
    const secrets = [token, login.body.slice(8, -2), login.headers["idempotency-key"], "a=b", "acme"]
    for (const optOut of [{}, { "x-music-telemetry": "off" }, { "sec-gpc": "1" }]) {
      server.lines.length = 0
      yield* server.send(withHeaders({ ...described, ...optOut })({ ...login, path }))
      expect(requestLines(server).map(({ level, fields }) => ({ level, ...fields }))).toEqual([
        {
          level: "INFO",
          request_id: "request-0001",
          method: "POST",
          route: "/api/v1/auth/login",
          status: 200,
          duration_ms: 1500,
          source: "cli",
          client_version: "1.2.0-rc.1+7",
          plane: "production",
          actor: "silicon"
        }
      ])
      const log = JSON.stringify(server.lines)
      expect(secrets.filter((secret) => log.includes(secret))).toEqual([])
    }
  })

  it.scoped("is one for every request, at debug level for probes that answer as they should", function* () {
    const server = yield* inMemory({
      during: { refresh: Effect.die("x"), me: Effect.fail(new Failure("unauthenticated")) }
    })
    const good = yield* goodRequests(server)
    const { environmentId, musicSecret } = server.upstreams.seeded.environment
    const selecting = (secret: string) => withHeaders({ "x-testing-environment-key": secret })
    const options = { method: "OPTIONS", path: "/healthz" }
    const sent: ReadonlyArray<readonly [Sent, object, level?: string]> = [
      [{ path: "/secret/path?q=1" }, { route: "unmatched", status: 404, code: "not_found" }],
      [{ path: "/webhook" }, { route: "/webhook", status: 405, code: "method_not_allowed" }],
      [good.healthz, { route: "/healthz", status: 200 }, "DEBUG"],
      [good.readyz, { route: "/readyz", status: 200 }, "DEBUG"],
      [
        { ...good.version, method: "HEAD" },
        { status: 200, method: "HEAD" }
      ],
      [options, { route: "/healthz", status: 204, method: "OPTIONS" }, "INFO"],
      [good.me, { route: "/api/v1/auth/me", status: 401, code: "unauthenticated", actor: "silicon" }],
      [good.submit, { status: 200, actor: "anonymous" }],
      [good.refresh, { route: "/api/v1/auth/refresh", status: 500, code: "internal" }],
      [selecting(musicSecret)(good.iam), { status: 200, plane: environmentId }],
      [selecting("x")(good.iam), { status: 401, plane: "testing" }],
      [
        { ...good.receive, body: "{}" },
        { status: 401, plane: "unverified" }
      ],
      [withHeaders({ "x-music-client-version": "secret" })(good.version), { source: "unknown" }],
      [
        withHeaders({ "x-music-client-version": `1.0.0-stk-${"0123456789abcdef".repeat(2)}` })(good.version),
        { source: "unknown" }
      ],
      ...(["daemon", "web", "CLI"] as const).map((source): readonly [Sent, object] => [
        withHeaders({ "x-music-source": source })(good.version),
        { source: source === "CLI" ? "unknown" : source }
      ])
    ]
    for (const [one, fields, level] of sent) {
      server.lines.length = 0
      yield* server.send(one)
      const lines = requestLines(server)
      const wanted = level === undefined ? { fields } : { fields, level }
      expect([one.path, lines.length, lines[0]]).toMatchObject([one.path, 1, wanted])
      expect(JSON.stringify(server.lines)).not.toMatch(/secret(?!_invalid)|client_version/)
    }
    yield* server.drain.begin
    expect((yield* server.send(good.healthz)).status).toBe(200)
    server.lines.length = 0
    yield* server.send(good.readyz)
    expect(requestLines(server).map(({ fields, level }) => [level, fields.status])).toEqual([["INFO", 503]])
  })
})

it.scoped("A defect is logged, also when the client has left", function* () {
  const gate = yield* makeGate
  const server = yield* backend({ during: { submit: Effect.zipRight(gate.body, Effect.die("broken")) } })
  const { submit } = yield* goodRequests(server)
  const { socket } = yield* openPeer(server.port, textOf(submit))
  yield* gate.arrived
  socket.resetAndDestroy()
  yield* until(() => server.lines.some(({ fields }) => fields.status === 499))
  yield* gate.release
  yield* until(() => server.lines.some(({ cause, level }) => level === "ERROR" && cause.includes("broken")))
})

/** The peer, what it forwards, and the address as it is logged, which is as the limits count it. */
const addresses: ReadonlyArray<readonly [string, string | undefined, string]> = [
  ["203.0.113.9", "198.51.100.1", "203.0.113.9"],
  ["10.0.0.2", "192.0.2.7, 198.51.100.1, 10.0.0.3", "198.51.100.1"],
  ["10.0.0.2", "198.51.100.1, evil, 10.0.0.3", "10.0.0.3"],
  ["10.0.0.2", undefined, "10.0.0.2"],
  ["::ffff:10.0.0.2", "::ffff:198.51.100.1", "198.51.100.1"],
  ["fd00::2", "[2001:db8::7]:4711", "2001:db8:0:0::/64"],
  ["10.0.0.2", "198.51.100.1:4711", "198.51.100.1"],
  ["10.0.0.2", "10.0.0.4, 10.0.0.3", "10.0.0.4"],
  ["2001:0DB8:0001:0002:3:4:5:6", undefined, "2001:db8:1:2::/64"],
  ["fe80::1%eth0", undefined, "fe80:0:0:0::/64"],
  ["::1", undefined, "0:0:0:0::/64"]
]

it.scoped("A client's address is the peer's, or the rightmost of no trusted proxy", function* () {
  const trustedProxies = ["10.0.0.0/8", "fd00::/8"]
  const server = yield* inMemory({ settings: { logClientAddress: true, trustedProxies } })
  const send = (from: string, forwarded: string | undefined, to = server) =>
    to.send(withHeaders({ "x-forwarded-for": forwarded })({ path: "/api/v1/version", from }))
  for (const [from, forwarded, logged] of addresses) {
    server.lines.length = 0
    yield* send(from, forwarded)
    expect([from, requestLines(server)[0]?.fields.client_address]).toEqual([from, logged])
  }
  const trusting = yield* inMemory({ settings: { logClientAddress: true } })
  yield* send("10.0.0.2", "198.51.100.1", trusting)
  const unasked = yield* inMemory()
  yield* send("10.0.0.2", undefined, unasked)
  const logged = [trusting, unasked].map((one) => requestLines(one)[0]?.fields.client_address)
  expect(logged).toEqual(["10.0.0.2", undefined])
})
