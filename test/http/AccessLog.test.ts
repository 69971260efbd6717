import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { Unauthenticated } from "../../src/schema/Failure.ts"
import type { SettingsOverrides } from "../support/Settings.ts"
import { until } from "../support/Waiting.ts"
import { it } from "../world/Test.ts"
import { backend, goodRequests, inMemory, raw, requestLines, type Sent, withHeaders } from "./support.ts"

describe("The log line of a request", () => {
  it.scoped("contains facts, and no content of the request; also of a caller who opted out", function* () {
    const server = yield* inMemory({ during: { login: TestClock.adjust("1500 millis") } })
    const { login, me } = yield* goodRequests(server)
    for (const optOut of [{}, { "x-music-telemetry": "off" }, { "sec-gpc": "1" }]) {
      server.lines.length = 0
      yield* server.send(
        withHeaders({
          ...me.headers,
          "x-music-source": "cli",
          "x-request-id": "request-0001",
          "x-music-client-version": "1.2.0-rc.1+7",
          cookie: "a=b",
          ...optOut
        })({ ...login, path: `${login.path}?token=${me.headers.authorization}` })
      )
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
      const { slt } = JSON.parse(login.body) as { readonly slt: string }
      for (const secret of [
        me.headers.authorization.slice(7),
        slt,
        login.headers["idempotency-key"],
        "a=b",
        "acme"
      ])
        expect(JSON.stringify(server.lines)).not.toContain(secret)
    }
  })

  it.scoped("is one for every request, including failed ones", function* () {
    const server = yield* inMemory({
      during: { refresh: Effect.die("x"), me: Effect.fail(new Unauthenticated()) }
    })
    const good = yield* goodRequests(server)
    const { environmentId, musicSecret } = server.upstreams.seeded.environment
    const selecting = (secret: string) => withHeaders({ "x-testing-environment-key": secret })
    const sent: ReadonlyArray<readonly [Sent, object]> = [
      [{ path: "/secret/path?q=1" }, { route: "unmatched", status: 404, code: "not_found" }],
      [
        { method: "PUT", path: "/webhook" },
        { route: "/webhook", status: 405, code: "method_not_allowed" }
      ],
      [good.healthz, { route: "/healthz", status: 200 }],
      [
        { method: "OPTIONS", path: "/healthz" },
        { route: "/healthz", status: 204, method: "OPTIONS" }
      ],
      [
        { method: "HEAD", path: "/openapi.json" },
        { route: "/openapi.json", status: 200, method: "HEAD" }
      ],
      [{ path: "/docs" }, { route: "/docs", status: 200, plane: "production" }],
      [good.me, { route: "/api/v1/auth/me", status: 401, code: "unauthenticated", actor: "silicon" }],
      [good.submit, { status: 200, actor: "anonymous" }],
      [requestSigned(good.submit, good.me), { status: 200, actor: "silicon" }],
      [good.refresh, { route: "/api/v1/auth/refresh", status: 500, code: "internal" }],
      [selecting(musicSecret)(good.iam), { status: 200, plane: environmentId }],
      [selecting("x")(good.iam), { status: 401, plane: "testing" }],
      [good.receive, { route: "/webhook", status: 200, plane: "production" }],
      [
        { ...good.receive, body: "{}" },
        { status: 401, plane: "unverified" }
      ],
      [
        withHeaders({ "x-music-client-version": "secret" })(good.version),
        { route: "/api/v1/version", source: "unknown" }
      ]
    ]
    for (const [one, facts] of sent) {
      server.lines.length = 0
      yield* server.send(one)
      const lines = requestLines(server)
      expect([one.path, lines.length, lines[0]?.fields]).toMatchObject([one.path, 1, facts])
      expect(JSON.stringify(server.lines)).not.toMatch(/secret(?!_invalid)|client_version/)
    }
  })

  it.scoped("is at debug level for probes that answer as they should", function* () {
    const server = yield* inMemory()
    for (const path of ["/healthz", "/readyz", "/api/v1/version"]) yield* server.send({ path })
    yield* server.drain.begin
    yield* server.send({ path: "/readyz" })
    expect(requestLines(server).map(({ fields, level }) => [level, fields.route, fields.status])).toEqual([
      ["DEBUG", "/healthz", 200],
      ["DEBUG", "/readyz", 200],
      ["INFO", "/api/v1/version", 200],
      ["INFO", "/readyz", 503]
    ])
  })
})

const requestSigned = (sent: Sent, { headers }: { readonly headers: Record<string, string> }): Sent =>
  withHeaders({ ...headers, "idempotency-key": "another-key-0001" })(sent)

