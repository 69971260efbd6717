import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { startCollector } from "./Collector.ts"
import { parse, scrape, since, sum } from "./Exposition.ts"
import { calls, startObserved } from "./Observed.ts"
import { rawServer } from "../layers/upstream/Simulated.ts"
import { until } from "../world/Waiting.ts"

type Variables = Readonly<Record<string, string>>

/** A server with these variables until `end`, which exports its last spans. */
const exporting = (OTEL_EXPORTER_OTLP_ENDPOINT: string, change: Variables = {}) =>
  Effect.gen(function* () {
    const variables = { OTEL_EXPORTER_OTLP_ENDPOINT, ...change }
    const scope = yield* Scope.make()
    const server = yield* Scope.extend(startObserved({ variables }), scope)
    return { ...server, ...calls(server), end: Scope.close(scope, Exit.void) }
  })

describe("A collector", () => {
  it.scopedLive("that refuses connections is logged once and counted, and requests are served", function* () {
    const short = { OTEL_EXPORTER_OTLP_TIMEOUT: "100", OTEL_BSP_SCHEDULE_DELAY: "50" }
    const { admin, get, log, login } = yield* exporting("http://127.0.0.1:1", short)
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

  it.scopedLive("that never answers delays neither a request nor the end of the process", function* () {
    const hanging = yield* rawServer(() => {})
    const { end, login } = yield* exporting(hanging.url, { OTEL_EXPORTER_OTLP_TIMEOUT: "120000" })
    yield* login()
    const begun = performance.now()
    yield* end
    // Far below the timeout of the collector.
    expect(performance.now() - begun).toBeLessThan(60_000)
  })
})

describe("OpenTelemetry's variables", () => {
  it.scopedLive.each([
    ["OTEL_SDK_DISABLED", "True"],
    ["OTEL_TRACES_EXPORTER", "none"]
  ] as const)("turn traces off: %s=%s", function* ([name, value]) {
    const collector = yield* startCollector()
    const { end, login, world } = yield* exporting(collector.url, { [name]: value })
    yield* login({ traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" })
    yield* end
    expect(collector.received).toEqual([])
    expect(world.iam.seen.some(({ headers }) => headers.has("traceparent"))).toBe(false)
  })

  it.scopedLive("with an address that is none end no process and show no password", function* () {
    const OTEL_EXPORTER_OTLP_TRACES_ENDPOINT = "http://operator:secret-word@collector host:4318"
    const { end, log, login } = yield* exporting("", { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT })
    yield* login()
    yield* until(() => log.some((line) => line.includes("Could not parse")))
    yield* end
    expect(log.join("\n")).not.toContain("secret-word")
  })
})
