/** A lease of telemetry records, and how its time is spent. */
import { randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import type { TableName } from "../../schema/Telemetry.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import type { TelemetrySpool, SpoolEntry, StoreUnavailable } from "../../services/Store.ts"

const batchBytes = 1024 * 1024

export interface TelemetryLease {
  /** Unique per lease, so that a slow holder cannot settle records of its successor. */
  readonly owner: string
  readonly entries: ReadonlyArray<SpoolEntry>
  /** Monotonic milliseconds. By then a request is answered or cut off; the rest of the lease is for settling. */
  readonly answersUntil: number
  /** Ids of records that are neither delivered nor refused yet. */
  readonly unsettled: Ref.Ref<ReadonlySet<string>>
}

/** The rest of the lease is too short for a request of so many records. */
export class LeaseOver extends Data.TaggedError("LeaseOver")<{ readonly size: number }> {}

/** `length` of a lease in milliseconds. */
export const leaseRecords = (
  spool: TelemetrySpool,
  length: number,
  tables: ReadonlySet<TableName>,
  count: number
): Effect.Effect<TelemetryLease, StoreUnavailable> =>
  Effect.gen(function* () {
    const owner = yield* Effect.sync(() => `telemetry-${randomUUID()}`)
    const startedAt = yield* monotonicMillis
    const now = yield* Clock.currentTimeMillis
    const entries = yield* spool.lease({
      tables,
      count,
      bytes: batchBytes,
      now,
      leaseUntil: now + length,
      owner
    })
    const unsettled = yield* Ref.make<ReadonlySet<string>>(new Set(entries.map(({ recordId }) => recordId)))
    // Settling may take the database as long as leasing did.
    const took = (yield* monotonicMillis) - startedAt
    const answersUntil = startedAt + length - Math.max(took, length / 12)
    return { owner, entries, unsettled, answersUntil }
  })

export const releaseRecords =
  (spool: TelemetrySpool) =>
  ({ owner, unsettled }: TelemetryLease): Effect.Effect<void> =>
    Effect.flatMap(Ref.get(unsettled), (ids) =>
      ids.size === 0 ? Effect.void : Effect.ignoreLogged(spool.release(owner, [...ids]))
    )

/** Milliseconds that a request of `size` records may take under a lease of `length` milliseconds. */
export const requestTime = (
  length: number,
  lease: TelemetryLease,
  size: number
): Effect.Effect<number, LeaseOver> =>
  Effect.flatMap(monotonicMillis, (now) => {
    const left = lease.answersUntil - now
    // The first request accepts a third of the lease. Each part of a split batch needs the full time of one request.
    const isFirst = size === lease.entries.length
    return left < (isFirst ? length / 3 : (length * 10) / 12) ? new LeaseOver({ size }) : Effect.succeed(left)
  })

/** The lease is near its bounds, so more records are waiting. */
export const isFull = (entries: ReadonlyArray<SpoolEntry>, count: number): boolean =>
  entries.length >= count || entries.reduce((sum, { bytes }) => sum + bytes, 0) >= batchBytes / 2
