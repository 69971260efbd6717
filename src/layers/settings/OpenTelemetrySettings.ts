import * as Option from "effect/Option"
import type { OtlpTarget, SettingsValues, TraceSampler } from "../../services/Settings.ts"
import type { EnvironmentReader } from "./EnvironmentReader.ts"

type Signal = "TRACES" | "METRICS"

/** Milliseconds between two exports of spans. */
const spanInterval = 5_000

const sampler = (reader: EnvironmentReader): TraceSampler => {
  const { parentBased, ratio } = reader.get("OTEL_TRACES_SAMPLER")
  return {
    parentBased,
    ratio: ratio ?? Option.getOrElse(reader.get("OTEL_TRACES_SAMPLER_ARG"), () => 1)
  }
}

/** None when the signal has no endpoint or is turned off. */
const target = (reader: EnvironmentReader, signal: Signal): Option.Option<OtlpTarget> => {
  const own = `OTEL_EXPORTER_OTLP_${signal}` as const
  const both = "OTEL_EXPORTER_OTLP"
  const hasOwnEndpoint = reader.isSet(`${own}_ENDPOINT`)
  if (!hasOwnEndpoint && !reader.isSet(`${both}_ENDPOINT`)) return Option.none()
  if (reader.get(`OTEL_${signal}_EXPORTER`) === "none") return Option.none()
  const prefixOf = (name: "PROTOCOL" | "HEADERS" | "TIMEOUT" | "COMPRESSION") =>
    reader.isSet(`${own}_${name}`) ? own : both
  const options = {
    protocol: reader.get(`${prefixOf("PROTOCOL")}_PROTOCOL`),
    headers: Option.getOrElse(reader.get(`${prefixOf("HEADERS")}_HEADERS`), () => new Map()),
    timeoutMillis: reader.get(`${prefixOf("TIMEOUT")}_TIMEOUT`),
    compression: reader.get(`${prefixOf("COMPRESSION")}_COMPRESSION`)
  }
  const url = hasOwnEndpoint
    ? reader.get(`${own}_ENDPOINT`)
    : Option.map(
        reader.get(`${both}_ENDPOINT`),
        (base) => `${base.replace(/\/+$/, "")}/v1/${signal.toLowerCase()}`
      )
  return Option.map(url, (given) => ({ url: given, ...options }))
}

/** Without an endpoint nothing is sent, and no other variable of OpenTelemetry is read. */
export const readOpenTelemetry = (reader: EnvironmentReader): SettingsValues["openTelemetry"] => {
  const hasEndpoint =
    reader.isSet("OTEL_EXPORTER_OTLP_ENDPOINT") ||
    reader.isSet("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ||
    reader.isSet("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
  if (!hasEndpoint || reader.get("OTEL_SDK_DISABLED"))
    return {
      serviceName: "music-backend",
      resource: new Map(),
      traces: Option.none(),
      metrics: Option.none()
    }
  const resource = Option.getOrElse(
    reader.get("OTEL_RESOURCE_ATTRIBUTES"),
    (): ReadonlyMap<string, string> => new Map()
  )
  const traceSampler = sampler(reader)
  const intervalMillis = reader.get("OTEL_METRIC_EXPORT_INTERVAL")
  const serviceName = reader.get("OTEL_SERVICE_NAME")
  return {
    serviceName: reader.isSet("OTEL_SERVICE_NAME")
      ? serviceName
      : (resource.get("service.name") ?? serviceName),
    resource,
    traces: Option.map(target(reader, "TRACES"), (traces) => ({
      ...traces,
      sampler: traceSampler,
      intervalMillis: spanInterval
    })),
    metrics: Option.map(target(reader, "METRICS"), (metrics) => ({ ...metrics, intervalMillis }))
  }
}
