import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import type { SettingsOverrides } from "../support/Settings.ts"
import { Unauthenticated } from "../../src/schema/Failure.ts"
import {
  accessToken,
  backend,
  bearer,
  call,
  environmentId,
  good,
  idempotencyKey,
  raw,
  sharedBackend,
  type Sent,
  testingSecret
} from "./support.ts"
import { until } from "../support/Waiting.ts"

const selecting = { "x-testing-environment-key": testingSecret }

describe("The log line of a request", () => {
  it.scoped(
    "contains route, method, status, duration, id, source, plane and type of actor, and no content of the request",
    function* () {
      const server = yield* backend({ during: { login: TestClock.adjust("1500 millis") } })
      yield* call(server, {
        ...good.login,
        path: `${good.login.path}?token=${accessToken}`,
        headers: {
          ...good.login.headers,
          ...bearer,
          "x-music-source": "cli",
          "x-request-id": "request-0001",
          cookie: "a=b"
        },
        body: '{"slt":"oac_secret"}'
      })
      const lines = server.lines.filter(({ message }) => message === "Request")
      expect(lines.map(({ level, fields }) => ({ level, ...fields }))).toEqual([
        {
          level: "INFO",
          request_id: "request-0001",
          method: "POST",
          route: "/api/v1/auth/login",
          status: 200,
          duration_ms: 1500,
          source: "cli",
          plane: "production",
          actor: "silicon"
        }
      ])
      for (const secret of [accessToken, "oac_secret", idempotencyKey, "a=b", "acme"]) {
        expect(JSON.stringify(server.lines)).not.toContain(secret)
      }
    }
  )

  it.scoped("is the same for a caller who opted out of telemetry", function* () {
    const server = yield* backend()
    const linesOf = (headers: Readonly<Record<string, string>>) =>
      Effect.gen(function* () {
        const from = server.lines.length
        const id = { "x-request-id": "request-0002" }
        yield* call(server, { ...good.me, headers: { ...good.me.headers, ...id, ...headers } })
        return server.lines
          .slice(from)
          .filter(({ message }) => message === "Request")
          .map(({ level, fields }) => ({ level, ...fields }))
      })
    const usual = yield* linesOf({})
    expect(usual).toMatchObject([{ level: "INFO", request_id: "request-0002", status: 200 }])
    for (const optOut of [{ "x-music-telemetry": "off" }, { "sec-gpc": "1" }, { dnt: "1" }])
      expect(yield* linesOf(optOut)).toEqual(usual)
  })

  it.scoped("is written for every request, including failed ones", function* () {
    const server = yield* backend({
      during: { me: Effect.fail(new Unauthenticated()), login: Effect.die("x") }
    })
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
      [good.me, { route: "/api/v1/auth/me", status: 401, code: "unauthenticated", actor: "silicon" }],
      [good.version, { status: 200, actor: "anonymous" }],
      [good.login, { route: "/api/v1/auth/login", status: 500, code: "internal" }],
      [
        { ...good.iam, headers: selecting },
        { status: 200, plane: environmentId }
      ],
      [
        { ...good.iam, headers: { "x-testing-environment-key": "x" } },
        { status: 401, plane: "testing" }
      ]
    ]
    for (const [one, facts] of sent) {
      server.lines.length = 0
      yield* call(server, one)
      const lines = server.lines.filter(({ message }) => message === "Request")
      expect(lines.length).toBe(1)
      expect(lines[0]?.fields).toMatchObject(facts)
      expect(JSON.stringify(server.lines)).not.toContain("secret/path")
    }
  })

  it.scoped("has the client's version only when that is well-formed", function* () {
    const server = yield* sharedBackend
    for (const sent of ["0.0.1", "1.2.0-rc.1+7", "secret", `0.0.1-${"x".repeat(100)}`, undefined])
      yield* call(server, {
        ...good.healthz,
        headers: sent === undefined ? {} : { "x-music-client-version": sent }
      })
    const lines = server.lines.filter(({ message }) => message === "Request")
    expect(lines.map(({ fields }) => fields.client_version)).toEqual([
      "0.0.1",
      "1.2.0-rc.1+7",
      undefined,
      undefined,
      undefined
    ])
    expect(lines.map(({ fields }) => "client_version" in fields)).toEqual([true, true, false, false, false])
  })
})

