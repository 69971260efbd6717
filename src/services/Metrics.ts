/**
 * Every metric of the process: name, help and labels, by the naming conventions of Prometheus. Label values are bounded:
 * route patterns, codes and names of this program; never an id, an address or a text of a caller.
 */
import * as Metric from "effect/Metric"
import * as MetricBoundaries from "effect/MetricBoundaries"
import * as MetricLabel from "effect/MetricLabel"
import { failureTable } from "../schema/FailureTable.ts"

export interface MetricDescription<Label extends string = string> {
  readonly name: string
  readonly kind: "counter" | "gauge" | "histogram"
  readonly help: string
  readonly labels: ReadonlyArray<Label>
}

/** The unit of a metric as a UCUM code, from the suffix of its name; empty for a plain count. */
export const unitOf = (name: string): string =>
  /_seconds(?:_total)?$/.test(name) ? "s" : /_bytes(?:_total)?$/.test(name) ? "By" : ""

const catalogue: Array<MetricDescription> = []

/** All metrics. */
export const metrics: ReadonlyArray<MetricDescription> = catalogue

const describe = <const Label extends string>(
  kind: MetricDescription["kind"],
  name: string,
  help: string,
  labels: ReadonlyArray<Label>
): MetricDescription<Label> => {
  const description = { kind, name, help, labels }
  catalogue.push(description)
  return description
}

