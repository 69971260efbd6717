import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { TableName } from "../../schema/Telemetry.ts"
import type { Spool, SpoolCounts, SpoolEntry } from "../../services/Store.ts"
import type { Database } from "./Database.ts"
import type { DatabaseFailure } from "./Failures.ts"
import { all, Table, Whole } from "./Rows.ts"

/** Rows named in one statement; bounds its parameters and the number of statements that stay prepared. */
const chunk = 100
/** Rows that one expiry transaction removes. */
const expiredAtOnce = 500

const EntryRow = Schema.Struct({
  sequence: Whole,
  record_id: Schema.String,
  table_name: Table,
  event_at: Whole,
  json: Schema.String,
  bytes: Whole,
  accepted_at: Whole
})

const toEntry = (row: typeof EntryRow.Type): SpoolEntry => ({
  table: row.table_name,
  recordId: row.record_id,
  eventAt: row.event_at,
  json: row.json,
  bytes: row.bytes,
  acceptedAt: row.accepted_at
})

const RemovedRow = Schema.Struct({ record_id: Schema.String, table_name: Table, bytes: Whole })
type RemovedRow = typeof RemovedRow.Type

const CountsRow = Schema.Struct({
  table_name: Table,
  accepted: Whole,
  delivered: Whole,
  duplicates: Whole,
  expired: Whole,
  refused: Whole,
  waiting: Whole,
  waiting_bytes: Whole
})

type Counted = Omit<SpoolCounts, "table">

const bytesOf = (rows: ReadonlyArray<{ readonly bytes: number }>): number =>
  rows.reduce((sum, { bytes }) => sum + bytes, 0)

