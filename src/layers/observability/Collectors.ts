/** Metrics that are read at each scrape: counts of the store, checks of readiness, the process. */
import { monitorEventLoopDelay } from "node:perf_hooks"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { build, version } from "../../schema/Release.ts"
import type { MetricName } from "../../services/Metrics.ts"
import { Readiness } from "../../services/usecases/Readiness.ts"
import { Settings } from "../../services/Settings.ts"
import { shareFor } from "../../services/combinators/Share.ts"
import {
  deliveryKinds,
  deliveryStates,
  pauseReasons,
  type SpoolCounts,
  Store,
  type StoreUnavailable,
  tableDestination,
  tablesDestination,
  trackerDestination
} from "../../services/Store.ts"

const checkStates = ["ok", "degraded", "failed", "off"] as const

/** The value of one series now. */
const sample = (name: MetricName, value: number, labels: Readonly<Record<string, string>> = {}) => ({
  name,
  value,
  labels
})
export type Sample = ReturnType<typeof sample>

/** None when the store fails, or hangs for a second. Disconnected: a query that cannot be interrupted is not waited for. */
const unlessAway = (read: Effect.Effect<ReadonlyArray<Sample>, StoreUnavailable>) =>
  read.pipe(Effect.disconnect, Effect.timeout("1 second"), Effect.orElseSucceed(Arr.empty<Sample>))

/** Zeros for a table without a row: alerts see the first loss of a table only after a zero. */
const spoolSamples = (table: string, counts: Partial<SpoolCounts> = {}): ReadonlyArray<Sample> => {
  const { accepted, delivered, duplicates: duplicate, expired, refused } = counts
  return [
    sample("music_spool_records", counts.waiting ?? 0, { table }),
    sample("music_spool_bytes", counts.waitingBytes ?? 0, { table }),
    ...Object.entries({ accepted, delivered, duplicate, expired, refused }).map(([result, count = 0]) =>
      sample("music_spool_events_total", count, { table, result })
    )
  ]
}

/** All samples of now, at most 2 s old. Never fails and takes 3 s at most: samples of a store that is away are left out. */
export const makeCollectors = Effect.gen(function* () {
  const { backups, deliveries, destinations, reports, spool, usage } = yield* Store
  const readiness = yield* Readiness
  const { reportsBytes, tables, telemetry, tracker } = yield* Settings
  const openTables = Option.toArray(tables).flatMap(({ keys }) => [...keys.keys()])
  const places = [
    ...(Option.isSome(tracker) ? [trackerDestination] : []),
    ...(openTables.length === 0 ? [] : [tablesDestination]),
    ...openTables.map(tableDestination)
  ]
  const delay = monitorEventLoopDelay({ resolution: 20 })
  delay.enable()
  yield* Effect.addFinalizer(() => Effect.sync(() => delay.disable()))

  const collectStore = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const counts = yield* deliveries.counts
    const oldest = Option.getOrElse(yield* deliveries.oldestOpen, () => now)
    const pauses = yield* destinations.pauses(now)
    const spooled = yield* spool.counts
    return [
      ...deliveryKinds.flatMap((kind) =>
        deliveryStates.map((state) => {
          const found = counts.filter((row) => row.kind === kind && row.state === state)
          const count = found.reduce((sum, row) => sum + row.count, 0)
          return sample("music_deliveries", count, { kind, state })
        })
      ),
      sample("music_delivery_oldest_seconds", Math.max(0, now - oldest) / 1_000),
      ...places.flatMap((destination) =>
        pauseReasons.map((reason) => {
          const { until = 0 } = pauses.find((one) => one.name === destination && one.reason === reason) ?? {}
          const labels = { destination, reason }
          return sample("music_destination_paused_until_timestamp_seconds", until / 1_000, labels)
        })
      ),
      sample("music_reports_bytes", yield* reports.storedBytes),
      // 0 makes one expression of an alert cover both an old backup and none.
      sample("music_last_backup_timestamp_seconds", Option.getOrElse(yield* backups.last, () => 0) / 1_000),
      ...spooled.flatMap((row) => spoolSamples(row.table, row)),
      ...openTables
        .filter((table) => !spooled.some((row) => row.table === table))
        .flatMap((table) => spoolSamples(table))
    ]
  }).pipe(unlessAway)

  const collectSize = Effect.map(usage.size, ({ data, file }) => [
    sample("music_store_size_bytes", data, { part: "data" }),
    ...Option.toArray(file).flatMap(({ free, log }) => [
      sample("music_store_size_bytes", log, { part: "log" }),
      sample("music_store_disk_free_bytes", free)
    ])
  ]).pipe(unlessAway)

  const collectChecks = readiness.check.pipe(
    Effect.catchAll(({ details }) => Effect.succeed({ checks: details?.checks ?? {} })),
    Effect.map(({ checks }) =>
      Object.entries(checks).flatMap(([check, current]) =>
        checkStates.map((state) => sample("music_check", state === current ? 1 : 0, { check, state }))
      )
    )
  )

  const collectNow = (): ReadonlyArray<Sample> => {
    const { heapUsed, rss } = process.memoryUsage()
    const { system, user } = process.cpuUsage()
    // Nanoseconds since the previous scrape; not a number without any.
    const lag = delay.percentile(99) || 0
    delay.reset()
    return [
      sample("music_build_info", 1, { version, build }),
      sample("music_spool_limit_bytes", telemetry.spoolBytes),
      sample("music_reports_limit_bytes", reportsBytes),
      ...Option.toArray(usage.pool()).flatMap(({ limit, used, waiting }) => [
        sample("music_store_pool_connections", used),
        sample("music_store_pool_limit", limit),
        sample("music_store_pool_waiting", waiting)
      ]),
      sample("process_cpu_seconds_total", (system + user) / 1e6),
      sample("process_resident_memory_bytes", rss),
      sample("process_start_time_seconds", performance.timeOrigin / 1_000),
      sample("nodejs_heap_size_used_bytes", heapUsed),
      sample("nodejs_eventloop_lag_p99_seconds", lag / 1e9)
    ]
  }

  const collectAll = Effect.map(
    Effect.all([collectStore, collectSize, collectChecks], { concurrency: "unbounded" }),
    ([fromStore, size, checks]) => [
      sample("music_store_up", fromStore.length > 0 ? 1 : 0),
      ...fromStore,
      ...size,
      ...checks,
      ...collectNow()
    ]
  )
  return yield* shareFor(2_000, collectAll)
})
