/**
 * OpenTelemetry's own environment variables (its specification, "Environment Variable Specification" and "OTLP exporter"),
 * as far as they say what leaves, where to and how much. Without an endpoint nothing does, and none of them is looked at.
 */
import * as Config from "effect/Config"
import * as ConfigError from "effect/ConfigError"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { OtlpTarget, SettingsValues, TraceSampler } from "../../services/Settings.ts"
import { choice, type Parse, whole } from "./Parsers.ts"

type OpenTelemetry = SettingsValues["openTelemetry"]
type Given = Readonly<Record<string, Option.Option<string>>>

const signals = { traces: "TRACES", metrics: "METRICS" } as const
type Signal = keyof typeof signals

/** Said once for both signals, or for one. */
const shared = ["ENDPOINT", "PROTOCOL", "HEADERS", "TIMEOUT", "COMPRESSION"] as const
type Shared = (typeof shared)[number]

const variableOf = (name: Shared, signal?: Signal): string =>
  signal === undefined ? `OTEL_EXPORTER_OTLP_${name}` : `OTEL_EXPORTER_OTLP_${signals[signal]}_${name}`

const variables: ReadonlyArray<string> = [
  ...shared.flatMap((name) => [variableOf(name), variableOf(name, "traces"), variableOf(name, "metrics")]),
  "OTEL_SDK_DISABLED",
  "OTEL_SERVICE_NAME",
  "OTEL_RESOURCE_ATTRIBUTES",
  "OTEL_TRACES_EXPORTER",
  "OTEL_METRICS_EXPORTER",
  "OTEL_TRACES_SAMPLER",
  "OTEL_TRACES_SAMPLER_ARG",
  "OTEL_METRIC_EXPORT_INTERVAL"
]

/** One variable, and what is wrong with it. */
interface Problem {
  readonly name: string
  readonly text: string
}
type Checked<A> = Either.Either<A, ReadonlyArray<Problem>>

/** All problems, not the first. */
const together = <A extends Readonly<Record<string, unknown>>>(
  parts: {
    readonly [Name in keyof A]: Checked<A[Name]>
  }
): Checked<A> => {
  const problems = Object.values<Checked<unknown>>(parts).flatMap((part) =>
    Either.match(part, { onLeft: (found) => found, onRight: () => [] })
  )
  // What `Either.all` makes of these parts, which TypeScript does not see in a mapped type.
  return problems.length > 0 ? Either.left(problems) : (Either.all(parts) as Checked<A>)
}

const read = <A>(given: Given, name: string, parse: Parse<A>, value: A): Checked<A> =>
  Option.match(given[name] ?? Option.none(), {
    onNone: () => Either.right(value),
    onSome: (raw) => Either.mapLeft(parse(raw), (text) => [{ name, text }])
  })

/** What is said of the signal, else what is said of both. */
const readShared = <A>(given: Given, name: Shared, signal: Signal, parse: Parse<A>, value: A): Checked<A> =>
  Option.isSome(given[variableOf(name, signal)] ?? Option.none())
    ? read(given, variableOf(name, signal), parse, value)
    : read(given, variableOf(name), parse, value)

const endpoint: Parse<string> = (raw) => {
  const url = URL.canParse(raw) ? new URL(raw) : undefined
  return url !== undefined && /^https?:$/.test(url.protocol) && url.username === "" && url.password === ""
    ? Either.right(raw)
    : Either.left("must be an http or https URL without user")
}

const protocol: Parse<OtlpTarget["protocol"]> = (raw) =>
  Either.mapLeft(
    choice("http/protobuf", "http/json")(raw),
    () => "must be http/protobuf or http/json; gRPC is not supported"
  )

const decoded = (text: string): Option.Option<string> =>
  Either.getRight(Either.try(() => decodeURIComponent(text.trim())))

/** `name=value,name=value`, values percent-encoded. */
const pairs =
  (name: RegExp): Parse<ReadonlyMap<string, string>> =>
  (raw) => {
    const read = new Map<string, string>()
    for (const part of raw.split(",")) {
      if (part.trim() === "") continue
      const at = part.indexOf("=")
      const key = part.slice(0, Math.max(at, 0)).trim()
      const value = decoded(part.slice(at + 1))
      if (!name.test(key) || Option.isNone(value)) return Either.left("must list name=value, percent-encoded")
      read.set(key, value.value)
    }
    return Either.right(read)
  }

const headers: Parse<OtlpTarget["headers"]> = (raw) =>
  Either.flatMap(pairs(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/)(raw), (given) =>
    [...given.values()].every((value) => /^[\x20-\x7e]*$/.test(value))
      ? Either.right(new Map([...given].map(([key, value]) => [key, Redacted.make(value)])))
      : Either.left("must hold visible ASCII")
  )

const samplers = {
  always_on: { parentBased: false, ratio: 1 },
  always_off: { parentBased: false, ratio: 0 },
  traceidratio: { parentBased: false, ratio: undefined },
  parentbased_always_on: { parentBased: true, ratio: 1 },
  parentbased_always_off: { parentBased: true, ratio: 0 },
  parentbased_traceidratio: { parentBased: true, ratio: undefined }
} as const
type SamplerName = keyof typeof samplers

