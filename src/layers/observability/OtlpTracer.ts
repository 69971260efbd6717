/** Spans over OTLP. Loaded only when they are sent. */
import * as OtelTracer from "@effect/opentelemetry/Tracer"
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler
} from "@opentelemetry/sdk-trace-base"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import { version } from "../../schema/Release.ts"
import type { SettingsValues, TraceSampler } from "../../services/Settings.ts"
import { traceExporter } from "./Exporters.ts"
import { flushMillis, resourceOf } from "./Resource.ts"
import { spanFilterOf } from "./SpanFilter.ts"

type OpenTelemetry = SettingsValues["openTelemetry"]
type Traced = Omit<OpenTelemetry, "traces"> & {
  readonly traces: Option.Option.Value<OpenTelemetry["traces"]>
}

const rootSampler = (ratio: number): Sampler =>
  ratio === 1
    ? new AlwaysOnSampler()
    : ratio === 0
      ? new AlwaysOffSampler()
      : new TraceIdRatioBasedSampler(ratio)

const samplerOf = ({ parentBased, ratio }: TraceSampler): Sampler =>
  parentBased ? new ParentBasedSampler({ root: rootSampler(ratio) }) : rootSampler(ratio)

const provider = (settings: Traced) =>
  Effect.acquireRelease(
    Effect.map(
      traceExporter(settings.traces),
      (exporter) =>
        new BasicTracerProvider({
          resource: resourceOf(settings),
          sampler: samplerOf(settings.traces.sampler),
          spanProcessors: [new BatchSpanProcessor(exporter)]
        })
    ),
    (made) =>
      // A collector that is away must not hold the process up, nor fail its end.
      Effect.tryPromise(() => made.shutdown()).pipe(
        Effect.ignore,
        Effect.interruptible,
        Effect.timeoutOption(flushMillis)
      )
  )

/** The tracer of every layer above. */
export const otlpTracer = (settings: Traced): Layer.Layer<never> =>
  Layer.unwrapScoped(
    Effect.gen(function* () {
      const tracer = (yield* provider(settings)).getTracer("music-backend", version)
      return Layer.setTracer(
        spanFilterOf(yield* Effect.provideService(OtelTracer.make, OtelTracer.OtelTracer, tracer))
      )
    })
  )