/** The series of a metric by its labels. Each is created once, because a search by labels in every request is slow. */
const seriesOf = <Label extends string, Type, In, Out>(
  metric: Metric.Metric<Type, In, Out>,
  { labels: names }: MetricDescription<Label>
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

/** Adds to a counter, sets a gauge or records a duration, without an effect: it runs several times in every request. */
export const recordNow = <Type, Out>(metric: Metric.Metric<Type, number, Out>, value: number): void =>
  metric.unsafeUpdate(value, [])

const counter = <const Label extends string>(name: string, help: string, labels: ReadonlyArray<Label>) =>
  seriesOf(
    Metric.counter(name, { description: help, incremental: true }),
    describe("counter", name, help, labels)
  )

const gauge = <const Label extends string>(name: string, help: string, labels: ReadonlyArray<Label>) =>
  seriesOf(Metric.gauge(name, { description: help }), describe("gauge", name, help, labels))

/** Seconds; the last one is the default deadline of a request. */
const boundaries = MetricBoundaries.fromIterable([
  0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25
])

const durations = <const Label extends string>(name: string, help: string, labels: ReadonlyArray<Label>) =>
  seriesOf(Metric.histogram(name, boundaries, help), describe("histogram", name, help, labels))

export const httpRequests = counter(
  "music_http_requests_total",
  "Requests answered; 499 when the client disconnected first.",
  ["route", "method", "status"]
)

export const httpRequestDuration = durations(
  "music_http_request_duration_seconds",
  "Time from a request's head to its answer.",
  ["route", "method"]
)

export const httpRequestsInFlight = gauge("music_http_requests_in_flight", "Requests in progress.", [])({})

export const httpConnections = gauge("music_http_connections", "Open connections of clients.", [])({})

export const failures = counter("music_failures_total", "Error answers by their code.", ["code"])

export const replays = counter(
  "music_replays_total",
  "Repeated requests that were answered from the first one's result.",
  ["operation"]
)

/** Counts a repeated request of `operation`. */
export const countReplay = (operation: string, replayed: boolean): void => {
  if (replayed) recordNow(replays({ operation }), 1)
}

export const sharedRequests = counter(
  "music_shared_requests_total",
  "Requests that joined the execution of an identical one in flight.",
  ["operation"]
)

export const upstreamRequests = counter(
  "music_upstream_requests_total",
  "Calls to other systems by outcome: ok, refused, not_executed, unknown, or interrupted when the caller disconnected.",
  ["dependency", "operation", "outcome"]
)

export const upstreamRequestDuration = durations(
  "music_upstream_request_duration_seconds",
  "Duration of a call to another system, up to the last byte of its answer.",
  ["dependency", "operation"]
)

export const upstreamRetries = counter(
  "music_upstream_retries_total",
  "Calls to other systems that were repeated within a request.",
  ["dependency"]
)

export const iamCallsRefused = counter(
  "music_iam_calls_refused_total",
  "Calls to the identity service that its budget refused.",
  ["priority"]
)

export const upstreamPlacesTaken = gauge(
  "music_upstream_places_taken",
  "Requests that hold a place to wait for another system.",
  ["dependency"]
)

export const trackerTokenExpires = gauge(
  "music_tracker_token_expires_timestamp_seconds",
  "End of the tracker's token, Unix time; absent while it is not known.",
  []
)

export const storeWritesFailed = counter(
  "music_store_writes_failed_total",
  "Writes to the database that failed; the caller got an error.",
  []
)

export const storeCorrupt = gauge(
  "music_store_corrupt",
  "1 after the database reported a corruption, until the process ends; else 0.",
  []
)

export const otlpExports = counter(
  "music_otlp_exports_total",
  "Batches sent to the OpenTelemetry collector: ok or failed.",
  ["signal", "result"]
)

export const logLinesLost = counter(
  "music_log_lines_lost_total",
  "Log lines that standard output did not take: a full disk, a reader that is gone or does not read.",
  []
)({})

/**
 * Creates the series that alerts take the increase of. The first count of a series that did not exist is no increase for
 * Prometheus: the first defect of a process would go unnoticed.
 */
export const createAlertedSeries = (): void => {
  for (const code of Object.keys(failureTable)) recordNow(failures({ code }), 0)
  recordNow(storeWritesFailed({}), 0)
  recordNow(logLinesLost, 0)
}

/** Read at each scrape or export (layers/observability/Collectors.ts); those of the store are absent while it is away. */
export const collected = {
  buildInfo: describe("gauge", "music_build_info", "Always 1; the labels hold the version and its build.", [
    "version",
    "build"
  ]),
  storeUp: describe("gauge", "music_store_up", "1 when the database answers, else 0.", []),
  check: describe(
    "gauge",
    "music_check",
    "Checks of GET /readyz: 1 for the current state of a check, else 0.",
    ["check", "state"]
  ),
  deliveries: describe("gauge", "music_deliveries", "Deliveries to the tracker by state.", ["kind", "state"]),
  oldestDelivery: describe(
    "gauge",
    "music_delivery_oldest_seconds",
    "Age of the oldest delivery that is not over; 0 when all are.",
    []
  ),
  pausedUntil: describe(
    "gauge",
    "music_destination_paused_until_timestamp_seconds",
    "End of a destination's pause by its reason, Unix time; 0 while there is none.",
    ["destination", "reason"]
  ),
  reportsBytes: describe("gauge", "music_reports_bytes", "Bytes of all stored reports.", []),
  reportsLimit: describe("gauge", "music_reports_limit_bytes", "The bound of all stored reports.", []),
  storeSize: describe(
    "gauge",
    "music_store_size_bytes",
    "Size of the database: its data, and SQLite's log.",
    ["part"]
  ),
  storeFree: describe(
    "gauge",
    "music_store_disk_free_bytes",
    "Free space for the SQLite database; absent with Postgres.",
    []
  ),
  pool: describe("gauge", "music_store_pool_connections", "Connections of the Postgres pool: used or idle.", [
    "state"
  ]),
  poolLimit: describe("gauge", "music_store_pool_limit", "Connections that the Postgres pool may open.", []),
  poolWaiting: describe(
    "gauge",
    "music_store_pool_waiting",
    "Accesses that wait for a connection of the Postgres pool.",
    []
  ),
  spoolRecords: describe("gauge", "music_spool_records", "Telemetry records that wait in the spool.", [
    "table"
  ]),
  spoolBytes: describe("gauge", "music_spool_bytes", "Bytes of the telemetry records that wait.", ["table"]),
  spoolLimit: describe("gauge", "music_spool_limit_bytes", "The bound of the spool.", []),
  spoolEvents: describe(
    "counter",
    "music_spool_events_total",
    "Telemetry records since the database was created: accepted, delivered, duplicate, expired, refused.",
    ["table", "result"]
  ),
  lastBackup: describe(
    "gauge",
    "music_last_backup_timestamp_seconds",
    "Unix time of the last backup that was recorded; 0 without one.",
    []
  ),
  cpu: describe("counter", "process_cpu_seconds_total", "CPU time of the process, user and system.", []),
  memory: describe("gauge", "process_resident_memory_bytes", "Resident memory of the process.", []),
  started: describe("gauge", "process_start_time_seconds", "Start of the process, Unix time.", []),
  heap: describe("gauge", "nodejs_heap_size_used_bytes", "Used heap of V8.", []),
  eventLoopLag: describe(
    "gauge",
    "nodejs_eventloop_lag_p99_seconds",
    "99th percentile of the event loop's lag since the previous scrape or export.",
    []
  )
} as const
