/** Rows of the spool, their leases, and the sums by table that change with them. */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Arr from "effect/Array"
import * as Schema from "effect/Schema"
import type { SpoolCounts } from "../../../services/Store.ts"
import { all, run, type Steps } from "../Query.ts"
import { Whole } from "./Rows.ts"

const CountsRow = Schema.Struct({
  tableName: Schema.String,
  accepted: Whole,
  delivered: Whole,
  duplicates: Whole,
  expired: Whole,
  refused: Whole,
  waiting: Whole,
  waitingBytes: Whole
})

export const RemovedRow = Schema.Struct({
  recordId: Schema.String,
  tableName: Schema.String,
  eventAt: Whole,
  bytes: Whole
})
export type RemovedRow = typeof RemovedRow.Type

/** Condition for rows that are not leased. */
export const notLeased = (sql: SqlClient, now: number): Fragment =>
  sql`(lease_until IS NULL OR lease_until <= ${now})`

export const bytesOf = (rows: ReadonlyArray<{ readonly bytes: number }>): number =>
  rows.reduce((sum, { bytes }) => sum + bytes, 0)

/** Each change of the spool is counted in the same transaction, so that the sums survive crashes. */
export const makeCounts = (sql: SqlClient) => {
  const counts = all(CountsRow)(sql`SELECT * FROM spool_counts ORDER BY table_name`).map(
    Arr.map(({ tableName: table, ...sums }): SpoolCounts => ({ table, ...sums }))
  )

  const count = (table: string, change: Partial<Omit<SpoolCounts, "table">>) => {
    const { accepted = 0, delivered = 0, duplicates = 0, expired = 0, refused = 0 } = change
    const { waiting = 0, waitingBytes = 0 } = change
    return run(sql`
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
        waiting_bytes = spool_counts.waiting_bytes + excluded.waiting_bytes`)
  }

  /** Counts rows that have left the spool. */
  function* countRemoved(
    rows: ReadonlyArray<RemovedRow>,
    end: "delivered" | "duplicates" | "expired" | "refused"
  ): Steps<void> {
    for (const removed of Object.values(Arr.groupBy(rows, (row) => row.tableName)))
      yield* count(removed[0].tableName, {
        [end]: removed.length,
        waiting: -removed.length,
        waitingBytes: -bytesOf(removed)
      })
  }

  return { counts, count, countRemoved }
}
