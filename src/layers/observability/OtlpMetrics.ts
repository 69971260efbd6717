/** Metrics over OTLP. Effect's own exporter supports neither units nor metrics that are read at each export. */
import * as OtlpResource from "@effect/opentelemetry/OtlpResource"
import { OtlpSerialization } from "@effect/opentelemetry/OtlpSerialization"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import { version } from "../../schema/Release.ts"
import { unitOf } from "../../services/Metrics.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import type { MetricFamily, Series } from "./MetricFamilies.ts"
import { flushMillis, makeOtlpClient, resourceOf, serializationOf } from "./OtlpClient.ts"

type OpenTelemetry = SettingsValues["openTelemetry"]

/** Aggregation temporality of the protocol: counts since the start. */
const cumulative = 2

const pointOf =
  (times: { readonly startTimeUnixNano: string; readonly timeUnixNano: string }) =>
  ({ labels, value }: Series) => {
    const attributes = OtlpResource.entriesToAttributes(Object.entries(labels))
    if (typeof value === "number") return { ...times, attributes, asDouble: value }
    const { buckets, count, max, min, sum } = value
    return {
      ...times,
      attributes,
      count,
      sum,
      min,
      max,
      // Those of Prometheus are cumulative, and the last one has no upper bound.
      bucketCounts: buckets.map(([, upTo], index) => upTo - (buckets[index - 1]?.[1] ?? 0)),
      explicitBounds: buckets.slice(0, -1).map(([bound]) => bound)
    }
  }

const metricOf =
  (toPoint: ReturnType<typeof pointOf>) =>
  ({ metric: { help, kind, name }, series }: MetricFamily) => {
    const dataPoints = series.map(toPoint)
    const described = { name, description: help, unit: unitOf(name) }
    return kind === "gauge"
      ? { ...described, gauge: { dataPoints } }
      : kind === "counter"
        ? { ...described, sum: { dataPoints, aggregationTemporality: cumulative, isMonotonic: true } }
        : { ...described, histogram: { dataPoints, aggregationTemporality: cumulative } }
  }

/** Sends the families at each interval, and once more when the scope closes. */
export const pushMetrics = (
  openTelemetry: OpenTelemetry,
  target: Option.Option.Value<OpenTelemetry["metrics"]>,
  collect: Effect.Effect<ReadonlyArray<MetricFamily>>
) =>
  Effect.gen(function* () {
    const serialization = yield* OtlpSerialization
    const client = yield* makeOtlpClient("metrics", target)
    const resource = OtlpResource.make(resourceOf(openTelemetry))
    const startTimeUnixNano = String(yield* Clock.currentTimeNanos)
    const push = Effect.gen(function* () {
      const families = yield* collect
      const timeUnixNano = String(yield* Clock.currentTimeNanos)
      const body = serialization.metrics({
        resourceMetrics: [
          {
            resource,
            scopeMetrics: [
              {
                scope: { name: "music-backend", version },
                metrics: families.map(metricOf(pointOf({ startTimeUnixNano, timeUnixNano })))
              }
            ]
          }
        ]
      })
      yield* client.execute(HttpClientRequest.setBody(HttpClientRequest.post(target.url), body))
    }).pipe(Effect.exit, Effect.withTracerEnabled(false))
    yield* Effect.addFinalizer(() => push.pipe(Effect.interruptible, Effect.timeoutOption(flushMillis)))
    yield* Effect.sleep(target.intervalMillis).pipe(
      Effect.zipRight(push),
      Effect.forever,
      Effect.interruptible,
      Effect.forkScoped
    )
  }).pipe(Effect.provide(serializationOf[target.protocol]))