describe("The address of a client", () => {
  /** Addresses as they are logged, which is as the limits count them: of the peer, and of what it forwards. */
  const logged = (
    settings: SettingsOverrides,
    sent: ReadonlyArray<readonly [peer: string, forwarded?: string]>
  ) =>
    Effect.gen(function* () {
      const server = yield* inMemory({ settings: { logClientAddress: true, ...settings } })
      for (const [from, forwarded] of sent) {
        const request = { path: "/api/v1/version", from }
        yield* server.send(
          forwarded === undefined ? request : { ...request, headers: { "x-forwarded-for": forwarded } }
        )
      }
      return requestLines(server).map(({ fields }) => fields.client_address)
    })

  it.scoped(
    "is that of the peer, and of what a trusted proxy forwards the rightmost that is none",
    function* () {
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, string, string | undefined, string]> = [
        [[], "203.0.113.9", undefined, "203.0.113.9"],
        [[], "203.0.113.9", "10.0.0.1", "203.0.113.9"],
        [["10.0.0.0/8"], "203.0.113.9", "198.51.100.1", "203.0.113.9"],
        [["10.0.0.0/8"], "10.0.0.2", "198.51.100.1", "198.51.100.1"],
        [["10.0.0.0/8"], "10.0.0.2", "192.0.2.7, 198.51.100.1, 10.0.0.3", "198.51.100.1"],
        [["10.0.0.2"], "10.0.0.2", "198.51.100.1, 10.0.0.3", "10.0.0.3"],
        [["10.0.0.0/8"], "10.0.0.2", "198.51.100.1, evil, 10.0.0.3", "10.0.0.3"],
        [["10.0.0.0/8"], "10.0.0.2", undefined, "10.0.0.2"],
        [["10.0.0.0/8"], "::ffff:10.0.0.2", "::ffff:198.51.100.1", "198.51.100.1"],
        [["fd00::/8"], "fd00::2", "[2001:db8::7]:4711", "2001:db8:0:0::/64"],
        [["10.0.0.0/8"], "10.0.0.2", "198.51.100.1:4711", "198.51.100.1"],
        [["10.0.0.0/8"], "10.0.0.2", "10.0.0.4, 10.0.0.3", "10.0.0.4"],
        [[], "2001:db8:1:2:3:4:5:6", undefined, "2001:db8:1:2::/64"],
        [[], "2001:0DB8:0001:0002::1", undefined, "2001:db8:1:2::/64"],
        [[], "fe80::1%eth0", undefined, "fe80:0:0:0::/64"],
        [[], "::1", undefined, "0:0:0:0::/64"]
      ]
      const proxies = [...new Set(cases.map(([trusted]) => trusted.join()))]
      for (const list of proxies) {
        const mine = cases.filter(([trusted]) => trusted.join() === list)
        const trustedProxies = list === "" ? [] : list.split(",")
        const found = yield* logged(
          { trustedProxies },
          mine.map(([, peer, forwarded]) => (forwarded === undefined ? [peer] : [peer, forwarded]))
        )
        expect(found).toEqual(mine.map(([, , , expected]) => expected))
      }
      expect(yield* logged({ logClientAddress: false }, [["203.0.113.9"]])).toEqual([undefined])
    }
  )

  it.scoped("is that of the connection when the request could not be parsed", function* () {
    for (const [logClientAddress, address] of [
      [false, undefined],
      [true, "127.0.0.1"]
    ] as const) {
      const server = yield* backend({ settings: { logClientAddress } })
      for (const text of ["no HTTP\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"])
        yield* raw(server, text)
      const unparsed = () => server.lines.filter(({ fields }) => fields.route === "unparsed")
      yield* until(() => unparsed().length === 2)
      expect(unparsed().map(({ fields }) => fields.client_address)).toEqual([address, address])
    }
  })
})

describe("The event of a request", () => {
  it.scoped(
    "contains method, route, status, duration and outcome, also of a ting that was refused here",
    function* () {
      const server = yield* inMemory()
      const { me, send, version } = yield* goodRequests(server)
      yield* server.send(version)
      yield* server.send({ path: me.path })
      yield* server.send({ path: "/nope" })
      for (const change of [{ type: "music.unknown.type" }, { key: "si:lyra/1" }])
        yield* server.send({ ...send, body: JSON.stringify({ ...JSON.parse(send.body), ...change }) })
      const events = yield* server.recorded
      const common = { method: "GET", duration_ms: 0 }
      expect(events.slice(0, 3).map(({ context }) => context)).toMatchObject([
        { ...common, route: "/api/v1/version", status: 200, outcome: "ok", error_code: null },
        { ...common, route: "/api/v1/auth/me", status: 401, outcome: "error", error_code: "unauthenticated" },
        { ...common, route: "unmatched", status: 404, outcome: "error", error_code: "not_found" }
      ])
      expect(events.slice(3).map((one) => [one.event, one.error_code])).toEqual([
        ["ting.completed", "not_found"],
        ["request.completed", "not_found"],
        ["ting.completed", "invalid_input"],
        ["request.completed", "invalid_input"]
      ])
    }
  )

  it.scoped("is not recorded for probes, OPTIONS, documents and testing requests of any form", function* () {
    const server = yield* inMemory()
    const good = yield* goodRequests(server)
    const selecting = withHeaders({
      "x-testing-environment-key": server.upstreams.seeded.environment.musicSecret
    })
    const silent: ReadonlyArray<Sent> = [
      good.healthz,
      good.readyz,
      { path: "/openapi.json" },
      { path: "/docs" },
      { path: "/", headers: { accept: "text/html" } },
      { method: "OPTIONS", path: "/api/v1/tings" },
      selecting(good.iam),
      selecting(good.login),
      withHeaders({ "x-testing-environment-key": "" })(good.iam),
      selecting({ path: "/nope" })
    ]
    for (const sent of silent) yield* server.send(sent)
    expect(yield* server.recorded).toEqual([])
    yield* server.send(selecting(good.version))
    expect((yield* server.recorded).map(({ context }) => context.route)).toEqual(["/api/v1/version"])
  })
})
