import type { SqlClient } from "@effect/sql/SqlClient"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { SpoolCounts } from "../../../services/Store.ts"
import { all, Whole } from "./Rows.ts"

const CountsRow = Schema.Struct({
  table_name: Schema.String,
  accepted: Whole,
  delivered: Whole,
  duplicates: Whole,
  expired: Whole,
  refused: Whole,
  waiting: Whole,
  waiting_bytes: Whole
})

export const RemovedRow = Schema.Struct({
  record_id: Schema.String,
  table_name: Schema.String,
  event_at: Whole,
  bytes: Whole
})
export type RemovedRow = typeof RemovedRow.Type

export const bytesOf = (rows: ReadonlyArray<{ readonly bytes: number }>): number =>
  rows.reduce((sum, { bytes }) => sum + bytes, 0)

/** Every change of the spool is counted in its own transaction: that keeps the sums right across crashes. */
export const makeCounting = (sql: SqlClient) => {
  const counts = Effect.map(
    all(CountsRow)(sql`SELECT * FROM spool_counts ORDER BY table_name`),
    Arr.map(
      ({ table_name, waiting_bytes, ...numbers }): SpoolCounts => ({
        table: table_name,
        ...numbers,
        waitingBytes: waiting_bytes
      })
    )
  )

  const count = (table: string, change: Partial<Omit<SpoolCounts, "table">>) => {
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

  return { counts, count, countRemoved }
}
