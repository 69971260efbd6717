/** The SDK of OpenTelemetry, which reads its own variables. Loaded only where spans are sent. */
import * as NodeSdk from "@effect/opentelemetry/NodeSdk"
import { Resource } from "@effect/opentelemetry/Resource"
import * as Tracer from "@effect/opentelemetry/Tracer"
import { diag, DiagLogLevel } from "@opentelemetry/api"
import { ExportResultCode } from "@opentelemetry/core"
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http"
import { detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources"
import { BatchSpanProcessor, type SpanExporter } from "@opentelemetry/sdk-trace-base"
import * as Effect from "effect/Effect"
import { constVoid } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import { version } from "../../schema/Release.ts"
import { Spans } from "../../services/Tracing.ts"
import { otlpExports, recordNow } from "../../services/Metrics.ts"

/** What replaces the variables, for the sandbox and for tests. */
export interface SpanTarget {
  /** The address of the collector, with its path. */
  readonly url?: string
  /** Milliseconds between two exports. */
  readonly scheduledDelayMillis?: number
}

const resource = Layer.sync(Resource, () =>
  resourceFromAttributes({ "service.name": "music-backend", "service.version": version }).merge(
    detectResources({ detectors: [envDetector] })
  )
)

const logWith = (run: (line: Effect.Effect<void>) => void) => {
  // A refused address in quotes may hold a password.
  const warn = (message: string): void =>
    run(Effect.logWarning(`OpenTelemetry: ${message.replace(/'.*'/s, "'…'")}`))
  return { error: warn, warn, info: constVoid, debug: constVoid, verbose: constVoid }
}

/** Counts the batches, and logs when the collector stops or starts to take them. */
const counted = (exporter: SpanExporter, run: (line: Effect.Effect<void>) => void): SpanExporter => {
  const seriesOf = (result: string) => otlpExports({ signal: "traces", result })
  for (const result of ["ok", "failed"]) recordNow(seriesOf(result), 0)
  let failing = false
  const record = (error: Error | undefined): void => {
    recordNow(seriesOf(error === undefined ? "ok" : "failed"), 1)
    const changed = failing !== (error !== undefined)
    failing = error !== undefined
    if (changed)
      run(
        error === undefined
          ? Effect.logInfo("The OpenTelemetry collector accepts our spans again")
          : Effect.logWarning("The OpenTelemetry collector does not accept our spans", {
              reason: "code" in error ? `${error.code}: ${error.message}` : error.message
            })
      )
  }
  return {
    export: (spans, done) =>
      exporter.export(spans, ({ error }) => {
        record(error)
        // The processor does nothing about a failure but log it each time.
        done({ code: ExportResultCode.SUCCESS })
      }),
    shutdown: () => exporter.shutdown()
  }
}

export const exportSpans = ({ scheduledDelayMillis, url }: SpanTarget): Layer.Layer<never> =>
  Layer.unwrapScoped(
    Effect.gen(function* () {
      const runSync = Runtime.runSync(yield* Effect.runtime<never>())
      yield* Effect.acquireRelease(
        Effect.sync(() =>
          diag.setLogger(logWith(runSync), { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
        ),
        () => Effect.sync(() => diag.disable())
      )
      const exporter = new OTLPTraceExporter(url === undefined ? {} : { url })
      const processor = new BatchSpanProcessor(
        counted(exporter, runSync),
        scheduledDelayMillis === undefined ? {} : { scheduledDelayMillis }
      )
      return Tracer.layer.pipe(
        Layer.provide(NodeSdk.layerTracerProvider(processor, { shutdownTimeout: "1 second" })),
        Layer.provide(resource),
        Layer.merge(Layer.succeed(Spans, { remoteSpan: Tracer.makeExternalSpan }))
      )
    })
  )
