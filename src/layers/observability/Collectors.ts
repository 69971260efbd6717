/** Metrics that are read at each scrape or export: counts of the store, checks of readiness, the process. */
import { monitorEventLoopDelay } from "node:perf_hooks"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { build, version } from "../../schema/Release.ts"
import { Readiness } from "../../services/Readiness.ts"
import { collected, type MetricDescription } from "../../services/Metrics.ts"
import { Settings } from "../../services/Settings.ts"
import { shareFor } from "../../services/Share.ts"
import {
  type DeliveryKind,
  type DeliveryState,
  type DestinationPause,
  type SpoolCounts,
  Store,
  type StoreUnavailable,
  tableDestination,
  tablesDestination,
  trackerDestination
} from "../../services/Store.ts"

/** The value of one series now. */
export interface Sample {
  readonly metric: MetricDescription
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Milliseconds. Several scrapers, or a scrape and an export, share one read of the store. */
const sharedMillis = 2_000
/** A store that hangs counts as one that is away. */
const storeTimeout = Duration.seconds(1)

const kinds: ReadonlyArray<DeliveryKind> = ["report", "sweep"]
const states: ReadonlyArray<DeliveryState> = ["waiting", "leased", "unknown", "delivered", "failed"]
const pauseReasons: ReadonlyArray<DestinationPause["reason"]> = ["settings", "failure", "pace"]
const checkStates = ["ok", "degraded", "failed", "off"] as const

const labelled = <Label extends string>(
  metric: MetricDescription<Label>,
  value: number,
  labels: Readonly<Record<Label, string>>
): Sample => ({ metric, value, labels })

/** None when the store fails or does not answer in time. */
const unlessAway = <A>(read: Effect.Effect<A, StoreUnavailable>): Effect.Effect<Option.Option<A>> =>
  read.pipe(
    // Disconnected, so that the timeout does not wait for a query that cannot be interrupted.
    Effect.disconnect,
    Effect.timeout(storeTimeout),
    Effect.option
  )

const single = (metric: MetricDescription<never>, value: number): Sample => ({ metric, value, labels: {} })

/** The samples of a table without a row are zeros: alerts see the first loss of a table only after a zero. */
const spoolSamples = (table: string, counts: Partial<SpoolCounts> = {}): ReadonlyArray<Sample> => {
  const events = (result: string, value = 0) => labelled(collected.spoolEvents, value, { table, result })
  return [
    labelled(collected.spoolRecords, counts.waiting ?? 0, { table }),
    labelled(collected.spoolBytes, counts.waitingBytes ?? 0, { table }),
    events("accepted", counts.accepted),
    events("delivered", counts.delivered),
    events("duplicate", counts.duplicates),
    events("expired", counts.expired),
    events("refused", counts.refused)
  ]
}

/** Starts to measure the lag of the event loop; each run reads what was measured since the previous one. */
const makeProcessCollector = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => {
      const lag = monitorEventLoopDelay({ resolution: 20 })
      lag.enable()
      return lag
    }),
    (lag) => Effect.sync(() => lag.disable())
  ),
  (lag) => (): ReadonlyArray<Sample> => {
    const { heapUsed, rss } = process.memoryUsage()
    const { system, user } = process.cpuUsage()
    const p99 = lag.percentile(99)
    lag.reset()
    return [
      single(collected.cpu, (system + user) / 1e6),
      single(collected.memory, rss),
      single(collected.heap, heapUsed),
      single(collected.eventLoopLag, Number.isFinite(p99) ? p99 / 1e9 : 0),
      single(collected.started, performance.timeOrigin / 1_000)
    ]
  }
)

/** All samples of now, at most 2 s old. Never fails and takes 3 s at most: samples of a store that is away are left out. */
export const makeCollectors = Effect.gen(function* () {
  const store = yield* Store
  const readiness = yield* Readiness
  const { reportsBytes, tables, telemetry, tracker } = yield* Settings
  const openTables = Option.match(tables, { onNone: () => [], onSome: ({ keys }) => [...keys.keys()] })
  const destinations = [
    ...(Option.isSome(tracker) ? [trackerDestination] : []),
    ...(openTables.length === 0 ? [] : [tablesDestination]),
    ...openTables.map(tableDestination)
  ]
  const collectProcess = yield* makeProcessCollector

  const collectStore = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const deliveries = yield* store.deliveries.counts
    const oldest = yield* store.deliveries.oldestOpen
    const storedBytes = yield* store.reports.storedBytes
    const spool = yield* store.spool.counts
    const lastBackup = yield* store.backups.last
    const pauses = yield* store.destinations.pauses(now)
    const age = Option.match(oldest, {
      onNone: () => 0,
      onSome: (createdAt) => Math.max(0, now - createdAt) / 1_000
    })
    const unused = openTables.filter((table) => !spool.some((counts) => counts.table === table))
    return [
      ...kinds.flatMap((kind) =>
        states.map((state) => {
          const found = deliveries.find((row) => row.kind === kind && row.state === state)
          return labelled(collected.deliveries, found?.count ?? 0, { kind, state })
        })
      ),
      single(collected.oldestDelivery, age),
      ...destinations.flatMap((destination) =>
        pauseReasons.map((reason) => {
          const pause = pauses.find((each) => each.name === destination && each.reason === reason)
          return labelled(collected.pausedUntil, (pause?.until ?? 0) / 1_000, { destination, reason })
        })
      ),
      single(collected.reportsBytes, storedBytes),
      // 0 makes one expression of an alert cover both an old backup and none.
      single(collected.lastBackup, Option.getOrElse(lastBackup, () => 0) / 1_000),
      ...spool.flatMap((counts) => spoolSamples(counts.table, counts)),
      ...unused.flatMap((table) => spoolSamples(table))
    ]
  }).pipe(unlessAway)

  const collectSize = Effect.map(store.usage.size, ({ data, file }) => [
    labelled(collected.storeSize, data, { part: "data" }),
    ...Option.match(file, {
      onNone: () => [],
      onSome: ({ free, log }) => [
        labelled(collected.storeSize, log, { part: "log" }),
        single(collected.storeFree, free)
      ]
    })
  ]).pipe(unlessAway)

  const collectPool = () =>
    Option.match(store.usage.pool(), {
      onNone: () => [],
      onSome: ({ idle, limit, used, waiting }) => [
        labelled(collected.pool, used, { state: "used" }),
        labelled(collected.pool, idle, { state: "idle" }),
        single(collected.poolLimit, limit),
        single(collected.poolWaiting, waiting)
      ]
    })

  const collectChecks = Effect.match(readiness.check, {
    onFailure: ({ details }) => details?.checks ?? {},
    onSuccess: ({ checks }) => checks
  }).pipe(
    Effect.map((checks) =>
      Object.entries(checks).flatMap(([check, current]) =>
        checkStates.map((state) => labelled(collected.check, state === current ? 1 : 0, { check, state }))
      )
    )
  )

  const collectAll = Effect.map(
    Effect.all([collectStore, collectChecks, collectSize], { concurrency: "unbounded" }),
    ([fromStore, fromChecks, size]): ReadonlyArray<Sample> => [
      labelled(collected.buildInfo, 1, { version, build }),
      single(collected.storeUp, Option.isSome(fromStore) ? 1 : 0),
      single(collected.spoolLimit, telemetry.spoolBytes),
      single(collected.reportsLimit, reportsBytes),
      ...Option.getOrElse(fromStore, () => []),
      ...Option.getOrElse(size, () => []),
      ...collectPool(),
      ...fromChecks,
      ...collectProcess()
    ]
  )

  return yield* shareFor(sharedMillis, collectAll)
})
