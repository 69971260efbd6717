/** What the spool takes of the telemetry that is offered, and the sums by table that change with its rows. */
import type { SqlClient } from "@effect/sql/SqlClient"
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type {
  SpoolAdmission,
  SpoolCounts,
  SpoolEntry,
  Stored,
  StoreUnavailable,
  TelemetrySpool
} from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { makeGroups, type Waiting } from "../GroupCommit.ts"
import { all, inChunks, run, runInChunks, type Statements } from "../Statements.ts"
import { Whole } from "./Rows.ts"

const CountsRow = Schema.Struct({
  table: Schema.String,
  accepted: Whole,
  delivered: Whole,
  duplicates: Whole,
  expired: Whole,
  refused: Whole,
  waiting: Whole,
  waitingBytes: Whole
})

/** All tables of which an event was ever accepted. */
export const readCounts = (sql: SqlClient): Statements<ReadonlyArray<SpoolCounts>> =>
  all(CountsRow)(sql`SELECT table_name AS "table", * FROM spool_counts ORDER BY table_name`)

/** Each change of the spool is counted in its transaction, so that the sums survive crashes. */
export const changeCounts = (
  sql: SqlClient,
  table: string,
  change: Partial<Omit<SpoolCounts, "table">>
): Statements<void> => {
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

export const bytesOf = (rows: ReadonlyArray<{ readonly bytes: number }>): number =>
  rows.reduce((sum, { bytes }) => sum + bytes, 0)

/** Records of one transaction, which holds up the others, and in SQLite the thread. */
const groupRecords = 1_000

interface Offer {
  readonly entries: ReadonlyArray<SpoolEntry>
  readonly bound: Parameters<TelemetrySpool["offer"]>[1]
}

type Change = Pick<SpoolCounts, "table" | "accepted" | "duplicates" | "waiting" | "waitingBytes">

interface Decision {
  readonly admissions: ReadonlyArray<SpoolAdmission>
  readonly fresh: ReadonlyArray<SpoolEntry>
  readonly changes: ReadonlyArray<Change>
}

/**
 * Decides about offers in order, each as if it came alone. `known` are ids that wait or were delivered, `waitingBytes` those of
 * all tables so far.
 */
const decide = (offers: ReadonlyArray<Offer>, known: ReadonlySet<string>, waitingBytes: number): Decision => {
  const seen = new Set(known)
  const changes = new Map<string, Change>()
  const stored: Array<SpoolEntry> = []
  let total = waitingBytes

  const admissions = Arr.map(offers, ({ bound, entries }): SpoolAdmission => {
    const own = new Set<string>()
    const fresh = entries.filter(({ recordId }) => {
      const repeated = seen.has(recordId) || own.has(recordId)
      own.add(recordId)
      return !repeated
    })
    const added = bytesOf(fresh)
    if (added > 0 && total + added > bound.limitBytes) return "full"
    total += added

    const isFresh = new Set(fresh)
    for (const entry of entries) {
      const { table, bytes } = entry
      const old = changes.get(table) ?? { table, accepted: 0, duplicates: 0, waiting: 0, waitingBytes: 0 }
      changes.set(
        table,
        isFresh.has(entry)
          ? {
              ...old,
              accepted: old.accepted + 1,
              waiting: old.waiting + 1,
              waitingBytes: old.waitingBytes + bytes
            }
          : { ...old, accepted: old.accepted + 1, duplicates: old.duplicates + 1 }
      )
    }
    for (const entry of fresh) {
      seen.add(entry.recordId)
      stored.push(entry)
    }
    return "accepted"
  })
  return { admissions, fresh: stored, changes: [...changes.values()] }
}

const recordIds = all(Schema.Struct({ recordId: Schema.String }))

/** Decides about offers and stores the accepted ones. */
const admit = (sql: SqlClient, offers: ReadonlyArray<Offer>): Statements<Decision> =>
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
    const decision = decide(offers, new Set(repeated.map(({ recordId }) => recordId)), waitingBytes)
    yield* runInChunks(
      decision.fresh,
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
    for (const { table, ...change } of decision.changes) yield* changeCounts(sql, table, change)
    return decision
  })

/** In order, with at most so many records in each group; a larger offer is a group of its own. */
const inGroups = <A extends { readonly item: Offer }>(
  waiting: Arr.NonEmptyReadonlyArray<A>
): ReadonlyArray<ReadonlyArray<A>> =>
  Arr.chop(waiting, (rest): [ReadonlyArray<A>, ReadonlyArray<A>] => {
    let records = 0
    const end = rest.findIndex(({ item }, index) => {
      records += item.entries.length
      return index > 0 && records > groupRecords
    })
    return end === -1 ? [rest, []] : [rest.slice(0, end), rest.slice(end)]
  })

/** A lock or a lost connection, which is no matter of one offer. */
const concernsAll = ({ kind }: StoreUnavailable): boolean => kind === "locked" || kind === "unanswered"

/**
 * Offers that wait together are decided by one write, and each gets its own answer: one by one they would wait for each other. When the
 * write fails, each of them runs alone.
 */
export const makeOffer = (
  { sql, write }: Database,
  wakeUp: () => void
): Effect.Effect<(offer: Offer) => Stored<SpoolAdmission>, never, Scope.Scope> => {
  const offerTogether = (offers: ReadonlyArray<Offer>) =>
    write("spool")("Spool.offer", admit(sql, offers), ({ fresh }) => {
      if (fresh.length > 0) wakeUp()
    })
  const settleGroup = (
    group: ReadonlyArray<Waiting<Offer, SpoolAdmission, StoreUnavailable>>
  ): Effect.Effect<void> =>
    Effect.flatMap(Effect.exit(offerTogether(group.map(({ item }) => item))), (exit) => {
      if (
        group.length > 1 &&
        Exit.isFailure(exit) &&
        !Option.exists(Cause.failureOption(exit.cause), concernsAll)
      )
        return Effect.forEach(group, (waiting) => settleGroup([waiting]), { discard: true })
      for (const [index, { settle }] of group.entries())
        settle(Exit.map(exit, ({ admissions }) => admissions[index] ?? "full"))
      return Effect.void
    })
  return makeGroups((waiting) => Effect.forEach(inGroups(waiting), settleGroup, { discard: true }))
}
