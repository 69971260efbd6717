import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { TableName } from "../../schema/Telemetry.ts"
import type { Database } from "./Database.ts"
import { overwritten, Table, Whole } from "./Rows.ts"
import {
  bytesOf,
  changeCounts,
  makeOffer,
  readCounts,
  type SpoolAdmission,
  type SpoolEntry
} from "./SpoolAdmission.ts"
import { all, inChunks, runInChunks, type Statements } from "./Statements.ts"
import type { Stored } from "./StoreUnavailable.ts"

/** Rows that one expiry transaction removes. */
const expiryBatch = 500

const EntryRow = Schema.Struct({
  sequence: Whole,
  recordId: Schema.String,
  table: Table,
  eventAt: Whole,
  json: Schema.String,
  bytes: Whole,
  acceptedAt: Whole
})

const RemovedRow = Schema.Struct({
  recordId: Schema.String,
  tableName: Schema.String,
  eventAt: Whole,
  bytes: Whole
})
type RemovedRow = typeof RemovedRow.Type

/** Decoders of rows. */
const entryRows = all(EntryRow)
const removedRows = all(RemovedRow)
const oldEntries = all(Schema.Struct({ sequence: Whole, acceptedAt: Whole }))
const oldDeliveries = all(Schema.Struct({ deliveredAt: Whole }))
const candidates = all(Schema.Struct({ sequence: Whole, bytes: Whole }))
const bySequence = (one: { readonly sequence: number }, other: { readonly sequence: number }): number =>
  one.sequence - other.sequence