export const makeSpool = ({ sql, read, write, alone }: Database, wake: Effect.Effect<void>): Spool => {
  const inChunks = <A, B>(
    items: ReadonlyArray<A>,
    run: (some: Arr.NonEmptyReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, DatabaseFailure>
  ) => Effect.map(Effect.forEach(Arr.chunksOf(items, chunk), run), Arr.flatten)

  /** Ids that are waiting, or were delivered and are still remembered. */
  const known = (recordIds: ReadonlyArray<string>) =>
    inChunks(recordIds, (ids) =>
      all(Schema.Struct({ record_id: Schema.String }))(sql`
        SELECT record_id FROM spool WHERE ${sql.in("record_id", ids)}
        UNION ALL
        SELECT record_id FROM spool_delivered WHERE ${sql.in("record_id", ids)}`)
    ).pipe(Effect.map((rows) => new Set(rows.map((row) => row.record_id))))

  const counts = all(CountsRow)(sql`SELECT * FROM spool_counts ORDER BY table_name`)

  /** Every change of the spool is counted in its own transaction: that keeps the sums right across crashes. */
  const count = (table: TableName, change: Partial<Counted>) => {
    const { accepted = 0, delivered = 0, duplicates = 0, expired = 0, refused = 0 } = change
    const { waiting = 0, waitingBytes = 0 } = change
    return sql`
      INSERT INTO spool_counts
        (table_name, accepted, delivered, duplicates, expired, refused, waiting, waiting_bytes)
      VALUES
        (${table}, ${accepted}, ${delivered}, ${duplicates}, ${expired}, ${refused}, ${waiting}, ${waitingBytes})
      ON CONFLICT (table_name) DO UPDATE SET
        accepted = spool_counts.accepted + excluded.accepted,
        delivered = spool_counts.delivered + excluded.delivered,
        duplicates = spool_counts.duplicates + excluded.duplicates,
        expired = spool_counts.expired + excluded.expired,
        refused = spool_counts.refused + excluded.refused,
        waiting = spool_counts.waiting + excluded.waiting,
        waiting_bytes = spool_counts.waiting_bytes + excluded.waiting_bytes`
  }

  /** Counts rows that have left the spool. */
  const countRemoved = (
    rows: ReadonlyArray<RemovedRow>,
    end: "delivered" | "duplicates" | "expired" | "refused"
  ) =>
    Effect.forEach(
      Object.values(Arr.groupBy(rows, (row) => row.table_name)),
      (removed) =>
        count(removed[0].table_name, {
          [end]: removed.length,
          waiting: -removed.length,
          waitingBytes: -bytesOf(removed)
        }),
      { discard: true }
    )

  /** What another owner holds by now, or has left the spool, is no longer this owner's to settle. */
  const remove = (owner: string, recordIds: ReadonlyArray<string>) =>
    inChunks(recordIds, (ids) =>
      all(RemovedRow)(sql`
        DELETE FROM spool WHERE lease_owner = ${owner} AND ${sql.in("record_id", ids)}
        RETURNING record_id, table_name, bytes`)
    )

  const rememberDelivered = (rows: ReadonlyArray<RemovedRow>, now: number) =>
    inChunks(
      rows,
      (some) => sql`
        INSERT INTO spool_delivered ${sql.insert(some.map((row) => ({ record_id: row.record_id, delivered_at: now })))}
        ON CONFLICT (record_id) DO UPDATE SET delivered_at = excluded.delivered_at`
    )

  const expireSome = (acceptedBefore: number) =>
    write(
      "Spool.expire",
      Effect.gen(function* () {
        yield* alone("spool")
        const now = yield* Clock.currentTimeMillis
        // What is being shipped will be settled: it must not count twice.
        const rows = yield* all(RemovedRow)(sql`
          DELETE FROM spool WHERE sequence IN (
            SELECT sequence FROM spool
            WHERE accepted_at < ${acceptedBefore} AND (lease_until IS NULL OR lease_until <= ${now})
            ORDER BY accepted_at LIMIT ${expiredAtOnce})
          RETURNING record_id, table_name, bytes`)
        yield* countRemoved(rows, "expired")
        return rows.length
      })
    )

  const forgetSome = (deliveredBefore: number) =>
    write(
      "Spool.forget",
      Effect.gen(function* () {
        yield* alone("spool")
        const rows = yield* sql`
          DELETE FROM spool_delivered WHERE record_id IN (
            SELECT record_id FROM spool_delivered WHERE delivered_at < ${deliveredBefore}
            ORDER BY delivered_at LIMIT ${expiredAtOnce})
          RETURNING record_id`
        return rows.length
      })
    )

  /** Requests get their turn between two batches. */
  const untilDone = <E>(some: Effect.Effect<number, E>): Effect.Effect<void, E> =>
    some.pipe(
      Effect.zipLeft(Effect.yieldNow()),
      Effect.repeat({ while: (removed) => removed === expiredAtOnce }),
      Effect.asVoid
    )

  return {
    offer: (entries, { limitBytes, share, wholeBytes = Number.POSITIVE_INFINITY }) =>
      entries.length === 0
        ? Effect.succeed("accepted")
        : write(
            "Spool.offer",
            Effect.gen(function* () {
              yield* alone("spool")
              const seen = yield* known(entries.map(({ recordId }) => recordId))
              const fresh = entries.filter(({ recordId }) => {
                const repeated = seen.has(recordId)
                seen.add(recordId)
                return !repeated
              })

              const bounded = <A extends { readonly table: TableName }>(some: ReadonlyArray<A>) =>
                share === undefined ? some : some.filter(({ table }) => table === share)
              const waiting = (yield* counts).map((row) => ({
                table: row.table_name,
                bytes: row.waiting_bytes
              }))
              const added = bytesOf(bounded(fresh))
              if (added > 0 && bytesOf(bounded(waiting)) + added > limitBytes) return "full"
              if (fresh.length > 0 && bytesOf(waiting) + bytesOf(fresh) > wholeBytes) return "full"

              yield* inChunks(
                fresh,
                (some) => sql`
                  INSERT INTO spool ${sql.insert(
                    some.map(({ table, recordId, eventAt, json, bytes, acceptedAt }) => ({
                      record_id: recordId,
                      table_name: table,
                      event_at: eventAt,
                      json,
                      bytes,
                      accepted_at: acceptedAt
                    }))
                  )}`
              )
              const freshByTable = Arr.groupBy(fresh, ({ table }) => table)
              yield* Effect.forEach(
                Object.values(Arr.groupBy(entries, ({ table }) => table)),
                (accepted) => {
                  const stored = freshByTable[accepted[0].table] ?? []
                  return count(accepted[0].table, {
                    accepted: accepted.length,
                    duplicates: accepted.length - stored.length,
                    waiting: stored.length,
                    waitingBytes: bytesOf(stored)
                  })
                },
                { discard: true }
              )
              return "accepted"
            }),
            (admission) => (admission === "accepted" ? wake : Effect.void)
          ),

    lease: ({ tables, count, bytes, now, leaseUntil, owner }) =>
      tables.size === 0
        ? Effect.succeed([])
        : write(
            "Spool.lease",
            Effect.gen(function* () {
              yield* alone("spool")
              const free = sql`${sql.in("table_name", [...tables])} AND (lease_until IS NULL OR lease_until <= ${now})`
              const oldest = yield* all(Schema.Struct({ sequence: Whole, bytes: Whole }))(sql`
                SELECT sequence, bytes FROM spool WHERE ${free} ORDER BY sequence LIMIT ${count}`)
              const last = lastWithin(oldest, bytes)
              if (last === undefined) return []
              const rows = yield* all(EntryRow)(sql`
                UPDATE spool SET lease_owner = ${owner}, lease_until = ${leaseUntil}
                WHERE ${free} AND sequence <= ${last}
                RETURNING sequence, record_id, table_name, event_at, json, bytes, accepted_at`)
              return [...rows].sort((one, other) => one.sequence - other.sequence).map(toEntry)
            })
          ),

    settle: ({ owner, now, delivered, duplicates, refused }) =>
      write(
        "Spool.settle",
        Effect.gen(function* () {
          yield* alone("spool")
          const arrived = yield* remove(owner, delivered)
          const repeated = yield* remove(owner, duplicates)
          yield* rememberDelivered([...arrived, ...repeated], now)
          yield* countRemoved(arrived, "delivered")
          yield* countRemoved(repeated, "duplicates")
          yield* countRemoved(yield* remove(owner, refused), "refused")
        })
      ),

    release: (owner, recordIds) =>
      write(
        "Spool.release",
        Effect.gen(function* () {
          yield* alone("spool")
          yield* inChunks(
            recordIds,
            (ids) => sql`
              UPDATE spool SET lease_owner = NULL, lease_until = NULL
              WHERE lease_owner = ${owner} AND ${sql.in("record_id", ids)}`
          )
        })
      ),

    expire: ({ acceptedBefore, deliveredBefore }) =>
      Effect.zipRight(untilDone(expireSome(acceptedBefore)), untilDone(forgetSome(deliveredBefore))),

    counts: read("Spool.counts", counts).pipe(
      Effect.map(
        Arr.map(({ table_name, waiting_bytes, ...numbers }) => ({
          table: table_name,
          ...numbers,
          waitingBytes: waiting_bytes
        }))
      )
    )
  }
}

/** The last of the oldest entries that stay within so many bytes; the first one always goes, however large. */
const lastWithin = (
  oldest: ReadonlyArray<{ readonly sequence: number; readonly bytes: number }>,
  bytes: number
): number | undefined => {
  let sum = 0
  let last: number | undefined
  for (const entry of oldest) {
    sum += entry.bytes
    if (last !== undefined && sum > bytes) break
    last = entry.sequence
  }
  return last
}
