/** What is read only when somebody looks: the store's counts, the checks of readiness, the process itself. */
import { monitorEventLoopDelay } from "node:perf_hooks"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { version } from "../../schema/Release.ts"
import type { TableName } from "../../schema/Telemetry.ts"
import { Descriptors } from "../../services/Descriptors.ts"
import { type Described, sampled } from "../../services/Metrics.ts"
import { Settings } from "../../services/Settings.ts"
import { shareFor } from "../../services/InFlight.ts"
import { type DeliveryKind, type DeliveryState, type SpoolCounts, Store } from "../../services/Store.ts"

export interface Collector {
  readonly metric: Described
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Milliseconds. Several scrapers, or a scrape and an export, look at the store once. */
const remembered = 2_000
/** A store that hangs is one that is away. */
const patience = Duration.seconds(1)

const kinds: ReadonlyArray<DeliveryKind> = ["report", "sweep"]
const states: ReadonlyArray<DeliveryState> = ["waiting", "leased", "unknown", "delivered", "failed"]
const checkStates = ["ok", "degraded", "failed", "off"] as const

const read = <Label extends string>(
  metric: Described<Label>,
  value: number,
  labels: Readonly<Record<Label, string>>
): Collector => ({ metric, value, labels })

const bare = (metric: Described<never>, value: number): Collector => ({ metric, value, labels: {} })

const spoolReadings = ({ table, ...counts }: SpoolCounts): ReadonlyArray<Collector> => {
  const events = (result: string, value: number) => read(sampled.spoolEvents, value, { table, result })
  return [
    read(sampled.spoolRecords, counts.waiting, { table }),
    read(sampled.spoolBytes, counts.waitingBytes, { table }),
    events("accepted", counts.accepted),
    events("delivered", counts.delivered),
    events("duplicate", counts.duplicates),
    events("expired", counts.expired),
    events("refused", counts.refused)
  ]
}

const nanosPerSecond = 1e9
const microsPerSecond = 1e6

/** Starts to watch the event loop; what it tells counts from one look to the next. */
const makeProcessReadings = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => {
      const lag = monitorEventLoopDelay({ resolution: 20 })
      lag.enable()
      return lag
    }),
    (lag) => Effect.sync(() => lag.disable())
  ),
  (lag) =>
    Effect.sync((): ReadonlyArray<Collector> => {
      const { heapUsed, rss } = process.memoryUsage()
      const { system, user } = process.cpuUsage()
      const p99 = lag.percentile(99)
      lag.reset()
      return [
        bare(sampled.cpu, (system + user) / microsPerSecond),
        bare(sampled.memory, rss),
        bare(sampled.heap, heapUsed),
        bare(sampled.eventLoopLag, Number.isFinite(p99) ? p99 / nanosPerSecond : 0),
        bare(sampled.started, performance.timeOrigin / 1_000)
      ]
    })
)

/** What is told of a table that nothing was ever accepted for: alerts see its first loss only after a zero. */
const untouched = (table: TableName): SpoolCounts => ({
  table,
  accepted: 0,
  delivered: 0,
  duplicates: 0,
  expired: 0,
  refused: 0,
  waiting: 0,
  waitingBytes: 0
})

/** All readings of now, at most 2 s old. Never fails and takes 3 s at most: what a store that is away would tell is left out. */
export const makeCollectors = Effect.gen(function* () {
  const store = yield* Store
  const descriptors = yield* Descriptors
  const { reportsBytes, tables, telemetry } = yield* Settings
  const open = Option.match(tables, { onNone: () => [], onSome: ({ keys }) => [...keys.keys()] })
  const processReadings = yield* makeProcessReadings

  const stored = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const counts = yield* store.deliveries.counts
    const oldest = yield* store.deliveries.oldestOpen
    const storedBytes = yield* store.reports.storedBytes
    const spool = yield* store.spool.counts
    const age = Option.match(oldest, {
      onNone: () => 0,
      onSome: (createdAt) => Math.max(0, now - createdAt) / 1_000
    })
    return [
      ...kinds.flatMap((kind) =>
        states.map((state) =>
          read(
            sampled.deliveries,
            counts.find((row) => row.kind === kind && row.state === state)?.count ?? 0,
            { kind, state }
          )
        )
      ),
      bare(sampled.oldestDelivery, age),
      bare(sampled.reportsBytes, storedBytes),
      ...spool.flatMap(spoolReadings),
      ...open
        .filter((table) => !spool.some((counts) => counts.table === table))
        .map(untouched)
        .flatMap(spoolReadings)
    ]
  }).pipe(
    // What cannot be interrupted must not be waited for either.
    Effect.disconnect,
    Effect.timeout(patience),
    Effect.option
  )

  const checks = Effect.match(descriptors.readiness, {
    onFailure: ({ details }) => details?.checks ?? {},
    onSuccess: (ready) => ready.checks
  }).pipe(
    Effect.map((found) =>
      Object.entries(found).flatMap(([check, now]) =>
        checkStates.map((state) => read(sampled.check, state === now ? 1 : 0, { check, state }))
      )
    )
  )

  const all = Effect.map(
    Effect.all([stored, checks, processReadings], { concurrency: "unbounded" }),
    ([fromStore, fromChecks, fromProcess]): ReadonlyArray<Collector> => [
      read(sampled.buildInfo, 1, { version }),
      bare(sampled.storeUp, Option.isSome(fromStore) ? 1 : 0),
      bare(sampled.spoolLimit, telemetry.spoolBytes),
      bare(sampled.reportsLimit, reportsBytes),
      ...Option.getOrElse(fromStore, () => []),
      ...fromChecks,
      ...fromProcess
    ]
  ).pipe(Effect.withTracerEnabled(false))

  return yield* shareFor(remembered, all)
})
