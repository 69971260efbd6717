import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { beyondReason, latestLeaseEnd } from "../../../services/ClockSkew.ts"
import type { SpoolEntry, TelemetrySpool } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { all, first, inChunks, knownTables, Table, Whole } from "./Rows.ts"
import { makeCounting, RemovedRow } from "./SpoolCounts.ts"
import { unheld } from "./SpoolLeases.ts"
import { makeOffers } from "./SpoolAdmission.ts"

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

const Candidate = Schema.Struct({ sequence: Whole, bytes: Whole })
const bySequence = (one: { readonly sequence: number }, other: { readonly sequence: number }): number =>
  one.sequence - other.sequence

/**
 * Whoever changes the sums or the ids that are known is alone with the spool, and takes that lock first. Leasing and giving back
 * touch neither, and never wait for a row: so nothing deadlocks, and processes lease beside each other.
 */
export const makeTelemetrySpool = (
  database: Database,
  wake: Effect.Effect<void>
): Effect.Effect<TelemetrySpool, never, Scope.Scope> => {
  const { alone, read, skipLocked, sql, write } = database
  const { counts, countRemoved } = makeCounting(sql)

  /** What another owner holds by now, or has left the spool, is no longer this owner's to settle. */
  const remove = (owner: string, recordIds: ReadonlyArray<string>) =>
    inChunks(recordIds, (ids) =>
      all(RemovedRow)(sql`
        DELETE FROM spool WHERE lease_owner = ${owner} AND ${sql.in("record_id", ids)}
        RETURNING record_id, table_name, event_at, bytes`)
    )

  const rememberDelivered = (rows: ReadonlyArray<RemovedRow>, now: number) =>
    inChunks(
      rows,
      (some) => sql`
        INSERT INTO spool_delivered ${sql.insert(some.map((row) => ({ record_id: row.record_id, delivered_at: now })))}
        ON CONFLICT (record_id) DO UPDATE SET delivered_at = excluded.delivered_at`
    )

  /** The newest refusal of a record counts: it may be accepted, and refused, again. */
  const listRefused = (rows: ReadonlyArray<RemovedRow>, codes: ReadonlyMap<string, string>, now: number) =>
    inChunks(
      rows,
      (some) => sql`
        INSERT INTO spool_refused ${sql.insert(
          some.map((row) => ({
            record_id: row.record_id,
            table_name: row.table_name,
            code: codes.get(row.record_id) ?? "unknown",
            event_at: row.event_at,
            bytes: row.bytes,
            refused_at: now
          }))
        )}
        ON CONFLICT (record_id) DO UPDATE SET
          table_name = excluded.table_name,
          code = excluded.code,
          event_at = excluded.event_at,
          bytes = excluded.bytes,
          refused_at = excluded.refused_at`
    )

  const expireSome = (acceptedBefore: number) =>
    write(
      "Spool.expire",
      Effect.gen(function* () {
        yield* alone("spool")
        const now = yield* Clock.currentTimeMillis
        // What is being shipped will be settled: it must not count twice. The records of a table that only a later version
        // knows are that version's to ship or to expire.
        const old = yield* all(Schema.Struct({ sequence: Whole }))(sql`
          SELECT sequence FROM spool
          WHERE accepted_at < ${acceptedBefore} AND ${sql.in("table_name", knownTables)}
            AND ${unheld(sql, now, beyondReason(now))}
          ORDER BY accepted_at LIMIT ${expiredAtOnce} ${skipLocked}`)
        const rows = yield* inChunks(old, (some) =>
          all(RemovedRow)(sql`
            DELETE FROM spool WHERE ${sql.in(
              "sequence",
              some.map(({ sequence }) => sequence)
            )}
            RETURNING record_id, table_name, event_at, bytes`)
        )
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

  /** When the oldest of the newest `atMost` delivered ids was delivered. Reads along the index, and no further than the bound. */
  const oldestOf = (atMost: number) =>
    read(
      "Spool.oldestDelivered",
      first(Schema.Struct({ delivered_at: Whole }))(sql`
        SELECT delivered_at FROM spool_delivered
        ORDER BY delivered_at DESC LIMIT 1 OFFSET ${atMost - 1}`)
    ).pipe(Effect.map(Option.match({ onNone: () => 0, onSome: (row) => row.delivered_at })))

  /** Requests get their turn between two batches. */
  const untilDone = <E>(some: Effect.Effect<number, E>): Effect.Effect<void, E> =>
    some.pipe(
      Effect.zipLeft(Effect.yieldNow()),
      Effect.repeat({ while: (removed) => removed === expiredAtOnce }),
      Effect.asVoid
    )

  return Effect.map(makeOffers(database, wake), (offering) => ({
    offer: (entries, bound) => offering({ entries, bound }),

    lease: ({ tables, count, bytes, now, leaseUntil, owner }) =>
      tables.size === 0
        ? Effect.succeed([])
        : write(
            "Spool.lease",
            Effect.gen(function* () {
              const free = unheld(sql, now, latestLeaseEnd(now, leaseUntil))
              // Table by table, along the index: however much waits for a table that is not open, it is not looked at.
              const oldest = yield* Effect.forEach([...tables], (table) =>
                all(Candidate)(sql`
                  SELECT sequence, bytes FROM spool
                  WHERE table_name = ${table} AND ${free}
                  ORDER BY sequence LIMIT ${count} ${skipLocked}`)
              )
              const chosen = within(oldest.flat().sort(bySequence).slice(0, count), bytes)
              const rows = yield* inChunks(chosen, (some) =>
                all(EntryRow)(sql`
                  UPDATE spool SET lease_owner = ${owner}, lease_until = ${leaseUntil}
                  WHERE ${sql.in("sequence", some)}
                  RETURNING sequence, record_id, table_name, event_at, json, bytes, accepted_at`)
              )
              return [...rows].sort(bySequence).map(toEntry)
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
          const codes = new Map(refused.map(({ recordId, code }) => [recordId, code]))
          const rejected = yield* remove(owner, [...codes.keys()])
          yield* listRefused(rejected, codes, now)
          yield* countRemoved(arrived, "delivered")
          yield* countRemoved(repeated, "duplicates")
          yield* countRemoved(rejected, "refused")
        })
      ),

    release: (owner, recordIds) =>
      Effect.asVoid(
        write(
          "Spool.release",
          inChunks(
            recordIds,
            (ids) => sql`
              UPDATE spool SET lease_owner = NULL, lease_until = NULL
              WHERE sequence IN (
                SELECT sequence FROM spool
                WHERE lease_owner = ${owner} AND ${sql.in("record_id", ids)} ${skipLocked})`
          )
        )
      ),

    expire: ({ acceptedBefore, deliveredAtMost, deliveredBefore }) =>
      Effect.gen(function* () {
        yield* untilDone(expireSome(acceptedBefore))
        yield* untilDone(forgetSome(Math.max(deliveredBefore, yield* oldestOf(deliveredAtMost))))
      }),

    counts: read("Spool.counts", counts)
  }))
}

/** Of the oldest entries those that stay within so many bytes; the first one always goes, however large. */
const within = (
  oldest: ReadonlyArray<{ readonly sequence: number; readonly bytes: number }>,
  bytes: number
): ReadonlyArray<number> => {
  let sum = 0
  const end = oldest.findIndex((entry, index) => {
    sum += entry.bytes
    return index > 0 && sum > bytes
  })
  return (end === -1 ? oldest : oldest.slice(0, end)).map(({ sequence }) => sequence)
}
