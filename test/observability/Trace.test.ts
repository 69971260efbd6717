import { randomUUID } from "node:crypto"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { call, expectJson, textOf } from "../../sandbox/HttpExchange.ts"
import { calls, keyed } from "../http/SandboxCalls.ts"
import { attributesOf, resourceIn, type Span, spansIn, startCollector } from "./Collector.ts"
import { scrape } from "./Exposition.ts"
import { anyPort, startObserved } from "./Observed.ts"
import { until } from "../support/Waiting.ts"

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
const callerSpan = "00f067aa0ba902b7"
const traceparent = `00-${traceId}-${callerSpan}-01`

/** A call that Ting makes to IAM, not this service. */
const tingsOwn = "/api/v1/obo-access/verify"

/** Runs a server to its end, so that every span is exported; returns the requests that the collector received. */
const traced = <A>(
  use: (server: Effect.Effect.Success<ReturnType<typeof startObserved>>) => Effect.Effect<A>
) =>
  Effect.gen(function* () {
    const collector = yield* startCollector()
    const scope = yield* Scope.make()
    const server = yield* Scope.extend(
      startObserved({ otlp: collector.url, settings: { adminBind: anyPort } }),
      scope
    )
    const result = yield* use(server)
    yield* Scope.close(scope, Exit.void)
    return { result, server, received: collector.received, spans: spansIn(collector.received) }
  })

const pathOf = (spans: ReadonlyArray<Span>, span: Span): ReadonlyArray<string> => {
  const parent = spans.find(({ spanId }) => spanId === span.parentSpanId)
  return parent === undefined ? [span.name] : [...pathOf(spans, parent), span.name]
}

describe("A login", () => {
  it.scopedLive("is one trace, from the caller's context through every upstream call", function* () {
    const { received, server, spans } = yield* traced((running) =>
      calls(running)
        .login({ traceparent, tracestate: "vendor=text", baggage: "user=text" })
        .pipe(Effect.orDie)
    )
    const login = spans.filter((span) => span.traceId === traceId)
    expect(
      login.filter(({ kind }) => kind === 2).map(({ name, parentSpanId }) => [name, parentSpanId])
    ).toEqual([["POST /api/v1/auth/login", callerSpan]])
    // Every other span descends from that one.
    expect(login.every((span) => pathOf(login, span)[0] === "POST /api/v1/auth/login")).toBe(true)

    const outward = login.filter(({ attributes }) => "peer.service" in attributesOf(attributes))
    expect(new Set(outward.map((span) => pathOf(login, span).slice(1).join(" > ")))).toEqual(
      new Set([
        "Sessions.login > GET /api/v1/obo-access/applications/ting/endpoints",
        "Sessions.login > Iam.exchange > POST /api/v1/app-auth/tokens",
        "Sessions.login > Iam.introspect > POST /api/v1/oauth/introspect",
        "Sessions.login > TingOnBehalf.register > Iam.prove > POST /api/v1/obo-access/exchanges",
        "Sessions.login > TingOnBehalf.register > Ting.register > POST /v1/subscriptions"
      ])
    )
    expect(login.map(({ name }) => name)).toContain("Recipients.activate")

    // Each system receives the span of its own call, and no text of the caller.
    expect(
      [...server.world.iam.seen, ...server.world.ting.seen].filter(
        ({ headers, path }) => path !== tingsOwn && (headers.has("tracestate") || headers.has("baggage"))
      )
    ).toEqual([])
    const propagated = [...server.world.iam.seen, ...server.world.ting.seen]
      .filter(({ path }) => path !== tingsOwn)
      .map(({ headers, method, path }) => [`${method} ${path}`, headers.get("traceparent")?.join()])
    expect(new Map(propagated.map(([name, header]) => [name, header]))).toEqual(
      new Map(outward.map(({ name, spanId }) => [name, `00-${traceId}-${spanId}-01`]))
    )
    expect(propagated).toHaveLength(outward.length)

    expect(resourceIn(received)).toMatchObject({ "service.name": "music-backend" })
    const line = server.log
      .map((text): Record<string, unknown> => JSON.parse(text))
      .find(({ message }) => message === "Request")
    expect(line).toMatchObject({ trace_id: traceId, actor: "silicon", route: "/api/v1/auth/login" })
  })
})