export const makeTelemetrySpool = (database: Database, wakeUp: () => void) => {
  const { read, sql, write } = database

  const notLeased = (now: number) => sql`(lease_until IS NULL OR lease_until <= ${now})`

  /** Counts rows that have left the spool. */
  const countRemoved = (
    rows: ReadonlyArray<RemovedRow>,
    end: "delivered" | "duplicates" | "expired" | "refused"
  ): Statements<void> =>
    Effect.forEach(
      Object.values(Arr.groupBy(rows, (row) => row.tableName)),
      (removed) =>
        changeCounts(sql, removed[0].tableName, {
          [end]: removed.length,
          waiting: -removed.length,
          waiting_bytes: -bytesOf(removed)
        }),
      { discard: true }
    )

  /** Leaves out entries that another owner has leased by now, or that have left the spool. */
  const remove = (owner: string, recordIds: ReadonlyArray<string>) =>
    inChunks(recordIds, (ids) =>
      removedRows(sql`
        DELETE FROM spool WHERE lease_owner = ${owner} AND ${sql.in("record_id", ids)}
        RETURNING record_id, table_name, event_at, bytes`)
    )

  const rememberDelivered = (rows: ReadonlyArray<RemovedRow>, now: number) =>
    runInChunks(
      rows,
      (some) => sql`
        INSERT INTO spool_delivered ${sql.insert(some.map((row) => ({ record_id: row.recordId, delivered_at: now })))}
        ON CONFLICT (record_id) DO UPDATE SET ${overwritten(sql, "delivered_at")}`
    )

  /** The newest refusal of a record counts: it may be accepted, and refused, again. */
  const listRefused = (rows: ReadonlyArray<RemovedRow>, codes: ReadonlyMap<string, string>, now: number) =>
    runInChunks(
      rows,
      (some) => sql`
        INSERT INTO spool_refused ${sql.insert(
          some.map((row) => ({
            record_id: row.recordId,
            table_name: row.tableName,
            code: codes.get(row.recordId) ?? "unknown",
            event_at: row.eventAt,
            bytes: row.bytes,
            refused_at: now
          }))
        )}
        ON CONFLICT (record_id) DO UPDATE SET
          ${overwritten(sql, "table_name", "code", "event_at", "bytes", "refused_at")}`
    )

  const expireSome = (acceptedBefore: number) => (acceptedFrom: number) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      write("spool")(
        "Spool.expire",
        Effect.gen(function* () {
          // Leased entries will be settled, and must not be counted twice.
          const old = yield* oldEntries(sql`
            SELECT sequence, accepted_at FROM spool
            WHERE accepted_at >= ${acceptedFrom} AND accepted_at < ${acceptedBefore} AND ${notLeased(now)}
            ORDER BY accepted_at LIMIT ${expiryBatch}`)
          const rows = yield* inChunks(
            old.map(({ sequence }) => sequence),
            (some) =>
              removedRows(sql`
                DELETE FROM spool WHERE ${sql.in("sequence", some)}
                RETURNING record_id, table_name, event_at, bytes`)
          )
          yield* countRemoved(rows, "expired")
          return old.map(({ acceptedAt }) => acceptedAt)
        })
      )
    )

  const forgetSome = (deliveredBefore: number) => (deliveredFrom: number) =>
    Effect.map(
      write("spool")(
        "Spool.forget",
        oldDeliveries(sql`
          DELETE FROM spool_delivered WHERE record_id IN (
            SELECT record_id FROM spool_delivered
            WHERE delivered_at >= ${deliveredFrom} AND delivered_at < ${deliveredBefore}
            ORDER BY delivered_at LIMIT ${expiryBatch})
          RETURNING delivered_at`)
      ),
      Arr.map(({ deliveredAt }) => deliveredAt)
    )

  /** Delivery time of the oldest of the newest `atMost` ids. Reads the index no further than that. */
  const oldestRemembered = (atMost: number) =>
    Effect.map(
      read(
        "Spool.oldestDelivered",
        oldDeliveries(sql`
          SELECT delivered_at FROM spool_delivered
          ORDER BY delivered_at DESC LIMIT 1 OFFSET ${atMost - 1}`)
      ),
      ([oldest]) => oldest?.deliveredAt ?? 0
    )

  /**
   * Removes batches, whose times `some` returns, and lets requests run between two. Each begins where the last one ended: Postgres
   * reads index entries of removed rows again for as long as an older snapshot may see them.
   */
  const repeatBatches = <E>(some: (from: number) => Effect.Effect<ReadonlyArray<number>, E>) =>
    Effect.gen(function* () {
      let from = 0
      for (;;) {
        const times = yield* some(from)
        yield* Effect.yieldNow()
        if (times.length < expiryBatch) return
        from = Math.max(from, ...times)
      }
    })

  return Effect.map(makeOffer(database, wakeUp), (offer) => ({
    /**
     * Commits a batch, or refuses all of it when the spool would pass the bound (bytes). Records whose id is waiting already, or
     * was delivered within 24 h, are counted as duplicates.
     */
    offer: (
      entries: ReadonlyArray<SpoolEntry>,
      bound: { readonly limitBytes: number }
    ): Stored<SpoolAdmission> =>
      entries.length === 0 ? Effect.succeed("accepted") : offer({ entries, bound }),

    /** Leases the oldest entries of these tables for shipping: at most `count` of them and about `bytes`. */
    lease: ({
      tables,
      count,
      bytes,
      now,
      leaseUntil,
      owner
    }: SpoolLease): Stored<ReadonlyArray<SpoolEntry>> =>
      tables.size === 0
        ? Effect.succeed([])
        : write("spool")(
            "Spool.lease",
            Effect.gen(function* () {
              // Table by table, along the index, so that rows of other tables are not read.
              const oldest = yield* Effect.forEach(tables, (table) =>
                candidates(sql`
                  SELECT sequence, bytes FROM spool
                  WHERE table_name = ${table} AND ${notLeased(now)}
                  ORDER BY sequence LIMIT ${count}`)
              )
              const chosen = takeWithin(oldest.flat().sort(bySequence).slice(0, count), bytes)
              const rows = yield* inChunks(chosen, (some) =>
                entryRows(sql`
                  UPDATE spool SET lease_owner = ${owner}, lease_until = ${leaseUntil}
                  WHERE ${sql.in("sequence", some)}
                  RETURNING sequence, record_id, table_name AS "table", event_at, json, bytes, accepted_at`)
              )
              return [...rows].sort(bySequence).map(({ sequence: _, ...entry }): SpoolEntry => entry)
            })
          ),

    /**
     * Removes leased entries from the spool and counts them. Ids of delivered ones are remembered for 24 h; refused ones
     * are listed with the service's code.
     */
    settle: ({ owner, now, delivered, duplicates, refused }: SpoolResult) =>
      write("spool")(
        "Spool.settle",
        Effect.gen(function* () {
          const arrived = yield* remove(owner, delivered)
          const repeated = yield* remove(owner, duplicates)
          yield* rememberDelivered([...arrived, ...repeated], now)
          const codes = new Map(refused.map(({ recordId, code }) => [recordId, code]))
          const rejected = yield* remove(owner, [...codes.keys()])
          yield* listRefused(rejected, codes, now)
          yield* countRemoved(arrived, "delivered")
          yield* countRemoved(repeated, "duplicates")
          yield* countRemoved(rejected, "refused")
        })
      ),

    /** Gives leased entries back. */
    release: (owner: string, recordIds: ReadonlyArray<string>) =>
      write("spool")(
        "Spool.release",
        runInChunks(
          recordIds,
          (ids) => sql`
            UPDATE spool SET lease_owner = NULL, lease_until = NULL
            WHERE lease_owner = ${owner} AND ${sql.in("record_id", ids)}`
        )
      ),

    /**
     * Drops entries older than `acceptedBefore`, and forgets delivered ids older than `deliveredBefore` and the oldest beyond
     * `deliveredAtMost`; in small batches.
     */
    expire: ({ acceptedBefore, deliveredAtMost, deliveredBefore }: SpoolBounds) =>
      Effect.gen(function* () {
        yield* repeatBatches(expireSome(acceptedBefore))
        yield* repeatBatches(forgetSome(Math.max(deliveredBefore, yield* oldestRemembered(deliveredAtMost))))
      }),

    counts: read("Spool.counts", readCounts(sql))
  }))
}

export type TelemetrySpool = Effect.Effect.Success<ReturnType<typeof makeTelemetrySpool>>

interface SpoolLease {
  readonly tables: ReadonlySet<TableName>
  readonly count: number
  readonly bytes: number
  readonly now: number
  readonly leaseUntil: number
  readonly owner: string
}

interface SpoolResult {
  readonly owner: string
  readonly now: number
  readonly delivered: ReadonlyArray<string>
  readonly duplicates: ReadonlyArray<string>
  readonly refused: ReadonlyArray<{ readonly recordId: string; readonly code: string }>
}

interface SpoolBounds {
  readonly acceptedBefore: number
  readonly deliveredBefore: number
  readonly deliveredAtMost: number
}

interface Candidate {
  readonly sequence: number
  readonly bytes: number
}

/** The oldest entries up to this many bytes; always at least one, however large. */
const takeWithin = (oldest: ReadonlyArray<Candidate>, bytes: number): ReadonlyArray<number> => {
  let sum = 0
  const end = oldest.findIndex((entry, index) => {
    sum += entry.bytes
    return index > 0 && sum > bytes
  })
  return (end === -1 ? oldest : oldest.slice(0, end)).map(({ sequence }) => sequence)
}
