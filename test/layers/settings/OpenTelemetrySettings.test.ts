import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { type Environment, readSettings } from "../../../src/layers/settings/Settings.ts"
import { testApplicationSecret, testWebhookSecret } from "../../support/Settings.ts"

const required: Environment = {
  MUSIC_IAM_URL: "https://iam.example",
  MUSIC_TING_URL: "https://ting.example",
  MUSIC_IAM_APP_SECRET: testApplicationSecret,
  MUSIC_IAM_WEBHOOK_SECRET: testWebhookSecret
}

const read = (given: Environment) =>
  Effect.map(readSettings({ ...required, ...given }), ({ openTelemetry }) => openTelemetry)

const problemsOf = (given: Environment) => Effect.map(Effect.flip(read(given)), ({ problems }) => problems)

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" }

describe("OpenTelemetry's variables", () => {
  it.effect("do nothing without an endpoint, whatever they say", () =>
    Effect.gen(function* () {
      const off = yield* read({ OTEL_EXPORTER_OTLP_PROTOCOL: "grpc", OTEL_TRACES_SAMPLER: "never" })
      expect([Option.isNone(off.traces), Option.isNone(off.metrics)]).toEqual([true, true])
    })
  )

  it.effect("send both signals below one endpoint, with the documented defaults", () =>
    Effect.gen(function* () {
      const { metrics, resource, serviceName, traces } = yield* read({
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
        sampler: { parentBased: true, ratio: 1 }
      })
      expect(Option.getOrThrow(metrics)).toEqual({
        ...defaults,
        url: "http://collector:4318/base/v1/metrics",
        intervalMillis: 60_000
      })
      expect([serviceName, resource.size]).toEqual(["music-backend", 0])
    })
  )

  it.effect("of one signal go before those of both, and its endpoint is taken as it is", () =>
    Effect.gen(function* () {
      const { metrics, traces } = yield* read({
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
  )

  it.effect("name the service, and what else is told of it", () =>
    Effect.gen(function* () {
      const attributes = { OTEL_RESOURCE_ATTRIBUTES: "service.name=given,deployment.environment=a%2Cb" }
      const told = yield* read({ ...endpoint, ...attributes })
      expect(told.serviceName).toBe("given")
      expect(told.resource.get("deployment.environment")).toBe("a,b")
      expect((yield* read({ ...endpoint, ...attributes, OTEL_SERVICE_NAME: "own" })).serviceName).toBe("own")
    })
  )

  it.effect("choose what is kept", () =>
    Effect.gen(function* () {
      const chosen = (name: string, argument: string) =>
        Effect.map(
          read({ ...endpoint, OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: argument }),
          ({ traces }) => Option.getOrThrow(traces).sampler
        )
      expect(yield* chosen("always_off", "x")).toEqual({ parentBased: false, ratio: 0 })
      expect(yield* chosen("parentbased_always_on", "x")).toEqual({ parentBased: true, ratio: 1 })
      expect(yield* chosen("traceidratio", "0.25")).toEqual({ parentBased: false, ratio: 0.25 })
      expect(yield* chosen("parentbased_traceidratio", "")).toEqual({ parentBased: true, ratio: 1 })
    })
  )

  it.effect("turn a signal off, or all of it", () =>
    Effect.gen(function* () {
      const untraced = yield* read({ ...endpoint, OTEL_TRACES_EXPORTER: "none" })
      expect([Option.isNone(untraced.traces), Option.isSome(untraced.metrics)]).toEqual([true, true])
      const disabled = yield* read({ ...endpoint, OTEL_SDK_DISABLED: "TRUE" })
      expect([Option.isNone(disabled.traces), Option.isNone(disabled.metrics)]).toEqual([true, true])
    })
  )

  it.effect("that are bad are all listed, without a value", () =>
    Effect.gen(function* () {
      const problems = yield* problemsOf({
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
      expect(problems.map((line) => line.split(":")[0])).toEqual([
        "MUSIC_ADMIN_BIND",
        "OTEL_RESOURCE_ATTRIBUTES",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
        "OTEL_TRACES_SAMPLER",
        "OTEL_METRIC_EXPORT_INTERVAL"
      ])
      expect(problems.join()).not.toContain("secret")
      expect(
        yield* problemsOf({ ...endpoint, OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "2" })
      ).toEqual(["OTEL_TRACES_SAMPLER_ARG: must be from 0 to 1"])
      expect(yield* problemsOf({ ...endpoint, OTEL_METRICS_EXPORTER: "prometheus" })).toEqual([
        "OTEL_METRICS_EXPORTER: must be one of otlp, none"
      ])
    })
  )
})
