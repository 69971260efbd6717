/** The worker that ships the telemetry spool to the table service (table-service.md 3 to 7): at least once, one request in flight. */
import { randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import type { TableName } from "../../schema/Telemetry.ts"
import { type SpoolEntry, Store, type StoreUnavailable } from "../../services/Store.ts"
import { Tables, type WriteResult } from "../../services/Tables.ts"
import type { NotExecuted, Unknown } from "../../services/Upstream.ts"
import { backoff, longestWait, untilWoken } from "./Worker.ts"

const batchCount = 200
const batchBytes = 1024 * 1024
/** Milliseconds that a first record waits for company. */
const gathering = Duration.seconds(1)
/** Milliseconds; what a dead process had comes back in time for the service's dedupe window of 5 minutes. */
const leaseMillis = 60_000
/** Milliseconds before the lease's end after which no further request starts: one takes up to 10 s. */
const leaseReserve = 15_000
const firstPause = 1_000
const longestPause = 30_000
const expiryInterval = Duration.minutes(10)
const hour = 3_600_000
/** Milliseconds for which a delivered id is known (api.md, telemetry). */
const deliveredMemory = 24 * hour

export interface TelemetryShipping {
  readonly ship: Effect.Effect<never, StoreUnavailable>
  readonly expire: Effect.Effect<never, StoreUnavailable>
  /** Tables whose key the service does not know. */
  readonly unauthorized: Effect.Effect<ReadonlySet<TableName>>
}

interface Lease {
  readonly endsAt: number
  readonly entries: ReadonlyArray<SpoolEntry>
  /** Ids that are neither delivered nor refused yet. */
  readonly open: Ref.Ref<ReadonlySet<string>>
}

export const makeTelemetryShipping = (
  spoolHours: number
): Effect.Effect<TelemetryShipping, never, Store | Tables> =>
  Effect.gen(function* () {
    const { spool, wakeups } = yield* Store
    const tables = yield* Tables
    const owner = yield* Effect.sync(() => `telemetry-${randomUUID()}`)
    const unauthorized = yield* Ref.make<ReadonlySet<TableName>>(new Set())
    const failures = yield* Ref.make(0)

    const acquire: Effect.Effect<Lease, StoreUnavailable> = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const endsAt = now + leaseMillis
      const entries = yield* spool.lease({
        tables: tables.open,
        count: batchCount,
        bytes: batchBytes,
        now,
        leaseUntil: endsAt,
        owner
      })
      const open = yield* Ref.make<ReadonlySet<string>>(new Set(entries.map(({ recordId }) => recordId)))
      return { endsAt, entries, open }
    })

    const giveBack = ({ open }: Lease): Effect.Effect<void> =>
      Effect.flatMap(Ref.get(open), (ids) =>
        ids.size === 0 ? Effect.void : Effect.ignoreLogged(spool.release(owner, [...ids]))
      )

    const settle = (lease: Lease, entries: ReadonlyArray<SpoolEntry>, { duplicates, refused }: WriteResult) =>
      Effect.gen(function* () {
        const ids = entries.map(({ recordId }) => recordId)
        const other = new Set([...duplicates, ...refused.map(({ recordId }) => recordId)])
        yield* spool.settle({
          owner,
          now: yield* Clock.currentTimeMillis,
          delivered: ids.filter((id) => !other.has(id)),
          duplicates,
          refused: refused.map(({ recordId }) => recordId)
        })
        yield* Ref.update(lease.open, (open) => new Set([...open].filter((id) => !ids.includes(id))))
        yield* watchTables(entries, refused)
      }).pipe(Effect.uninterruptible)

    /** A refused key is told once per table, until the table takes a record again. */
    const watchTables = (entries: ReadonlyArray<SpoolEntry>, refused: WriteResult["refused"]) =>
      Effect.gen(function* () {
        const codes = new Map(refused.map(({ code, recordId }) => [recordId, code]))
        const locked = new Set<TableName>()
        const taking = new Set<TableName>()
        for (const { recordId, table } of entries) {
          const code = codes.get(recordId)
          if (code === "unauthorized") locked.add(table)
          else taking.add(table)
          if (code !== undefined && code !== "unauthorized")
            yield* Effect.logError("A telemetry record was refused", { table, record: recordId, code })
        }
        const before = yield* Ref.getAndUpdate(
          unauthorized,
          (known) => new Set([...[...known].filter((table) => !taking.has(table)), ...locked])
        )
        for (const table of locked) {
          if (!before.has(table))
            yield* Effect.logError("The table service does not know a table's key; its records are dropped", {
              table
            })
        }
        for (const table of taking) {
          if (before.has(table)) yield* Effect.logInfo("The table takes records again", { table })
        }
      })

    /** A batch that the service calls spoiled is halved until the bad record stands alone. */
    const write = (
      lease: Lease,
      entries: ReadonlyArray<SpoolEntry>
    ): Effect.Effect<void, NotExecuted | Unknown | StoreUnavailable> =>
      Effect.gen(function* () {
        if ((yield* Clock.currentTimeMillis) > lease.endsAt - leaseReserve) return
        yield* tables.write(entries).pipe(
          Effect.flatMap((result) => settle(lease, entries, result)),
          Effect.catchTag("Refused", ({ code }) => {
            const [first] = entries
            if (entries.length === 1 && first !== undefined)
              return settle(lease, entries, {
                duplicates: [],
                refused: [{ recordId: first.recordId, code }]
              })
            const middle = Math.ceil(entries.length / 2)
            return Effect.zipRight(
              write(lease, entries.slice(0, middle)),
              write(lease, entries.slice(middle))
            )
          })
        )
      })

    const recovered = Effect.flatMap(Ref.getAndSet(failures, 0), (count) =>
      count === 0 ? Effect.void : Effect.logInfo("The table service is available again")
    )

    const pause = (failure: NotExecuted | Unknown): Effect.Effect<void> =>
      Effect.gen(function* () {
        const count = yield* Ref.updateAndGet(failures, (before) => before + 1)
        const own = yield* backoff(count, firstPause, longestPause)
        const millis = Math.max(own, (failure.retryAfterSeconds ?? 0) * 1000)
        const facts = { failure: failure.reason, pauseMillis: millis }
        if (count === 1)
          yield* Effect.logWarning("The table service is not available; telemetry waits", facts)
        else yield* Effect.logDebug("The table service is still not available", facts)
        yield* Effect.sleep(millis)
      })

    const round = Effect.acquireUseRelease(
      acquire,
      (lease) =>
        lease.entries.length === 0
          ? Effect.succeed(lease.entries)
          : write(lease, lease.entries).pipe(Effect.zipRight(recovered), Effect.as(lease.entries)),
      giveBack
    ).pipe(Effect.withSpan("TelemetryShipping.round"))

    const ship = round.pipe(
      Effect.flatMap((shipped) => {
        if (isFull(shipped)) return Effect.void
        const rest = Effect.sleep(gathering)
        return shipped.length > 0 ? rest : Effect.zipRight(untilWoken(wakeups.spool, longestWait), rest)
      }),
      Effect.catchTags({ NotExecuted: pause, Unknown: pause }),
      Effect.forever
    )

    const expire = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      yield* spool.expire({
        acceptedBefore: now - spoolHours * hour,
        deliveredBefore: now - deliveredMemory
      })
      yield* Effect.sleep(expiryInterval)
    }).pipe(Effect.forever)

    return { ship, expire, unauthorized: Ref.get(unauthorized) }
  })

/** A lease near its bounds: more is waiting. */
const isFull = (entries: ReadonlyArray<SpoolEntry>): boolean =>
  entries.length >= batchCount || entries.reduce((sum, { bytes }) => sum + bytes, 0) >= batchBytes / 2
