import { gunzipSync } from "node:zlib"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import type { OtlpTarget, SettingsValues } from "../../src/services/Settings.ts"
import { calls } from "../http/SandboxCalls.ts"
import { startCollector } from "./Collector.ts"
import { parse, scrape, sum } from "./Exposition.ts"
import { anyPort, everything, otlpTo, startObserved } from "./Observed.ts"
import { rawServer } from "../layers/upstream/Simulated.ts"
import { until } from "../support/Waiting.ts"

const both = (url: string, change: Partial<OtlpTarget> = {}): SettingsValues["openTelemetry"] => ({
  serviceName: "music-backend",
  resource: new Map(),
  traces: Option.some({
    ...otlpTo(`${url}/v1/traces`),
    ...change,
    sampler: everything,
    intervalMillis: 5_000
  }),
  metrics: Option.some({ ...otlpTo(`${url}/v1/metrics`), ...change, intervalMillis: 100 })
})

const millisOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const startedAt = performance.now()
    return Effect.map(effect, () => performance.now() - startedAt)
  })

describe("An unavailable collector", () => {
  it.scopedLive("that refuses connections is logged once, and requests are served", function* () {
    const scope = yield* Scope.make()
    const server = yield* Scope.extend(
      startObserved({
        settings: { adminBind: anyPort, openTelemetry: both("http://127.0.0.1:1", { timeoutMillis: 200 }) }
      }),
      scope
    )
    const { get, login } = calls(server)
    const { signed } = yield* login()
    for (let call = 0; call < 3; call += 1) expect((yield* get("/api/v1/auth/me", signed)).status).toBe(200)
    yield* until(() => server.log.some((line) => line.includes("does not accept our batches")))
    const failed = sum(parse(yield* scrape(server.admin)), "music_otlp_exports_total", { result: "failed" })
    expect(failed).toBeGreaterThan(0)
    yield* Scope.close(scope, Exit.void)
    const logged = server.log.filter((line) => line.includes('"signal":"metrics"'))
    expect(logged).toHaveLength(1)
  })

  it.scopedLive("that never answers delays neither a request nor the end of the process", function* () {
    const hanging = yield* rawServer(() => {})
    const scope = yield* Scope.make()
    const server = yield* Scope.extend(
      startObserved({
        settings: {
          openTelemetry: { ...both(hanging.url, { timeoutMillis: 120_000 }), metrics: Option.none() }
        }
      }),
      scope
    )
    yield* calls(server).login()
    // Far below the timeout of the collector.
    expect(yield* millisOf(Scope.close(scope, Exit.void))).toBeLessThan(60_000)
  })
})

describe("A collector", () => {
  it.scopedLive("receives compressed protobuf with the headers of the settings", function* () {
    const collector = yield* startCollector()
    const scope = yield* Scope.make()
    const server = yield* Scope.extend(
      startObserved({
        settings: {
          openTelemetry: both(collector.url, {
            protocol: "http/protobuf",
            compression: "gzip",
            headers: new Map([["x-team", Redacted.make("secret-header")]])
          })
        }
      }),
      scope
    )
    yield* calls(server).login()
    yield* Scope.close(scope, Exit.void)
    for (const [path, text] of [
      ["/v1/traces", "POST /api/v1/auth/login"],
      ["/v1/metrics", "music_http_requests_total"]
    ] as const) {
      const last = collector.received.filter((one) => one.path === path).at(-1)
      expect(last?.headers).toMatchObject({
        "content-type": "application/x-protobuf",
        "content-encoding": "gzip",
        "x-team": "secret-header"
      })
      expect(gunzipSync(last?.body ?? Buffer.alloc(0)).toString("latin1")).toContain(text)
    }
    expect(server.log.join("\n")).not.toContain("secret-header")
  })
})
