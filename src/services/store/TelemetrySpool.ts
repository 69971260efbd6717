/** Telemetry that waits for shipping: leased in batches, and removed with its outcome. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import type { TableName } from "../../schema/Telemetry.ts"
import type { Database } from "./Database.ts"
import { overwritten, Table, valueOf, values, Whole } from "./Rows.ts"
import {
  countRemoved,
  isFree,
  makeOffer,
  readCounts,
  removedColumns,
  removedRows,
  type SpoolEntry
} from "./SpoolAdmission.ts"
import { all, inChunks, runInChunks } from "./Statements.ts"

const EntryRow = Schema.Struct({
  sequence: Whole,
  recordId: Schema.String,
  table: Table,
  eventAt: Whole,
  json: Schema.String,
  bytes: Whole,
  acceptedAt: Whole
})

interface SpoolLease {
  readonly tables: ReadonlySet<TableName>
  readonly count: number
  readonly bytes: number
  readonly now: number
  readonly leaseUntil: number
  readonly owner: string
}

/** Record ids by their end. */
interface SpoolOutcomes {
  readonly owner: string
  readonly now: number
  readonly delivered: ReadonlyArray<string>
  readonly duplicates: ReadonlyArray<string>
  readonly refused: ReadonlyArray<{ readonly recordId: string; readonly code: string }>
}

/** Decoders of rows. */
const entryRows = all(EntryRow)
const candidates = all(Schema.Struct({ sequence: Whole, bytes: Whole }))
const bySequence = (one: { readonly sequence: number }, other: { readonly sequence: number }): number =>
  one.sequence - other.sequence

export const makeTelemetrySpool = (database: Database, wakeUp: () => void) => {
  const { read, sql, write } = database

  return Effect.map(makeOffer(database, wakeUp), (offer) => ({
    /**
     * Commits a batch, or refuses all of it as `full` when the spool would pass the bound (bytes). Records whose id is waiting already, or
     * was delivered within 24 h, are counted as duplicates.
     */
    offer: (entries: ReadonlyArray<SpoolEntry>, bound: { readonly limitBytes: number }) =>
      offer({ entries, bound }),

    /** Leases the oldest entries of these tables for shipping: at most `count` of them and about `bytes`. */
    lease: ({ bytes, count, leaseUntil, now, owner, tables }: SpoolLease) =>
      Effect.gen(function* () {
        // Table by table, along the index, so that rows of other tables are not read.
        const oldest = yield* Effect.forEach(tables, (table) =>
          candidates(sql`
            SELECT sequence, bytes FROM spool
            WHERE table_name = ${table} AND ${isFree(sql, now)}
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
      }).pipe(write("spool", "Spool.lease")),

    /**
     * Removes leased entries from the spool and counts them, without those that another owner has leased by now, or that have left the
     * spool. Ids of delivered ones are remembered for 24 h; refused ones are listed with the service's code, the newest of each record.
     */
    settle: ({ delivered, duplicates, now, owner, refused }: SpoolOutcomes) =>
      Effect.gen(function* () {
        const codes = new Map(refused.map(({ recordId, code }) => [recordId, code]))
        const ends = Struct.entries({ delivered, duplicates, refused: [...codes.keys()] })
        for (const [end, recordIds] of ends) {
          const rows = yield* inChunks(recordIds, (ids) =>
            removedRows(sql`
              DELETE FROM spool WHERE lease_owner = ${owner} AND ${sql.in("record_id", ids)}
              RETURNING ${sql.literal(removedColumns)}`)
          )
          const listed = ["table_name", "code", "event_at", "bytes", "refused_at"]
          yield* runInChunks(rows, (some) =>
            end === "refused"
              ? sql`
                INSERT INTO spool_refused ${values(
                  sql,
                  ...some.map(({ table, ...row }) => {
                    const code = codes.get(row.recordId) ?? "unknown"
                    return { ...row, tableName: table, code, refusedAt: now }
                  })
                )}
                ON CONFLICT (record_id) DO UPDATE SET ${overwritten(sql, ...listed)}`
              : sql`
                INSERT INTO spool_delivered ${values(sql, ...some.map(({ recordId }) => ({ recordId, deliveredAt: now })))}
                ON CONFLICT (record_id) DO UPDATE SET ${overwritten(sql, "delivered_at")}`
          )
          yield* countRemoved(sql, rows, end)
        }
      }).pipe(write("spool", "Spool.settle")),

    /** Gives leased entries back. */
    release: (owner: string, recordIds: ReadonlyArray<string>) =>
      runInChunks(
        recordIds,
        (ids) => sql`
          UPDATE spool SET lease_owner = NULL, lease_until = NULL
          WHERE lease_owner = ${owner} AND ${sql.in("record_id", ids)}`
      ).pipe(write("spool", "Spool.release")),

    /** When the oldest of the newest `count` delivered ids was delivered; none when there are fewer. Reads the index no further. */
    newestDeliveredSince: (count: number) =>
      valueOf(Whole)(sql`
        SELECT delivered_at AS value FROM spool_delivered ORDER BY delivered_at DESC LIMIT 1 OFFSET ${count - 1}`).pipe(
        read("Spool.newestDeliveredSince")
      ),

    counts: readCounts(sql).pipe(read("Spool.counts"))
  }))
}

export type TelemetrySpool = Effect.Effect.Success<ReturnType<typeof makeTelemetrySpool>>

/** The oldest entries up to this many bytes; always at least one, however large. */
const takeWithin = (
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
