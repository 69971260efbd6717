import { OtlpSerialization } from "@effect/opentelemetry/OtlpSerialization"
import * as OtlpTracer from "@effect/opentelemetry/OtlpTracer"
import * as HttpClient from "@effect/platform/HttpClient"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { Connections } from "../upstream/Connections.ts"
import { flushMillis, makeOtlpClient, resourceOf, serializationOf } from "./OtlpClient.ts"
import { filterSpans } from "./SpanFilter.ts"

type OpenTelemetry = SettingsValues["openTelemetry"]

/** Spans in one request to the collector: a larger one would hold the event loop for too long. */
const maxBatchSize = 512

/** The part of an export request that is changed here. */
interface SpanBatch {
  readonly resourceSpans: ReadonlyArray<{
    readonly scopeSpans: ReadonlyArray<{
      readonly spans: ReadonlyArray<{ attributes: ReadonlyArray<{ readonly key: string }> }>
    }>
  }>
}

const interruptedKeys = ["span.label", "status.interrupted"]

/** Removes the attributes by which Effect (0.64.1) marks every failed span as an interrupted one. */
const withoutInterruptedMarks = Effect.map(OtlpSerialization, (serialization) => ({
  ...serialization,
  traces: (data: unknown) => {
    // The shape that the exporter passes; its types are not exported.
    for (const { scopeSpans } of (data as SpanBatch).resourceSpans)
      for (const { spans } of scopeSpans)
        for (const span of spans)
          span.attributes = span.attributes.filter(({ key }) => !interruptedKeys.includes(key))
    return serialization.traces(data)
  }
}))

const otlpTracer = (
  openTelemetry: OpenTelemetry,
  target: Option.Option.Value<OpenTelemetry["traces"]>
): Layer.Layer<never> =>
  Layer.unwrapScoped(
    Effect.gen(function* () {
      const client = yield* makeOtlpClient("traces", target)
      const tracer = yield* OtlpTracer.make({
        url: target.url,
        resource: resourceOf(openTelemetry),
        maxBatchSize,
        exportInterval: target.intervalMillis,
        shutdownTimeout: flushMillis
      }).pipe(
        Effect.provideService(HttpClient.HttpClient, client),
        Effect.provideServiceEffect(OtlpSerialization, withoutInterruptedMarks),
        // The settings hold the resource; Effect would add what it reads from the environment itself.
        Effect.withConfigProvider(ConfigProvider.fromMap(new Map()))
      )
      return Layer.setTracer(filterSpans(tracer, target.sampler))
    })
  ).pipe(Layer.provide([serializationOf[target.protocol], Connections]))

/** Sends spans over OTLP when the settings name a collector; otherwise no layer above makes any span. */
export const TracingLive: Layer.Layer<never, never, Settings> = Layer.unwrapEffect(
  Effect.map(Settings, ({ openTelemetry }) =>
    Option.match(openTelemetry.traces, {
      onNone: () => Layer.setTracerEnabled(false),
      onSome: (target) => otlpTracer(openTelemetry, target)
    })
  )
)
