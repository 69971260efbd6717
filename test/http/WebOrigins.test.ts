import { Effect } from "effect"
import { expect } from "vitest"
import { type Answer, json, post } from "../world/Driver.ts"
import { sharing } from "../world/Test.ts"
import { goodRequests, outcomeOf, shared, sharedInMemory, used, withHeaders } from "./support.ts"

const origin = "https://music.example"
const others = [
  ...["https://evil.example", `${origin}.evil.example`, `${origin}/`, `${origin}:8443`],
  ...["https://MUSIC.example", "http://music.example", "null", ""]
]

const corsHeaders = ({ headers }: Answer) =>
  Object.keys(headers).filter((name) => name.startsWith("access-control-"))

const preflight = (path: string, from: string) => ({
  method: "OPTIONS",
  path,
  headers: { origin: from, "access-control-request-method": "POST" }
})

const telemetry = (table: string, from?: string) =>
  withHeaders({ ...json, origin: from })(post("/api/v1/telemetry", { table, events: [{ type: "x" }] }))

const settings = { webOrigins: [origin, "https://other.example"] }

sharing(sharedInMemory({ settings }))("Web origins", (it) => {
  it.effect("a configured one reads every answer under /api/v1, and may ask before", function* () {
    const server = yield* shared
    const good = yield* goodRequests(server)
    for (const [sent, outcome] of [
      [good.version, 200],
      [good.me, 200],
      [good.login, 200],
      [telemetry("musicfrontendevents"), 204],
      [telemetry("musicclidaemon"), "origin_not_allowed"],
      [{ path: "/api/v1/nope" }, "not_found"],
      [{ path: good.login.path }, "method_not_allowed"],
      [{ path: good.me.path }, "unauthenticated"]
    ] as const) {
      const answer = yield* server.send(withHeaders({ origin })(sent))
      expect([sent.path, outcomeOf(answer)]).toEqual([sent.path, outcome])
      expect(answer.headers).toMatchObject({
        "access-control-allow-origin": origin,
        "access-control-expose-headers":
          "X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, X-Music-Min-Cli",
        vary: "Origin"
      })
      expect(answer.headers).not.toHaveProperty("access-control-allow-credentials")
    }
    const answer = yield* server.send(preflight("/api/v1/tings", origin))
    expect(answer).toMatchObject({
      status: 204,
      headers: {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": "POST, OPTIONS",
        "access-control-allow-headers":
          "Authorization, Content-Type, Idempotency-Key, X-Org-ID, X-Request-Id, X-Testing-Environment-Key, X-Music-Telemetry, X-Music-Source, X-Music-Client-Version, traceparent",
        "access-control-max-age": "600",
        allow: "POST, OPTIONS",
        vary: "Origin"
      }
    })
    const unasked = yield* server.send({ method: "OPTIONS", path: "/api/v1/tings", headers: { origin } })
    expect(corsHeaders(unasked)).toEqual(["access-control-allow-origin", "access-control-expose-headers"])
    expect(outcomeOf(yield* server.send(preflight("/api/v1/nope", origin)))).toBe("not_found")
  })

  it.effect("others, and other paths, are served without its headers", function* () {
    const server = yield* shared
    const { login } = yield* goodRequests(server)
    for (const other of others) {
      const answer = yield* server.send(withHeaders({ origin: other })(login))
      const asked = yield* server.send(preflight("/api/v1/tings", other))
      const found = [
        answer.status,
        corsHeaders(answer),
        answer.headers.vary,
        asked.status,
        corsHeaders(asked)
      ]
      expect([other, ...found]).toEqual([other, 200, [], "Origin", 204, []])
      const refused = yield* server.send(telemetry("musicfrontendevents", other))
      expect([other, outcomeOf(refused)]).toEqual([other, "origin_not_allowed"])
    }
    expect(used(server)).not.toContain("accept")
    for (const path of ["/healthz", "/openapi.json", "/webhook"])
      expect([path, corsHeaders(yield* server.send(preflight(path, origin)))]).toEqual([path, []])
  })
})

sharing(sharedInMemory())("Without configured origins", (it) => {
  it.effect("there are no headers, and no telemetry with an Origin", function* () {
    const server = yield* shared
    const answer = yield* server.send({ path: "/api/v1/version", headers: { origin } })
    expect([answer.status, corsHeaders(answer), answer.headers.vary]).toEqual([200, [], undefined])
    const outcomes = [telemetry("musicfrontendevents", origin), telemetry("musicfrontendevents")].map(
      server.send
    )
    expect((yield* Effect.all(outcomes)).map(outcomeOf)).toEqual(["origin_not_allowed", 204])
  })
})
