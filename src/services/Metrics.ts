/**
 * Every metric of the process: name, unit and labels, by the conventions of Prometheus. Label values are bounded: route
 * patterns, our own codes and names; never an id, an address or anything that a caller wrote.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as MetricBoundaries from "effect/MetricBoundaries"
import * as MetricLabel from "effect/MetricLabel"
import { failureTable } from "../schema/FailureTable.ts"

/** How a metric is called and what tells its series apart. */
export interface Described<Label extends string = string> {
  readonly name: string
  readonly kind: "counter" | "gauge" | "histogram"
  readonly help: string
  readonly labels: ReadonlyArray<Label>
}

/** Told by the end of the name, as Prometheus has it; in the codes of UCUM. */
export const unitOf = (name: string): string =>
  /_seconds(?:_total)?$/.test(name) ? "s" : /_bytes(?:_total)?$/.test(name) ? "By" : ""

const catalogue: Array<Described> = []

const described = <Label extends string>(
  kind: Described["kind"],
  name: string,
  help: string,
  labels: ReadonlyArray<Label>
): Described<Label> => {
  const description = { kind, name, help, labels }
  catalogue.push(description)
  return description
}

/** A series is looked up once: recording must not cost a request a search by labels. */
const seriesOf = <Label extends string, Type, In, Out>(
  metric: Metric.Metric<Type, In, Out>,
  names: ReadonlyArray<Label>
) => {
  const made = new Map<string, Metric.Metric<Type, In, Out>>()
  return (labels: Readonly<Record<Label, string>>): Metric.Metric<Type, In, Out> => {
    const key = names.map((name) => labels[name]).join("\n")
    const known = made.get(key)
    if (known !== undefined) return known
    const series = Metric.taggedWithLabels(
      metric,
      names.map((name) => MetricLabel.make(name, labels[name]))
    )
    made.set(key, series)
    return series
  }
}

/** Records without an effect of its own, for what happens at every request: adds to a counter, sets a gauge, counts a duration. */
export const recordNow = <Type, Out>(metric: Metric.Metric<Type, number, Out>, value: number): void =>
  metric.unsafeUpdate(value, [])

const counter = <const Label extends string>(name: string, help: string, labels: ReadonlyArray<Label>) => {
  described("counter", name, help, labels)
  return seriesOf(Metric.counter(name, { description: help, incremental: true }), labels)
}

/** Seconds; the last one is the default deadline of a request. */
const boundaries = MetricBoundaries.fromIterable([
  0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25
])

const durations = <const Label extends string>(name: string, help: string, labels: ReadonlyArray<Label>) => {
  described("histogram", name, help, labels)
  return seriesOf(Metric.histogram(name, boundaries, help), labels)
}

export const httpRequests = counter(
  "music_http_requests_total",
  "Requests answered; 499 where the client left first.",
  ["route", "method", "status"]
)

export const httpRequestDuration = durations(
  "music_http_request_duration_seconds",
  "From a request's head to its answer.",
  ["route", "method"]
)

const inFlightName = "music_http_requests_in_flight"
const inFlightHelp = "Requests that are worked on now."
described("gauge", inFlightName, inFlightHelp, [])
export const httpRequestsInFlight = Metric.gauge(inFlightName, { description: inFlightHelp })

const arrivingName = "music_http_bodies_arriving"
const arrivingHelp = "Bodies of requests that have not arrived whole yet."
described("gauge", arrivingName, arrivingHelp, [])
export const bodiesArriving = Metric.gauge(arrivingName, { description: arrivingHelp })

export const failures = counter("music_failures_total", "Error answers by their code.", ["code"])

export const replays = counter(
  "music_replays_total",
  "Repeated requests that were answered from the first one's result.",
  ["operation"]
)

/** Counts a repetition of `operation` when it was one. */
export const countReplay = (operation: string, replayed: boolean): Effect.Effect<void> =>
  replayed ? Metric.increment(replays({ operation })) : Effect.void

export const sharedRequests = counter(
  "music_shared_requests_total",
  "Requests that joined the execution of an identical one in flight.",
  ["operation"]
)

export const upstreamRequests = counter(
  "music_upstream_requests_total",
  "Calls to other systems by outcome: ok, refused, not_executed, unknown, or interrupted when nobody waited any longer.",
  ["dependency", "operation", "outcome"]
)

