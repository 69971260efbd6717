/** Metrics as others read them: in Prometheus' text format, and over OTLP. Loaded only when somebody reads them. */
import * as OtelMetrics from "@effect/opentelemetry/Metrics"
import { Resource } from "@effect/opentelemetry/Resource"
import type { Attributes, BatchObservableResult, Meter, Observable } from "@opentelemetry/api"
import { PrometheusSerializer } from "@opentelemetry/exporter-prometheus"
import {
  type IMetricReader,
  MeterProvider,
  type MetricProducer,
  MetricReader,
  PeriodicExportingMetricReader
} from "@opentelemetry/sdk-metrics"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import { version } from "../../schema/Release.ts"
import { beginAtZero, type Described, metrics, sampled, unitOf } from "../../services/Metrics.ts"
import type { OtlpTarget, SettingsValues } from "../../services/Settings.ts"
import type { Collector } from "./Collectors.ts"
import { flushMillis, resourceOf } from "./Resource.ts"

/** The metrics could not be put together. */
export class ScrapeFailed extends Data.TaggedError("ScrapeFailed")<{ readonly reason: string }> {}

/** Read by whoever asks, not by a timer. */
class ScrapeReader extends MetricReader {
  protected override onForceFlush(): Promise<void> {
    return Promise.resolve()
  }
  protected override onShutdown(): Promise<void> {
    return Promise.resolve()
  }
}

const names: ReadonlySet<string> = new Set(metrics.map(({ name }) => name))

/** What Effect counted: ours only, with units, which Effect does not know. */
const counted = (producer: MetricProducer): MetricProducer => ({
  collect: async (options) => {
    const { errors, resourceMetrics } = await producer.collect(options)
    return {
      errors,
      resourceMetrics: {
        ...resourceMetrics,
        scopeMetrics: resourceMetrics.scopeMetrics.map((scope) => ({
          ...scope,
          metrics: scope.metrics
            .filter(({ descriptor }) => names.has(descriptor.name))
            .map((metric) => ({
              ...metric,
              descriptor: { ...metric.descriptor, unit: unitOf(metric.descriptor.name) }
            }))
        }))
      }
    }
  }
})

/** Observes the readings whenever metrics are collected. */
const observe = (meter: Meter, readings: () => Promise<ReadonlyArray<Collector>>) => {
  const instruments = new Map<Described, Observable<Attributes>>(
    Object.values<Described>(sampled).map((described) => {
      const options = { description: described.help, unit: unitOf(described.name) }
      return [
        described,
        described.kind === "counter"
          ? meter.createObservableCounter(described.name, options)
          : meter.createObservableGauge(described.name, options)
      ]
    })
  )
  meter.addBatchObservableCallback(
    async (result: BatchObservableResult<Attributes>) => {
      for (const { labels, metric, value } of await readings()) {
        const instrument = instruments.get(metric)
        if (instrument !== undefined) result.observe(instrument, value, labels)
      }
    },
    [...instruments.values()]
  )
}

/** Sends in an interval; what sends is loaded only then. */
const exporting = (
  target: OtlpTarget & { readonly intervalMillis: number },
  producer: MetricProducer
): Effect.Effect<IMetricReader> =>
  Effect.promise(() => import("./Exporters.ts")).pipe(
    Effect.flatMap(({ metricExporter }) => metricExporter(target)),
    Effect.map(
      (exporter) =>
        new PeriodicExportingMetricReader({
          exporter,
          exportIntervalMillis: target.intervalMillis,
          exportTimeoutMillis: Math.min(target.intervalMillis, target.timeoutMillis),
          metricProducers: [producer]
        })
    )
  )

const serializer = new PrometheusSerializer("", false, undefined, true, true)

/**
 * Collects what was counted and what `readings` tells. `scrape` gives Prometheus' text; with `openTelemetry.metrics` the
 * same goes out over OTLP in its interval, and once more at the end of the scope.
 */
export const makeMeter = (
  openTelemetry: SettingsValues["openTelemetry"],
  readings: Effect.Effect<ReadonlyArray<Collector>>
) =>
  Effect.gen(function* () {
    yield* beginAtZero
    const resource = resourceOf(openTelemetry)
    const producer = counted(yield* Effect.provideService(OtelMetrics.makeProducer, Resource, resource))
    const scraped = new ScrapeReader({ metricProducers: [producer] })
    const exported = yield* Effect.transposeMapOption(openTelemetry.metrics, (target) =>
      exporting(target, producer)
    )
    const runtime = yield* Effect.runtime<never>()
    const provider = yield* Effect.acquireRelease(
      Effect.sync(() => new MeterProvider({ resource, readers: [scraped, ...Option.toArray(exported)] })),
      (made) =>
        // A collector that is away must not hold the process up, nor fail its end.
        Effect.tryPromise(() => made.shutdown()).pipe(
          Effect.ignore,
          Effect.interruptible,
          Effect.timeoutOption(flushMillis)
        )
    )
    observe(provider.getMeter("music-backend", version), () => Runtime.runPromise(runtime)(readings))

    const scrape = Effect.tryPromise({
      try: () => scraped.collect(),
      catch: (error) => new ScrapeFailed({ reason: String(error) })
    }).pipe(Effect.map(({ resourceMetrics }) => serializer.serialize(resourceMetrics)))

    return { scrape }
  })
