/** What the spool takes of the telemetry that is offered, and the sums by table that change with its rows. */
import type { SqlClient } from "@effect/sql/SqlClient"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { TableRecord } from "../Tables.ts"
import type { Database } from "./Database.ts"
import { makeGroups } from "./Groups.ts"
import { Whole } from "./Rows.ts"
import { all, inChunks, run, runInChunks, type Statements } from "./Statements.ts"
import type { Stored } from "./StoreUnavailable.ts"

export interface SpoolEntry extends TableRecord {
  /** Those of its row, which the spool's bound counts. */
  readonly bytes: number
  readonly acceptedAt: number
}

export type SpoolAdmission = "accepted" | "full"

/** Of a table: accepted = delivered + duplicates + expired + refused + waiting. */
export const SpoolCounts = Schema.Struct({
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
const sums = Object.keys(none).map((column) => `${column} = spool_counts.${column} + excluded.${column}`)

/** Each change of the spool is counted in its transaction, so that the sums survive crashes. */
const changeCounts = (
  sql: SqlClient,
  table: string,
  change: Readonly<Partial<typeof none>>
): Statements<void> =>
  run(sql`
    INSERT INTO spool_counts ${sql.insert({ table_name: table, ...none, ...change })}
    ON CONFLICT (table_name) DO UPDATE SET ${sql.literal(sums.join(", "))}`)

const bytesOf = (rows: Iterable<{ readonly bytes: number }>): number =>
  Arr.reduce(rows, 0, (sum, { bytes }) => sum + bytes)

const RemovedRow = Schema.Struct({
  recordId: Schema.String,
  tableName: Schema.String,
  eventAt: Whole,
  bytes: Whole
})
export const removedRows = all(RemovedRow)

/** Counts rows that have left the spool. */
export const countRemoved = (
  sql: SqlClient,
  rows: ReadonlyArray<typeof RemovedRow.Type>,
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

interface Offer {
  readonly entries: ReadonlyArray<SpoolEntry>
  readonly bound: { readonly limitBytes: number }
}

/**
 * Decides about offers in order, each as if it came alone. `known` are ids that wait or were delivered, `waitingBytes` those of
 * all tables so far.
 */
const decide = (offers: ReadonlyArray<Offer>, known: Iterable<string>, waitingBytes: number) => {
  const seen = new Set(known)
  const changes = new Map<string, typeof none>()
  const stored: Array<SpoolEntry> = []
  let total = waitingBytes
  const admissions = Arr.map(offers, ({ bound, entries }): SpoolAdmission => {
    const fresh = new Map<string, SpoolEntry>()
    for (const entry of entries)
      if (!seen.has(entry.recordId) && !fresh.has(entry.recordId)) fresh.set(entry.recordId, entry)
    const added = bytesOf(fresh.values())
    if (added > 0 && total + added > bound.limitBytes) return "full"
    total += added
    for (const entry of entries) {
      const change = changes.get(entry.table) ?? { ...none }
      changes.set(entry.table, change)
      change.accepted += 1
      if (fresh.get(entry.recordId) === entry) {
        change.waiting += 1
        change.waiting_bytes += entry.bytes
        seen.add(entry.recordId)
        stored.push(entry)
      } else change.duplicates += 1
    }
    return "accepted"
  })
  return { admissions, stored, changes }
}

const recordIds = all(Schema.Struct({ recordId: Schema.String }))

/** Decides about offers and stores the accepted ones. */
const admit = (sql: SqlClient, offers: ReadonlyArray<Offer>) =>
  Effect.gen(function* () {
    const ids = new Set(offers.flatMap(({ entries }) => entries.map(({ recordId }) => recordId)))
    // Those that are waiting, or were delivered and are still remembered.
    const repeated = yield* inChunks([...ids], (some) =>
      recordIds(sql`
        SELECT record_id FROM spool WHERE ${sql.in("record_id", some)}
        UNION ALL
        SELECT record_id FROM spool_delivered WHERE ${sql.in("record_id", some)}`)
    )
    const waitingBytes = (yield* readCounts(sql)).reduce((sum, table) => sum + table.waitingBytes, 0)
    const decision = decide(
      offers,
      Arr.map(repeated, ({ recordId }) => recordId),
      waitingBytes
    )
    yield* runInChunks(
      decision.stored,
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
    for (const [table, change] of decision.changes) yield* changeCounts(sql, table, change)
    return decision
  })

/** Offers that wait together are decided by one write, and each gets its own answer: one by one they would wait for each other. */
export const makeOffer = (
  { sql, write }: Database,
  wakeUp: () => void
): Effect.Effect<(offer: Offer) => Stored<SpoolAdmission>, never, Scope.Scope> =>
  makeGroups(
    (offers) =>
      Effect.map(
        write("spool")("Spool.offer", admit(sql, offers), ({ stored }) => {
          if (stored.length > 0) wakeUp()
        }),
        ({ admissions }) => admissions
      ),
    ({ entries }) => entries.length
  )