const samplerName = choice<SamplerName>(
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio"
)

const ratio: Parse<number> = (raw) =>
  /^(?:0?\.\d+|0|1(?:\.0+)?)$/.test(raw) ? Either.right(Number(raw)) : Either.left("must be from 0 to 1")

const sampler = (given: Given): Checked<TraceSampler> =>
  Either.flatMap(
    read<SamplerName>(given, "OTEL_TRACES_SAMPLER", samplerName, "parentbased_always_on"),
    (name): Checked<TraceSampler> => {
      const { parentBased, ratio: fixed } = samplers[name]
      // Only these two have an argument.
      return fixed === undefined
        ? Either.map(read(given, "OTEL_TRACES_SAMPLER_ARG", ratio, 1), (told) => ({
            parentBased,
            ratio: told
          }))
        : Either.right({ parentBased, ratio: fixed })
    }
  )

/** None when the signal has no endpoint or is turned off. */
const target = (given: Given, signal: Signal): Checked<Option.Option<OtlpTarget>> => {
  const own = given[variableOf("ENDPOINT", signal)] ?? Option.none()
  const base = given[variableOf("ENDPOINT")] ?? Option.none()
  if (Option.isNone(own) && Option.isNone(base)) return Either.right(Option.none())
  const exporter = `OTEL_${signals[signal]}_EXPORTER`
  return Either.flatMap(read(given, exporter, choice("otlp", "none"), "otlp"), (kind) =>
    kind === "none"
      ? Either.right(Option.none())
      : Either.map(
          together<{
            url: string
            protocol: OtlpTarget["protocol"]
            headers: OtlpTarget["headers"]
            timeoutMillis: number
            compression: OtlpTarget["compression"]
          }>({
            url: Option.isSome(own)
              ? read(given, variableOf("ENDPOINT", signal), endpoint, "")
              : Either.map(
                  read(given, variableOf("ENDPOINT"), endpoint, ""),
                  (url) => `${url.replace(/\/+$/, "")}/v1/${signal}`
                ),
            protocol: readShared<OtlpTarget["protocol"]>(given, "PROTOCOL", signal, protocol, "http/json"),
            headers: readShared<OtlpTarget["headers"]>(given, "HEADERS", signal, headers, new Map()),
            timeoutMillis: readShared(given, "TIMEOUT", signal, whole(1, 600_000), 10_000),
            compression: readShared<OtlpTarget["compression"]>(
              given,
              "COMPRESSION",
              signal,
              choice("gzip", "none"),
              "none"
            )
          }),
          Option.some
        )
  )
}

const serviceName = "music-backend"

const off: OpenTelemetry = {
  serviceName,
  resource: new Map(),
  traces: Option.none(),
  metrics: Option.none()
}

const hasEndpoint = (given: Given): boolean =>
  [variableOf("ENDPOINT"), variableOf("ENDPOINT", "traces"), variableOf("ENDPOINT", "metrics")].some((name) =>
    Option.isSome(given[name] ?? Option.none())
  )

const disabled = (given: Given): boolean =>
  Option.exists(given.OTEL_SDK_DISABLED ?? Option.none(), (raw) => raw.trim().toLowerCase() === "true")

const openTelemetry = (given: Given): Checked<OpenTelemetry> => {
  if (!hasEndpoint(given) || disabled(given)) return Either.right(off)
  const parts = together<{
    resource: ReadonlyMap<string, string>
    traces: Option.Option<OtlpTarget>
    metrics: Option.Option<OtlpTarget>
    sampler: TraceSampler
    intervalMillis: number
  }>({
    resource: read<ReadonlyMap<string, string>>(given, "OTEL_RESOURCE_ATTRIBUTES", pairs(/^\S+$/), new Map()),
    traces: target(given, "traces"),
    metrics: target(given, "metrics"),
    sampler: sampler(given),
    intervalMillis: read(given, "OTEL_METRIC_EXPORT_INTERVAL", whole(100, 86_400_000), 60_000)
  })
  return Either.map(parts, (told) => ({
    serviceName: Option.getOrElse(
      given.OTEL_SERVICE_NAME ?? Option.none(),
      () => told.resource.get("service.name") ?? serviceName
    ),
    resource: told.resource,
    traces: Option.map(told.traces, (given) => ({ ...given, sampler: told.sampler })),
    metrics: Option.map(told.metrics, (given) => ({ ...given, intervalMillis: told.intervalMillis }))
  }))
}

/** Traces and metrics over OTLP, as the standard variables say. */
export const openTelemetrySettings: Config.Config<OpenTelemetry> = Config.all(
  Object.fromEntries(variables.map((name) => [name, Config.option(Config.string(name))]))
).pipe(
  Config.mapOrFail((given) =>
    Either.mapLeft(openTelemetry(given), (problems) =>
      problems
        .map(({ name, text }): ConfigError.ConfigError => ConfigError.InvalidData([name], text))
        .reduce((left, right) => ConfigError.And(left, right))
    )
  )
)
