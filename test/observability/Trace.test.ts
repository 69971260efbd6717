import { randomUUID } from "node:crypto"
import { text } from "node:stream/consumers"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { Effect } from "effect"
import { expectJson, textOf } from "../../sandbox/HttpExchange.ts"
import { parse, scrape, since, sum } from "./Exposition.ts"
import { keyed, type Observed, startObserved } from "./Observed.ts"
import { rawServer } from "../layers/upstream/Simulated.ts"
import { until } from "../world/Waiting.ts"

/** OTLP as JSON. */
interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number
  readonly status: { readonly code: number }
  readonly attributes: ReadonlyArray<{
    readonly key: string
    readonly value: { readonly intValue?: number }
  }>
}

type Scopes = ReadonlyArray<{ readonly spans: ReadonlyArray<Span> }>

const spansIn = (body: string): ReadonlyArray<Span> => {
  const found: { readonly resourceSpans: ReadonlyArray<{ readonly scopeSpans: Scopes }> } = JSON.parse(body)
  return found.resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
}

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
const callerSpan = "00f067aa0ba902b7"
const traceparent = `00-${traceId}-${callerSpan}-01`

/** A call that Ting makes to IAM, not this service. */
const tingsOwn = "/api/v1/obo-access/verify"

/** A server that exports to this address. `end` exports its last spans. */
const exporting = (
  OTEL_EXPORTER_OTLP_ENDPOINT: string,
  { variables, ...options }: Parameters<typeof startObserved>[0] = {}
) => startObserved({ ...options, variables: { OTEL_EXPORTER_OTLP_ENDPOINT, ...variables } })

/** Runs a server to its end; returns the requests that its collector received. */
const traced = <A>(
  use: (server: Observed) => Effect.Effect<A, unknown>,
  options?: Parameters<typeof startObserved>[0]
) =>
  Effect.gen(function* () {
    const received: Array<string> = []
    const { url } = yield* rawServer(async (request, response) => {
      received.push(await text(request))
      response.writeHead(200, { "content-type": "application/json" }).end("{}")
    })
    const server = yield* exporting(url, options)
    const result = yield* Effect.orDie(use(server))
    yield* server.end
    return { result, server, received, spans: received.flatMap(spansIn) }
  })

const pathOf = (spans: ReadonlyArray<Span>, span: Span): ReadonlyArray<string> => {
  const parent = spans.find(({ spanId }) => spanId === span.parentSpanId)
  return parent === undefined ? [span.name] : [...pathOf(spans, parent), span.name]
}

it.scopedLive("A login is one trace, from the caller's context through every upstream call", function* () {
  const { received, server, spans } = yield* traced(({ login }) =>
    login({ traceparent, tracestate: "vendor=text", baggage: "user=text" })
  )
  const login = spans.filter((span) => span.traceId === traceId)
  const requests = login.filter(({ kind }) => kind === 2)
  expect(requests).toMatchObject([{ name: "POST /api/v1/auth/login", parentSpanId: callerSpan }])
  // Every other span descends from that one.
  expect(login.every((span) => pathOf(login, span)[0] === "POST /api/v1/auth/login")).toBe(true)
  const outward = login.filter(({ attributes }) => attributes.some(({ key }) => key === "peer.service"))
  expect(new Set(outward.map((span) => pathOf(login, span).slice(1).join(" > ")))).toEqual(
    new Set([
      "GET /api/v1/obo-access/applications/ting/endpoints",
      "POST /api/v1/app-auth/tokens",
      "POST /api/v1/oauth/introspect",
      "POST /api/v1/obo-access/exchanges",
      "POST /v1/subscriptions"
    ])
  )

  // Each system receives the span of its own call, and no text of the caller.
  const { iam, ting } = server.world
  const seen = [...iam.seen, ...ting.seen].filter(({ path }) => path !== tingsOwn)
  expect(seen.filter(({ headers }) => headers.has("tracestate") || headers.has("baggage"))).toEqual([])
  expect(
    seen.map(({ headers, method, path }) => [`${method} ${path}`, headers.get("traceparent")]).sort()
  ).toEqual(outward.map(({ name, spanId }) => [name, [`00-${traceId}-${spanId}-01`]]).sort())
  expect(received[0]).toContain('{"key":"service.name","value":{"stringValue":"music-backend"}}')
  const lines = server.log.map((line): Record<string, unknown> => JSON.parse(line))
  const line = { trace_id: traceId, actor: "silicon", route: "/api/v1/auth/login" }
  expect(lines.find(({ message }) => message === "Request")).toMatchObject(line)
})