describe("Exported telemetry", () => {
  it.scopedLive(
    "contains no credential, no name and no text of a caller; every trace begins at a request or a delivery",
    function* () {
      const message = "The player stops after a seek."
      const secretKey = `key-${randomUUID()}`
      const { received, result, server, spans } = yield* traced((running) =>
        Effect.gen(function* () {
          const { get, login, post } = calls(running)
          const { refreshToken, session, signed } = yield* login()
          const refused = [
            post("/api/v1/auth/login", { slt: "oac_spent" }, keyed()),
            post("/api/v1/auth/refresh", { refresh_token: `ort_${"x".repeat(43)}` }, keyed()),
            get("/api/v1/auth/me", { authorization: `Bearer oat_${"y".repeat(43)}`, "x-org-id": "acme" }),
            get("/api/v1/secret-path?token=secret-query", {
              cookie: "a=secret-cookie",
              "x-silicon-iam-signature": "v1=secret-signature",
              "x-testing-environment-key": running.world.seeded.environment.musicSecret
            }),
            post("/api/v1/tings", { type: "music.trigger.fired", key: "c:other/1", data: {} }, signed)
          ]
          yield* Effect.all(refused)
          const ting = {
            type: "music.trigger.fired",
            key: "si:deejay/secret-ting",
            data: { a: "secret-data" }
          }
          yield* post("/api/v1/tings", ting, signed)
          yield* get("/api/v1/auth/me", signed)
          yield* post("/api/v1/reports", { message }, { "idempotency-key": secretKey, ...signed })
          yield* post("/api/v1/telemetry", { table: "musicclidaemon", events: [{ note: "secret-event" }] })
          running.world.iam.fail({ times: 1, fault: { kind: "drop" } })
          yield* get("/api/v1/auth/me", signed)
          const refreshed = yield* post("/api/v1/auth/refresh", { refresh_token: refreshToken }, keyed())
          const again = yield* expectJson(refreshed, 200)
          yield* post("/api/v1/auth/logout", { token: yield* textOf(again, "refresh_token") }, keyed())
          // The report is filed and the events are written in the background.
          yield* until(
            () =>
              running.world.tracker.seen.some(({ method }) => method === "POST") &&
              running.world.tables.seen.length > 0
          )
          return { metrics: yield* scrape(running.admin), session }
        }).pipe(Effect.orDie)
      )
      const text = [result.metrics, ...received.map(({ body }) => body.toString("utf8"))].join("\n")
      const secrets = [
        ...server.world.minted(),
        "oac_spent",
        secretKey,
        message,
        "secret-",
        "deejay",
        "acme",
        "xxxxxxxx",
        "yyyyyyyy"
      ]
      expect(secrets.filter((secret) => text.includes(secret))).toEqual([])
      expect(spans.length).toBeGreaterThan(60)
      const ids = new Set(spans.map(({ spanId }) => spanId))
      const roots = spans.filter(({ parentSpanId }) => parentSpanId === undefined || !ids.has(parentSpanId))
      expect(
        roots.filter(({ kind, name }) => kind !== 2 && !/^(?:ReportFiling|Tables)\./.test(name))
      ).toEqual([])
      expect(roots.map(({ name }) => name)).toEqual(
        expect.arrayContaining(["GET", "ReportFiling.handle", "Tables.write"])
      )
    }
  )
})

describe("Without OpenTelemetry", () => {
  it.scopedLive("does not propagate a caller's trace context", function* () {
    const { base, world } = yield* startObserved()
    yield* call(`${base}/api/v1/auth/login`, {
      method: "POST",
      body: { slt: "oac_unknown" },
      headers: { ...keyed(), traceparent }
    })
    expect(world.iam.seen.length).toBeGreaterThan(0)
    expect(world.iam.seen.filter(({ headers }) => headers.has("traceparent") || headers.has("b3"))).toEqual(
      []
    )
  })
})
