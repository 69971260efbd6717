/**
 * The metrics of the process, by the naming conventions of Prometheus: a name that ends with `_total` is a counter, one that ends with
 * `_duration_seconds` a histogram, others are gauges. Label values are bounded: route patterns, codes and names of this program; never an
 * id, an address or a text of a caller. docs/observability.md has their labels.
 */
import * as Metric from "effect/Metric"
import * as MetricBoundaries from "effect/MetricBoundaries"
import * as MetricLabel from "effect/MetricLabel"
import { failureTable } from "../schema/FailureTable.ts"

/** Every metric with its help. */
export const metrics = {
  music_http_requests_total: "Requests answered; 499 when the client disconnected first.",
  music_http_request_duration_seconds: "Time from a request's head to its answer.",
  music_http_requests_in_flight: "Requests in progress.",
  music_http_connections: "Open connections of clients.",
  music_failures_total: "Error answers by their code.",
  music_replays_total: "Repeated requests that were answered from the first one's result.",
  music_upstream_requests_total: "Calls to other systems: ok, refused, not_executed, unknown or interrupted.",
  music_upstream_request_duration_seconds: "Duration of a call to another system, with its answer.",
  music_upstream_retries_total: "Calls to other systems that were repeated within a request.",
  music_upstream_places_taken: "Requests that hold a place to wait for another system.",
  music_iam_calls_refused_total: "Calls to the identity service that its budget refused.",
  music_deliveries: "Deliveries to the tracker by state.",
  music_delivery_oldest_seconds: "Age of the oldest delivery that is not over; 0 when all are.",
  music_destination_paused_until_timestamp_seconds: "End of a destination's pause, Unix time; 0 without one.",
  music_tracker_token_expires_timestamp_seconds: "End of the tracker's token; absent while unknown.",
  music_reports_bytes: "Bytes of all stored reports.",
  music_reports_limit_bytes: "The bound of all stored reports.",
  music_last_backup_timestamp_seconds: "Unix time of the last backup that was recorded; 0 without one.",
  music_spool_records: "Telemetry records that wait in the spool.",
  music_spool_bytes: "Bytes of the telemetry records that wait.",
  music_spool_limit_bytes: "The bound of the spool.",
  music_spool_events_total: "Telemetry records since the database was created, by result.",
  music_log_lines_lost_total: "Log lines that standard output did not take.",
  music_otlp_exports_total: "Batches sent to the OpenTelemetry collector: ok or failed.",
  music_check: "Checks of GET /readyz: 1 for the current state of a check, else 0.",
  music_store_up: "1 when the database answers, else 0.",
  music_store_writes_failed_total: "Writes to the database that failed; the caller got an error.",
  music_store_corrupt: "1 after the database reported a corruption, until the process ends; else 0.",
  music_store_size_bytes: "Size of the database: its data, and SQLite's log.",
  music_store_disk_free_bytes: "Free space for the SQLite database; absent with Postgres.",
  music_store_pool_connections: "Connections of the Postgres pool that are in use.",
  music_store_pool_limit: "Connections that the Postgres pool may open.",
  music_store_pool_waiting: "Accesses that wait for a connection of the Postgres pool.",
  music_build_info: "Always 1; the labels hold the version and its build.",
  process_cpu_seconds_total: "CPU time of the process, user and system.",
  process_resident_memory_bytes: "Resident memory of the process.",
  process_start_time_seconds: "Start of the process, Unix time.",
  nodejs_heap_size_used_bytes: "Used heap of V8.",
  nodejs_eventloop_lag_p99_seconds: "99th percentile of the event loop's lag since the previous scrape."
} as const
export type MetricName = keyof typeof metrics

/** Adds to a counter, sets a gauge or records a duration, without an effect: it runs several times in every request. */
export const recordNow = <Type, Out>(metric: Metric.Metric<Type, number, Out>, value: number): void =>
  metric.unsafeUpdate(value, [])

/** Makes a metric: a function from labels to their series. Each is made once, because a search by labels in every request is slow. */
const seriesOf =
  <Type, Out>(make: (name: string) => Metric.Metric<Type, number, Out>) =>
  <const Label extends string>(name: MetricName, ...labels: ReadonlyArray<Label>) => {
    const metric = make(name)
    const made = new Map<string, typeof metric>()
    return (given: Readonly<Record<Label, string>>): typeof metric => {
      const key = labels.map((label) => given[label]).join("\n")
      const tags = () => labels.map((label) => MetricLabel.make(label, given[label]))
      const series = made.get(key) ?? Metric.taggedWithLabels(metric, tags())
      made.set(key, series)
      return series
    }
  }

/** Seconds; the last one is the default deadline of a request. */
const boundaries = MetricBoundaries.fromIterable([
  0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25
])
const counter = seriesOf((name) => Metric.counter(name, { incremental: true }))
const gauge = seriesOf((name) => Metric.gauge(name))
const durations = seriesOf((name) => Metric.histogram(name, boundaries))

export const httpRequests = counter("music_http_requests_total", "route", "method", "status")
export const httpRequestDuration = durations("music_http_request_duration_seconds", "route", "method")
export const httpRequestsInFlight = gauge("music_http_requests_in_flight")({})
export const httpConnections = gauge("music_http_connections")({})
export const failures = counter("music_failures_total", "code")
export const replays = counter("music_replays_total", "operation")
export const upstreamRequests = counter("music_upstream_requests_total", "dependency", "operation", "outcome")
export const upstreamRequestDuration = durations(
  "music_upstream_request_duration_seconds",
  "dependency",
  "operation"
)
export const upstreamRetries = counter("music_upstream_retries_total", "dependency")
export const upstreamPlacesTaken = gauge("music_upstream_places_taken", "dependency")
export const iamCallsRefused = counter("music_iam_calls_refused_total", "priority")
export const trackerTokenExpires = gauge("music_tracker_token_expires_timestamp_seconds")
export const storeWritesFailed = counter("music_store_writes_failed_total")
export const storeCorrupt = gauge("music_store_corrupt")
export const otlpExports = counter("music_otlp_exports_total", "signal", "result")
export const logLinesLost = counter("music_log_lines_lost_total")({})

/** Counts a repeated request of `operation`. */
export const countReplay = (operation: string, replayed: boolean): void => {
  if (replayed) recordNow(replays({ operation }), 1)
}

// Alerts take the increase of these. The first count of a series that did not exist is no increase for Prometheus: the first defect of a
// process would go unnoticed.
for (const code of Object.keys(failureTable)) recordNow(failures({ code }), 0)
for (const series of [storeWritesFailed({}), logLinesLost]) recordNow(series, 0)
