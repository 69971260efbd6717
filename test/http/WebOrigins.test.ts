import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import {
  type Answer,
  sharedBackend,
  sharedBackendWith,
  call,
  errorOf,
  good,
  jsonHeaders,
  keyed
} from "./support.ts"

const origin = "https://music.example"
const configured = sharedBackendWith({ webOrigins: [origin, "https://other.example"] })

const corsHeaders = (answer: Answer) =>
  Object.keys(answer.headers).filter((name) => name.startsWith("access-control-"))

const preflight = (path: string, from: string, method = "POST") => ({
  method: "OPTIONS",
  path,
  headers: {
    origin: from,
    "access-control-request-method": method,
    "access-control-request-headers": "authorization"
  }
})

const sendTelemetry = (table: string) => ({
  ...good.accept,
  body: JSON.stringify({ table, events: [{ type: "x" }] })
})

describe("CORS", () => {
  it.scoped("lets a configured origin read every answer under /api/v1, including errors", function* () {
    const server = yield* configured
    for (const [sent, status] of [
      [good.version, 200],
      [good.me, 200],
      [good.login, 200],
      [sendTelemetry("musicfrontendevents"), 204],
      [sendTelemetry("musicclidaemon"), 403],
      [{ path: "/api/v1/nope" }, 404],
      [{ path: "/api/v1/auth/login" }, 405],
      [{ path: "/api/v1/auth/me" }, 401]
    ] as const) {
      const headers = "headers" in sent ? sent.headers : {}
      const answer = yield* call(server, { ...sent, headers: { ...headers, origin } })
      expect([sent.path, answer.status, answer.headers["access-control-allow-origin"]]).toEqual([
        sent.path,
        status,
        origin
      ])
      expect(answer.headers["access-control-expose-headers"]).toBe(
        "X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, X-Music-Min-Cli"
      )
      expect(answer.headers.vary).toBe("Origin")
      expect(answer.headers["access-control-allow-credentials"]).toBeUndefined()
    }
  })

  it.scoped("answers a preflight with the path's methods, the headers, and a request id", function* () {
    const server = yield* configured
    const answer = yield* call(server, preflight("/api/v1/tings", origin))
    expect(answer.status).toBe(204)
    expect(answer.headers).toMatchObject({
      "access-control-allow-origin": origin,
      "access-control-allow-methods": "POST, OPTIONS",
      "access-control-allow-headers":
        "Authorization, Content-Type, Idempotency-Key, X-Org-ID, X-Request-Id, X-Testing-Environment-Key, X-Music-Telemetry, X-Music-Source, X-Music-Client-Version, traceparent",
      allow: "POST, OPTIONS",
      vary: "Origin"
    })
    expect(answer.headers["x-request-id"]).toMatch(/^req_/)
  })

  it.scoped("serves other origins without CORS headers", function* () {
    const server = yield* configured
    for (const other of [
      "https://evil.example",
      `${origin}.evil.example`,
      "https://MUSIC.example",
      "null",
      "",
      "http://music.example"
    ]) {
      const answer = yield* call(server, { ...good.login, headers: { ...keyed, origin: other } })
      expect([other, answer.status, corsHeaders(answer)]).toEqual([other, 200, []])
      const asked = yield* call(server, preflight("/api/v1/tings", other))
      expect([other, asked.status, corsHeaders(asked)]).toEqual([other, 204, []])
    }
  })

  it.scoped("adds no headers outside of /api/v1", function* () {
    const server = yield* configured
    for (const path of ["/healthz", "/openapi.json", "/webhook"]) {
      const asked = yield* call(server, preflight(path, origin))
      expect([path, asked.status, corsHeaders(asked)]).toEqual([path, 204, []])
    }
  })

  it.scoped("is off without configured origins", function* () {
    const server = yield* sharedBackend
    const answer = yield* call(server, { ...good.version, headers: { origin } })
    expect([answer.status, corsHeaders(answer), answer.headers.vary]).toEqual([200, [], undefined])
  })

  it.scoped("answers no preflight for an unknown path", function* () {
    const server = yield* configured
    const answer = yield* call(server, preflight("/api/v1/nope", origin))
    expect([answer.status, errorOf(answer).code]).toEqual([404, "not_found"])
  })
})

describe("Telemetry with an Origin", () => {
  const accept = (origin: string | undefined, table: string) => ({
    ...sendTelemetry(table),
    headers: { ...jsonHeaders, ...(origin === undefined ? {} : { origin }) }
  })

  it.scoped("is accepted from configured origins for the web tables", function* () {
    const server = yield* configured
    for (const table of ["musicfrontendanalytics", "musicfrontendevents"])
      expect((yield* call(server, accept(origin, table))).status).toBe(204)
    expect(server.reached).toHaveLength(2)
  })

  it.scoped("is 403 for the daemon's table and from any other origin", function* () {
    const server = yield* configured
    for (const [from, table] of [
      [origin, "musicclidaemon"],
      ["https://evil.example", "musicfrontendevents"],
      [`${origin}/`, "musicfrontendevents"],
      [`${origin}.evil.example`, "musicfrontendevents"],
      ["https://MUSIC.example", "musicfrontendevents"],
      ["http://music.example", "musicfrontendevents"],
      [`${origin}:8443`, "musicfrontendevents"],
      ["null", "musicfrontendevents"],
      ["", "musicfrontendevents"]
    ] as const) {
      const answer = yield* call(server, accept(from, table))
      expect([from, answer.status, errorOf(answer).code]).toEqual([from, 403, "origin_not_allowed"])
    }
    expect(server.reached).toEqual([])
  })

  it.scoped("is 403 without configured origins, and 204 without an Origin for every table", function* () {
    const server = yield* sharedBackend
    expect((yield* call(server, accept(origin, "musicfrontendevents"))).status).toBe(403)
    for (const table of ["musicclidaemon", "musicfrontendevents"])
      expect((yield* call(server, accept(undefined, table))).status).toBe(204)
  })
})
