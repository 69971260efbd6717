import { describe, expect, it } from "@effect/vitest"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { type Environment, readSettings } from "../../../src/layers/settings/Settings.ts"
import { testEnvironment } from "../../support/Settings.ts"

const problemsOf = (given: Environment) => readSettings({ ...testEnvironment, ...given }).problems

const read = (given: Environment) => {
  expect(problemsOf(given)).toEqual([])
  return readSettings({ ...testEnvironment, ...given }).settings.openTelemetry
}

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" }

describe("OpenTelemetry's variables", () => {
  it("are not read without an endpoint", () => {
    const off = read({ OTEL_EXPORTER_OTLP_PROTOCOL: "grpc", OTEL_TRACES_SAMPLER: "never" })
    expect([Option.isNone(off.traces), Option.isNone(off.metrics)]).toEqual([true, true])
  })

  it("send both signals to paths below one endpoint, with the documented defaults", () => {
    const { metrics, resource, serviceName, traces } = read({
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318/base/"
    })
    const defaults = {
      protocol: "http/json",
      headers: new Map(),
      timeoutMillis: 10_000,
      compression: "none"
    }
    expect(Option.getOrThrow(traces)).toEqual({
      ...defaults,
      url: "http://collector:4318/base/v1/traces",
      sampler: { parentBased: true, ratio: 1 },
      intervalMillis: 5_000
    })
    expect(Option.getOrThrow(metrics)).toEqual({
      ...defaults,
      url: "http://collector:4318/base/v1/metrics",
      intervalMillis: 60_000
    })
    expect([serviceName, resource.size]).toEqual(["music-backend", 0])
  })

  it("of one signal take precedence, and the endpoint of one signal is used as written", () => {
    const { metrics, traces } = read({
      ...endpoint,
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://traces.example/in",
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/protobuf",
      OTEL_EXPORTER_OTLP_COMPRESSION: "gzip",
      OTEL_EXPORTER_OTLP_METRICS_TIMEOUT: "500",
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20abc, x-team=music",
      OTEL_METRIC_EXPORT_INTERVAL: "15000"
    })
    expect(Option.getOrThrow(traces)).toMatchObject({
      url: "https://traces.example/in",
      protocol: "http/protobuf",
      compression: "gzip",
      timeoutMillis: 10_000
    })
    const sent = Option.getOrThrow(metrics)
    expect(sent).toMatchObject({
      url: "http://collector:4318/v1/metrics",
      protocol: "http/json",
      timeoutMillis: 500,
      intervalMillis: 15_000
    })
    expect([...sent.headers].map(([name, value]) => [name, Redacted.value(value)])).toEqual([
      ["authorization", "Bearer abc"],
      ["x-team", "music"]
    ])
    expect(JSON.stringify([...sent.headers])).not.toContain("abc")
  })

  it("select the sampler, whose argument counts only for ratios", () => {
    const chosen = (name: string, argument: string) =>
      Option.getOrThrow(
        read({ ...endpoint, OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: argument }).traces
      ).sampler
    expect(chosen("always_off", "x")).toEqual({ parentBased: false, ratio: 0 })
    expect(chosen("parentbased_always_on", "x")).toEqual({ parentBased: true, ratio: 1 })
    expect(chosen("traceidratio", "0.25")).toEqual({ parentBased: false, ratio: 0.25 })
    expect(chosen("parentbased_traceidratio", "")).toEqual({ parentBased: true, ratio: 1 })
  })

  it("report every bad value at once, without the value", () => {
    const problems = problemsOf({
      MUSIC_ADMIN_BIND: "9464",
      OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318",
      OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "grpc",
      OTEL_EXPORTER_OTLP_HEADERS: "secret",
      OTEL_EXPORTER_OTLP_TIMEOUT: "10s",
      OTEL_EXPORTER_OTLP_COMPRESSION: "br",
      OTEL_TRACES_SAMPLER: "jaeger_remote",
      OTEL_RESOURCE_ATTRIBUTES: "a=%",
      OTEL_METRIC_EXPORT_INTERVAL: "0"
    })
    expect(problems.map(({ name }) => name)).toEqual([
      "MUSIC_ADMIN_BIND",
      "OTEL_EXPORTER_OTLP_ENDPOINT",
      "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
      "OTEL_EXPORTER_OTLP_HEADERS",
      "OTEL_EXPORTER_OTLP_TIMEOUT",
      "OTEL_EXPORTER_OTLP_COMPRESSION",
      "OTEL_RESOURCE_ATTRIBUTES",
      "OTEL_TRACES_SAMPLER",
      "OTEL_METRIC_EXPORT_INTERVAL"
    ])
    expect(JSON.stringify(problems)).not.toContain("secret")
    expect(
      problemsOf({ ...endpoint, OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "2" })
    ).toEqual([{ name: "OTEL_TRACES_SAMPLER_ARG", problem: "must be from 0 to 1" }])
    expect(problemsOf({ ...endpoint, OTEL_METRICS_EXPORTER: "prometheus" })).toEqual([
      { name: "OTEL_METRICS_EXPORTER", problem: "must be one of otlp, none" }
    ])
  })
})