describe("The level of the log line", () => {
  it.scoped("is debug for probes that answer as they should, and info for all others", function* () {
    const server = yield* backend()
    yield* call(server, good.healthz)
    yield* call(server, good.readyz)
    yield* call(server, good.version)
    yield* server.drain.begin
    yield* call(server, good.readyz)
    const lines = server.lines.filter(({ message }) => message === "Request")
    expect(lines.map(({ fields, level }) => [level, fields.route, fields.status])).toEqual([
      ["DEBUG", "/healthz", 200],
      ["DEBUG", "/readyz", 200],
      ["INFO", "/api/v1/version", 200],
      ["INFO", "/readyz", 503]
    ])
  })
})

describe("The client's address in the log", () => {
  const logged = (settings: SettingsOverrides, forwarded: string) =>
    Effect.gen(function* () {
      const server = yield* backend({ settings: { trustedProxies: ["127.0.0.1"], ...settings } })
      yield* call(server, { ...good.version, headers: { "x-forwarded-for": forwarded } })
      return server.lines.find(({ message }) => message === "Request")?.fields.client_address
    })

  it.scoped("is there only when the operator asks for it: the address that the limits count", function* () {
    const on = { logClientAddress: true }
    expect(yield* logged({}, "203.0.113.7")).toBeUndefined()
    expect(yield* logged(on, "198.51.100.1, 203.0.113.7")).toBe("203.0.113.7")
    expect(yield* logged(on, "2001:db8:0:1::7")).toBe("2001:db8:0:1::/64")
    expect(yield* logged({ ...on, trustedProxies: [] }, "203.0.113.7")).toBe("127.0.0.1")
  })

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
  it.scoped("contains method, route, status, duration and outcome", function* () {
    const server = yield* backend({ during: { me: Effect.fail(new Unauthenticated()) } })
    yield* call(server, good.version)
    yield* call(server, good.me)
    yield* call(server, { path: "/nope" })
    expect(server.events).toEqual([
      {
        kind: "request",
        fields: {
          method: "GET",
          route: "/api/v1/version",
          status: 200,
          duration_ms: 0,
          outcome: "ok",
          error_code: null
        }
      },
      {
        kind: "request",
        fields: {
          method: "GET",
          route: "/api/v1/auth/me",
          status: 401,
          duration_ms: 0,
          outcome: "error",
          error_code: "unauthenticated"
        }
      },
      {
        kind: "request",
        fields: {
          method: "GET",
          route: "unmatched",
          status: 404,
          duration_ms: 0,
          outcome: "error",
          error_code: "not_found"
        }
      }
    ])
  })

  it.scoped("is not recorded for probes, OPTIONS, documents and testing requests of any form", function* () {
    const server = yield* backend()
    const silent: ReadonlyArray<Sent> = [
      good.healthz,
      good.readyz,
      { path: "/openapi.json" },
      { path: "/docs" },
      { path: "/", headers: { accept: "text/html" } },
      { method: "OPTIONS", path: "/api/v1/tings" },
      { ...good.iam, headers: selecting },
      { ...good.login, headers: { ...good.login.headers, ...selecting } },
      { ...good.iam, headers: { "x-testing-environment-key": "" } },
      { path: "/nope", headers: selecting }
    ]
    for (const sent of silent) yield* call(server, sent)
    expect(server.events).toEqual([])
    yield* call(server, good.receive)
    yield* call(server, { ...good.version, headers: selecting })
    expect(server.events.map(({ fields }) => fields.route)).toEqual(["/webhook/", "/api/v1/version"])
  })
})

describe("The context of a use case", () => {
  it.scoped("has the id, the source and the deadline of the request", function* () {
    const server = yield* backend({ settings: { requestDeadlineSeconds: 25 } })
    yield* TestClock.setTime(1_000_000)
    yield* call(server, { ...good.logout, headers: { ...good.logout.headers, "x-music-source": "daemon" } })
    expect(server.reached[0]?.info).toMatchObject({
      source: "daemon",
      recording: true,
      deadlineAt: 1_025_000
    })
  })
})
