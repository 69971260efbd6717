import { gunzipSync } from "node:zlib"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import type { OtlpTarget } from "../../src/services/Settings.ts"
import { startCollector } from "./Collector.ts"
import { parse, scrape, sum } from "./Exposition.ts"
import { calls, everything, otlpTo, startObserved } from "./Observed.ts"
import { rawServer } from "../layers/upstream/Simulated.ts"
import { until } from "../world/Waiting.ts"

/** A server that exports to this address until `end`. */
const exporting = (url: string, change: Partial<OtlpTarget> = {}, signals = ["traces", "metrics"]) =>
  Effect.gen(function* () {
    const target = { ...otlpTo(url), ...change }
    const traces = { ...target, url: `${url}/v1/traces`, sampler: everything, intervalMillis: 5_000 }
    const metrics = { ...target, url: `${url}/v1/metrics`, intervalMillis: 100 }
    const openTelemetry = {
      serviceName: "music-backend",
      resource: new Map(),
      traces: Option.some(traces),
      metrics: signals.includes("metrics") ? Option.some(metrics) : Option.none()
    }
    const scope = yield* Scope.make()
    const server = yield* Scope.extend(startObserved({ settings: { openTelemetry } }), scope)
    return { ...server, ...calls(server), end: Scope.close(scope, Exit.void) }
  })

describe("A collector", () => {
  it.scopedLive("that refuses connections is logged once, and requests are served", function* () {
    const { admin, end, get, log, login } = yield* exporting("http://127.0.0.1:1", { timeoutMillis: 200 })
    const { signed } = yield* login()
    for (let call = 0; call < 3; call += 1) expect((yield* get("/api/v1/auth/me", signed)).status).toBe(200)
    yield* until(() => log.some((line) => line.includes("does not accept our batches")))
    const failed = sum(parse(yield* scrape(admin)), "music_otlp_exports_total", { result: "failed" })
    expect(failed).toBeGreaterThan(0)
    yield* end
    expect(log.filter((line) => line.includes('"signal":"metrics"'))).toHaveLength(1)
  })

  it.scopedLive("that never answers delays neither a request nor the end of the process", function* () {
    const hanging = yield* rawServer(() => {})
    const { end, login } = yield* exporting(hanging.url, { timeoutMillis: 120_000 }, ["traces"])
    yield* login()
    const begun = performance.now()
    yield* end
    // Far below the timeout of the collector.
    expect(performance.now() - begun).toBeLessThan(60_000)
  })

  it.scopedLive("receives compressed protobuf with the headers of the settings", function* () {
    const collector = yield* startCollector()
    const { end, log, login } = yield* exporting(collector.url, {
      protocol: "http/protobuf",
      compression: "gzip",
      headers: new Map([["x-team", Redacted.make("secret-header")]])
    })
    yield* login()
    yield* end
    for (const [path, text] of [
      ["/v1/traces", "POST /api/v1/auth/login"],
      ["/v1/metrics", "music_http_requests_total"]
    ] as const) {
      const last = collector.received.filter((one) => one.path === path).at(-1)
      const sent = { "content-type": "application/x-protobuf", "content-encoding": "gzip" }
      expect(last?.headers).toMatchObject({ ...sent, "x-team": "secret-header" })
      expect(gunzipSync(last?.body ?? Buffer.alloc(0)).toString("latin1")).toContain(text)
    }
    expect(log.join("\n")).not.toContain("secret-header")
  })
})
