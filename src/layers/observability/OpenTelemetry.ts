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
import { otlpExports, recordNow } from "../../services/Metrics.ts"
import { Spans } from "../../services/Tracing.ts"

/** Counts the batches of an exporter, and logs when the collector stops or starts to take them. */
const counted = (exporter: SpanExporter, log: (line: Effect.Effect<void>) => void): SpanExporter => {
  let isAway = false
  return {
    export: (spans, done) =>
      exporter.export(spans, ({ error }) => {
        recordNow(otlpExports({ signal: "traces", result: error === undefined ? "ok" : "failed" }), 1)
        if (error !== undefined && !isAway) {
          // Its text is the collector's, or holds its address.
          const reason = "code" in error ? String(error.code) : error.name
          log(Effect.logWarning("The OpenTelemetry collector does not accept our spans", { reason }))
        }
        if (error === undefined && isAway)
          log(Effect.logInfo("The OpenTelemetry collector accepts our spans again"))
        isAway = error !== undefined
        // The processor does nothing about a failure but log it each time.
        done({ code: ExportResultCode.SUCCESS })
      }),
    shutdown: () => exporter.shutdown()
  }
}

/** Sends spans to the collector of the variables. */
export const exportSpans: Layer.Layer<never> = Layer.unwrapEffect(
  Effect.map(Effect.runtime<never>(), (runtime) => {
    const log = Runtime.runSync(runtime)
    // What it quotes is a refused value, which may be a secret, or the collector's text.
    const warn = (message: string): void =>
      log(Effect.logWarning(`OpenTelemetry: ${message.replace(/['"].*['"]/s, "…")}`))
    const logger = { error: warn, warn, info: constVoid, debug: constVoid, verbose: constVoid }
    diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
    const processor = new BatchSpanProcessor(counted(new OTLPTraceExporter(), log))
    const own = { "service.name": "music-backend", "service.version": version }
    const resource = resourceFromAttributes(own).merge(detectResources({ detectors: [envDetector] }))
    return Tracer.layer.pipe(
      Layer.provide(NodeSdk.layerTracerProvider(processor, { shutdownTimeout: "1 second" })),
      Layer.provide(Layer.succeed(Resource, resource)),
      Layer.merge(Layer.succeed(Spans, { remoteSpan: Tracer.makeExternalSpan }))
    )
  })
)
