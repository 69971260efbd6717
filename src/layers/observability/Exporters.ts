/** What sends batches to an OpenTelemetry collector: OTLP over HTTP, as protobuf or JSON. Loaded only when something is sent. */
import { type ExportResult, ExportResultCode } from "@opentelemetry/core"
import { CompressionAlgorithm, OTLPExporterBase } from "@opentelemetry/otlp-exporter-base"
import {
  convertLegacyHttpOptions,
  createOtlpHttpExportDelegate
} from "@opentelemetry/otlp-exporter-base/node-http"
import {
  type IExporterMetricsHelper,
  type ISerializer,
  JsonMetricsSerializer,
  JsonTraceSerializer,
  MetricsExporterMetricsHelper,
  ProtobufMetricsSerializer,
  ProtobufTraceSerializer,
  TraceExporterMetricsHelper
} from "@opentelemetry/otlp-transformer"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Redacted from "effect/Redacted"
import * as Runtime from "effect/Runtime"
import { exports as exportsCount, recordNow } from "../../services/Metrics.ts"
import type { OtlpTarget } from "../../services/Settings.ts"

type Signal = "traces" | "metrics"

/** Counts batches, and tells when a collector stops or starts taking them; one line a change. */
const watching = (signal: Signal) =>
  Effect.map(Effect.runtime<never>(), (runtime) => {
    const run = Runtime.runFork(runtime)
    for (const result of ["ok", "failed"]) recordNow(exportsCount({ signal, result }), 0)
    let failing = false
    return ({ code, error }: ExportResult): void => {
      const failed = code !== ExportResultCode.SUCCESS
      run(Metric.increment(exportsCount({ signal, result: failed ? "failed" : "ok" })))
      if (failed !== failing) {
        run(
          failed
            ? Effect.logWarning("The OpenTelemetry collector does not take our batches", {
                signal,
                reason: error?.message ?? "unknown"
              })
            : Effect.logInfo("The OpenTelemetry collector takes our batches again", { signal })
        )
      }
      failing = failed
    }
  })

const compressions = { gzip: CompressionAlgorithm.GZIP, none: CompressionAlgorithm.NONE } as const

const exporterOf = <Batch>(
  signal: Signal,
  target: OtlpTarget,
  serializers: Readonly<Record<OtlpTarget["protocol"], ISerializer<Batch, unknown>>>,
  helper: IExporterMetricsHelper<Batch>
) =>
  Effect.map(watching(signal), (told) => {
    const { compression, headers, protocol, timeoutMillis, url } = target
    const exporter = new OTLPExporterBase<Batch>(
      createOtlpHttpExportDelegate(
        convertLegacyHttpOptions(
          {
            url,
            timeoutMillis,
            compression: compressions[compression],
            headers: Object.fromEntries([...headers].map(([name, value]) => [name, Redacted.value(value)]))
          },
          signal.toUpperCase(),
          `v1/${signal}`,
          { "Content-Type": protocol === "http/json" ? "application/json" : "application/x-protobuf" }
        ),
        serializers[protocol],
        `otlp_${signal}`,
        helper,
        undefined
      )
    )
    return {
      export: (batch: Batch, done: (result: ExportResult) => void): void =>
        exporter.export(batch, (result) => {
          told(result)
          done(result)
        }),
      forceFlush: () => exporter.forceFlush(),
      shutdown: () => exporter.shutdown()
    }
  })

export const traceExporter = (target: OtlpTarget) =>
  exporterOf(
    "traces",
    target,
    { "http/json": JsonTraceSerializer, "http/protobuf": ProtobufTraceSerializer },
    TraceExporterMetricsHelper
  )

export const metricExporter = (target: OtlpTarget) =>
  exporterOf(
    "metrics",
    target,
    { "http/json": JsonMetricsSerializer, "http/protobuf": ProtobufMetricsSerializer },
    MetricsExporterMetricsHelper
  )
