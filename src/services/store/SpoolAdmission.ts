/** What the spool takes of the telemetry that is offered, and the sums by table that change with its rows. */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Struct from "effect/Struct"
import type { TableRecord } from "../Tables.ts"
import type { Database } from "./Database.ts"
import { longestAhead } from "./Destinations.ts"
import { makeGroups } from "./Groups.ts"
import { values, Whole } from "./Rows.ts"
import { all, inChunks, run, runInChunks, type Statements } from "./Statements.ts"
import type { Stored } from "./StoreUnavailable.ts"

export interface SpoolEntry extends TableRecord {
  /** Those of its row, which the spool's bound counts. */
  readonly bytes: number
  readonly acceptedAt: number
}

export type SpoolAdmission = "accepted" | "full"

/** Of a table: accepted = delivered + duplicates + expired + refused + waiting. */
const SpoolCounts = Schema.Struct({
  table: Schema.String,
  accepted: Whole,
  delivered: Whole,
  duplicates: Whole,
  expired: Whole,
  refused: Whole,
  waiting: Whole,
  waitingBytes: Whole
})
export type SpoolCounts = typeof SpoolCounts.Type

/** All tables of which an event was ever accepted. */
export const readCounts = (sql: SqlClient): Statements<ReadonlyArray<SpoolCounts>> =>
  all(SpoolCounts)(sql`SELECT table_name AS "table", * FROM spool_counts ORDER BY table_name`)

const none = {
  accepted: 0,
  delivered: 0,
  duplicates: 0,
  expired: 0,
  refused: 0,
  waiting: 0,
  waiting_bytes: 0
}
const added = Object.keys(none).map((column) => `${column} = spool_counts.${column} + excluded.${column}`)

/** Each change of the spool is counted in its transaction, so that the sums survive crashes. `countsOf` is what a row changes. */
const changeCounts = <A extends { readonly table: string }>(
  sql: SqlClient,
  rows: ReadonlyArray<A>,
  countsOf: (row: A) => Readonly<Partial<typeof none>>
): Statements<void> => {
  const sums = new Map<string, typeof none>()
  for (const row of rows) {
    const sum = sums.get(row.table) ?? { ...none }
    sums.set(row.table, sum)
    for (const [column, count] of Struct.entries(countsOf(row))) sum[column] += count ?? 0
  }
  if (sums.size === 0) return Effect.void
  const changes = Array.from(sums, ([table_name, sum]) => ({ table_name, ...sum }))
  return run(sql`
    INSERT INTO spool_counts ${sql.insert(changes)} ON CONFLICT (table_name) DO UPDATE SET ${sql.literal(added.join(", "))}`)
}

/** Condition for rows that no process holds; also under a lease of a clock that was ahead. */
export const isFree = (sql: SqlClient, now: number): Fragment =>
  sql`(lease_until IS NULL OR lease_until <= ${now} OR lease_until > ${now + longestAhead})`

const RemovedRow = Schema.Struct({
  recordId: Schema.String,
  table: Schema.String,
  eventAt: Whole,
  bytes: Whole
})
/** What a statement that removes rows returns. */
export const removedColumns = `record_id, table_name AS "table", event_at, bytes`
export const removedRows = all(RemovedRow)

/** Counts rows that have left the spool. */
export const countRemoved = (
  sql: SqlClient,
  rows: ReadonlyArray<typeof RemovedRow.Type>,
  end: "delivered" | "duplicates" | "expired" | "refused"
): Statements<void> =>
  changeCounts(sql, rows, ({ bytes }) => ({ [end]: 1, waiting: -1, waiting_bytes: -bytes }))

interface Offer {
  readonly entries: ReadonlyArray<SpoolEntry>
  readonly bound: { readonly limitBytes: number }
}

const recordIds = all(Schema.Struct({ recordId: Schema.String }))

/** Stores all entries that are not known, or nothing. */
const admit = (
  sql: SqlClient,
  entries: ReadonlyArray<SpoolEntry>,
  limitBytes: number
): Statements<SpoolAdmission> =>
  Effect.gen(function* () {
    // Those that are waiting, or were delivered and are still remembered.
    const repeated = yield* inChunks([...new Set(entries.map(({ recordId }) => recordId))], (some) =>
      recordIds(sql`
        SELECT record_id FROM spool WHERE ${sql.in("record_id", some)}
        UNION ALL
        SELECT record_id FROM spool_delivered WHERE ${sql.in("record_id", some)}`)
    )
    const known = new Set(repeated.map(({ recordId }) => recordId))
    const fresh = entries.filter(({ recordId }) => {
      const isKnown = known.has(recordId)
      known.add(recordId)
      return !isKnown
    })
    const waiting = Arr.reduce(yield* readCounts(sql), 0, (sum, { waitingBytes }) => sum + waitingBytes)
    const total = Arr.reduce(fresh, waiting, (sum, { bytes }) => sum + bytes)
    if (fresh.length > 0 && total > limitBytes) return "full"
    yield* runInChunks(
      fresh,
      (some) => sql`
        INSERT INTO spool ${values(sql, ...some.map(({ table, ...row }) => ({ tableName: table, ...row })))}`
    )
    const stored = new Set(fresh)
    yield* changeCounts(sql, entries, (entry) =>
      stored.has(entry)
        ? { accepted: 1, waiting: 1, waiting_bytes: entry.bytes }
        : { accepted: 1, duplicates: 1 }
    )
    return "accepted"
  })

/** Offers that wait together are decided by one write: one by one they would wait for each other. When not all fit, each is decided alone. */
export const makeOffer = (
  { sql, write }: Database,
  wakeUp: () => void
): Effect.Effect<(offer: Offer) => Stored<SpoolAdmission>, never, Scope.Scope> => {
  const decide = (offers: ReadonlyArray<Offer>): Stored<ReadonlyArray<SpoolAdmission>> => {
    const entries = offers.flatMap((offer) => offer.entries)
    const limitBytes = Math.min(...offers.map(({ bound }) => bound.limitBytes))
    const admitted = admit(sql, entries, limitBytes).pipe(
      write("spool", "Spool.offer", (admission) => {
        if (admission === "accepted") wakeUp()
      })
    )
    return Effect.flatMap(admitted, (admission) =>
      admission === "accepted" || offers.length === 1
        ? Effect.succeed(offers.map(() => admission))
        : Effect.map(
            Effect.forEach(offers, (offer) => decide([offer]), { concurrency: "unbounded" }),
            Arr.flatten
          )
    )
  }
  return makeGroups(decide, ({ entries }) => entries.length)
}