it.scopedLive("Spans and metrics have no credential, no name and no text of a caller", function* () {
  const secretKey = `key-${randomUUID()}`
  const unknown = { access: `oat_${"y".repeat(43)}`, refresh: `ort_${"x".repeat(43)}` }
  const { received, result, server, spans } = yield* traced(({ admin, get, login, post, world }) =>
    Effect.gen(function* () {
      const { refreshToken, signed } = yield* login()
      yield* post("/api/v1/auth/login", { slt: "oac_spent" }, keyed())
      yield* post("/api/v1/auth/refresh", { refresh_token: unknown.refresh }, keyed())
      yield* get("/api/v1/auth/me", { authorization: `Bearer ${unknown.access}`, "x-org-id": "acme" })
      yield* get("/api/v1/secret-path?token=secret-query", {
        cookie: "a=secret-cookie",
        "x-silicon-iam-signature": "v1=secret-signature",
        "x-testing-environment-key": world.seeded.environment.musicSecret,
        traceparent: "00-secret-trace-01"
      })
      const ting = { type: "music.trigger.fired", key: "si:deejay/secret-ting", data: { a: "secret-data" } }
      yield* post("/api/v1/tings", ting, signed)
      const report = { message: "secret-message" }
      yield* post("/api/v1/reports", report, { "idempotency-key": secretKey, ...signed })
      yield* post("/api/v1/telemetry", { table: "musicclidaemon", events: [{ note: "secret-event" }] })
      // A lost call is repeated once.
      world.iam.fail({ times: 3, fault: { kind: "drop" } })
      for (const status of [503, 200]) expect((yield* get("/api/v1/auth/me", signed)).status).toBe(status)
      const refreshed = yield* post("/api/v1/auth/refresh", { refresh_token: refreshToken }, keyed())
      const token = yield* textOf(yield* expectJson(refreshed, 200), "access_token")
      yield* post("/api/v1/auth/logout", { token }, keyed())
      // The report is filed and the events are written in the background.
      yield* until(
        () => world.tracker.seen.some(({ method }) => method === "POST") && world.tables.seen.length > 0
      )
      return yield* scrape(admin)
    })
  )
  const exposed = [result, ...received].join("\n")
  const names = ["oac_spent", secretKey, "secret-", "deejay", "acme", ...Object.values(unknown)]
  expect([...server.world.minted(), ...names].filter((secret) => exposed.includes(secret))).toEqual([])
  // Only a 5xx is an error.
  const answers = spans.flatMap(({ attributes, kind, status }) => {
    const code = attributes.find(({ key }) => key === "http.response.status_code")?.value.intValue
    return kind === 2 ? [{ code: Number(code), isError: status.code === 2 }] : []
  })
  expect(answers.filter(({ code, isError }) => isError !== code >= 500)).toEqual([])
  expect(answers).toEqual(expect.arrayContaining([{ code: 503, isError: true }]))
  // Every trace begins at a request or a delivery.
  const ids = spans.map(({ spanId }) => spanId)
  const roots = spans.filter(({ parentSpanId = "" }) => !ids.includes(parentSpanId))
  const others = roots.filter(
    ({ kind, name }) => kind !== 2 && !/^(?:ReportFiling|TelemetryShipping)\./.test(name)
  )
  expect(others).toEqual([])
  expect(roots.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["GET", "ReportFiling.handle", "TelemetryShipping.ship"])
  )
})

describe("A collector", () => {
  it.scopedLive("that refuses connections is logged once and counted, and requests are served", function* () {
    const { admin, get, log, login } = yield* exporting("http://127.0.0.1:1", {
      variables: { OTEL_EXPORTER_OTLP_TIMEOUT: "100", OTEL_BSP_SCHEDULE_DELAY: "50" }
    })
    const before = parse(yield* scrape(admin))
    const { signed } = yield* login()
    const failed = Effect.map(scrape(admin), (text) =>
      sum(since(before, parse(text)), "music_otlp_exports_total", { signal: "traces", result: "failed" })
    )
    for (let count = 0; count < 3; count = yield* failed) {
      expect((yield* get("/api/v1/auth/me", signed)).status).toBe(200)
      yield* Effect.sleep("50 millis")
    }
    const lines = log.filter((line) => /collector|OpenTelemetry/.test(line))
    expect(lines).toEqual([expect.stringContaining("does not accept our spans")])
    expect(lines.join()).toContain("ECONNREFUSED")
  })

  it.scopedLive("whose answer is no JSON is logged without its text", function* () {
    const { url } = yield* rawServer((_, response) => void response.end("secret-word"))
    const { end, log, login } = yield* exporting(url)
    yield* login()
    yield* end
    expect(log.join("\n")).toMatch(/^(?!.*secret-word).*OpenTelemetry: /s)
  })

  it.scopedLive("that never answers delays neither a request nor the end of the process", function* () {
    const hanging = yield* rawServer(() => {})
    const { end, login } = yield* exporting(hanging.url, {
      variables: { OTEL_EXPORTER_OTLP_TIMEOUT: "120000" }
    })
    yield* login()
    const begun = performance.now()
    yield* end
    // Far below the timeout of the collector.
    expect(performance.now() - begun).toBeLessThan(60_000)
  })
})

describe("OpenTelemetry's variables", () => {
  it.scopedLive("turn traces off", function* () {
    const { received, server } = yield* traced(({ login }) => login({ traceparent }), {
      variables: { OTEL_SDK_DISABLED: "True" }
    })
    expect(received).toEqual([])
    expect(server.world.iam.seen.some(({ headers }) => headers.has("traceparent"))).toBe(false)
  })

  it.scopedLive("with an address that is none end no process and show no password", function* () {
    const OTEL_EXPORTER_OTLP_TRACES_ENDPOINT = "http://operator:secret-word@collector host:4318"
    const { end, log, login } = yield* exporting("", {
      variables: { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT }
    })
    yield* login()
    yield* until(() => log.some((line) => line.includes("Could not parse")))
    yield* end
    expect(log.join("\n")).not.toContain("secret-word")
  })
})