export const upstreamRequestDuration = durations(
  "music_upstream_request_duration_seconds",
  "One call to another system, its answer's last byte included.",
  ["dependency", "operation"]
)

export const upstreamRetries = counter(
  "music_upstream_retries_total",
  "Calls to other systems that were repeated within a request.",
  ["dependency"]
)

export const iamCallsRefused = counter(
  "music_iam_calls_refused_total",
  "Calls to the identity service that its budget held back.",
  ["priority"]
)

const placesName = "music_upstream_places_taken"
const placesHelp = "Requests that hold a place to wait for another system."
described("gauge", placesName, placesHelp, ["dependency"])
export const upstreamPlacesTaken = seriesOf(Metric.gauge(placesName, { description: placesHelp }), [
  "dependency"
])

const dropReasons = ["buffer", "spool", "database"] as const
/** Where there was no room for the backend's own events. */
export type DropReason = (typeof dropReasons)[number]

export const ownEventsDropped = counter(
  "music_own_events_dropped_total",
  `The backend's own telemetry that was dropped, by where there was no room: ${dropReasons.join(", ")}.`,
  ["reason"]
)

export const storeWritesFailed = counter(
  "music_store_writes_failed_total",
  "Writes to the database that failed; whoever asked for one was told.",
  []
)

export const exports = counter(
  "music_otlp_exports_total",
  "Batches sent to the OpenTelemetry collector: ok or failed.",
  ["signal", "result"]
)

/**
 * Makes the series whose increase alerts ask for: of one that begins with its first count, that count is no increase, and the
 * first defect of a process would go unseen. For when somebody reads the metrics; otherwise it is not needed.
 */
export const beginAtZero: Effect.Effect<void> = Effect.sync(() => {
  for (const code of Object.keys(failureTable)) recordNow(failures({ code }), 0)
  for (const reason of dropReasons) recordNow(ownEventsDropped({ reason }), 0)
  recordNow(storeWritesFailed({}), 0)
})

/** Read when somebody looks (layers/observability/Readings.ts); the ones of the store are absent while it is away. */
export const sampled = {
  buildInfo: described("gauge", "music_build_info", "Always 1; the label tells the version.", ["version"]),
  storeUp: described("gauge", "music_store_up", "1 when the database answers, else 0.", []),
  check: described("gauge", "music_check", "What GET /readyz says: 1 for the state a check is in, else 0.", [
    "check",
    "state"
  ]),
  deliveries: described("gauge", "music_deliveries", "Deliveries to the tracker by state.", [
    "kind",
    "state"
  ]),
  oldestDelivery: described(
    "gauge",
    "music_delivery_oldest_seconds",
    "Age of the oldest delivery that is not over; 0 when all are.",
    []
  ),
  reportsBytes: described(
    "gauge",
    "music_reports_bytes",
    "Bytes of all stored reports, as their bound counts them.",
    []
  ),
  reportsLimit: described("gauge", "music_reports_limit_bytes", "The bound of all stored reports.", []),
  spoolRecords: described("gauge", "music_spool_records", "Telemetry records that wait in the spool.", [
    "table"
  ]),
  spoolBytes: described("gauge", "music_spool_bytes", "Bytes of the telemetry records that wait.", ["table"]),
  spoolLimit: described("gauge", "music_spool_limit_bytes", "The bound of the spool.", []),
  spoolEvents: described(
    "counter",
    "music_spool_events_total",
    "Telemetry records since the database was made: accepted, delivered, duplicate, expired, refused.",
    ["table", "result"]
  ),
  cpu: described("counter", "process_cpu_seconds_total", "CPU time of the process, user and system.", []),
  memory: described("gauge", "process_resident_memory_bytes", "Resident memory of the process.", []),
  started: described("gauge", "process_start_time_seconds", "When the process started, Unix time.", []),
  heap: described("gauge", "nodejs_heap_size_used_bytes", "Heap of V8 that is in use.", []),
  eventLoopLag: described(
    "gauge",
    "nodejs_eventloop_lag_p99_seconds",
    "99th percentile of the event loop's lag since somebody last looked.",
    []
  )
} as const

/** All of them. */
export const metrics: ReadonlyArray<Described> = catalogue
