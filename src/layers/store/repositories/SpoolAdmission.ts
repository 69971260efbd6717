import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Runtime from "effect/Runtime"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { backendTable } from "../../../schema/Telemetry.ts"
import { latestDueTime } from "../../../services/ClockSkew.ts"
import type {
  TelemetrySpool,
  SpoolAdmission,
  SpoolCounts,
  SpoolEntry,
  StoreUnavailable
} from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { makeGroups } from "../GroupCommit.ts"
import { all, inChunks, lock, notify, runInChunks, type Steps } from "../Query.ts"
import { waitWithinDeadline } from "../RequestDeadline.ts"
import { Whole } from "./Rows.ts"
import { bytesOf, makeCounts, notLeased, RemovedRow } from "./SpoolRows.ts"

/** Records of one transaction, which holds up the others, and in SQLite the thread. */
const groupRecords = 1_000

export interface Offer {
  readonly entries: ReadonlyArray<SpoolEntry>
  readonly bound: Parameters<TelemetrySpool["offer"]>[1]
}

type Offers = Arr.NonEmptyReadonlyArray<Offer>

type Change = Pick<SpoolCounts, "table" | "accepted" | "duplicates" | "waiting" | "waitingBytes">

interface Decision {
  readonly admissions: Arr.NonEmptyReadonlyArray<SpoolAdmission>
  readonly fresh: ReadonlyArray<SpoolEntry>
  readonly changes: ReadonlyArray<Change>
}

/**
 * Decides about offers in order, each as if it came alone. `known` are ids that wait or were delivered, `waiting` the bytes of
 * each table so far.
 */
const decide = (
  offers: Offers,
  known: ReadonlySet<string>,
  waiting: ReadonlyArray<Pick<SpoolCounts, "table" | "waitingBytes">>
): Decision => {
  const seen = new Set(known)
  const before = new Map(waiting.map(({ table, waitingBytes }) => [table, waitingBytes]))
  const changes = new Map<string, Change>()
  const stored: Array<SpoolEntry> = []

  const total = (share: string | undefined): number => {
    const tables = share === undefined ? new Set([...before.keys(), ...changes.keys()]) : [share]
    return [...tables].reduce(
      (sum, table) => sum + (before.get(table) ?? 0) + (changes.get(table)?.waitingBytes ?? 0),
      0
    )
  }

  const admissions = Arr.map(offers, ({ bound, entries }): SpoolAdmission => {
    const { limitBytes, share, wholeBytes = Number.POSITIVE_INFINITY } = bound
    const own = new Set<string>()
    const fresh = entries.filter(({ recordId }) => {
      const repeated = seen.has(recordId) || own.has(recordId)
      own.add(recordId)
      return !repeated
    })
    const added = bytesOf(share === undefined ? fresh : fresh.filter(({ table }) => table === share))
    if (added > 0 && total(share) + added > limitBytes) return "full"
    if (fresh.length > 0 && total(undefined) + bytesOf(fresh) > wholeBytes) return "full"

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
const candidates = all(Schema.Struct({ recordId: Schema.String, bytes: Whole }))
const removedRows = all(RemovedRow)

/** Decides about offers and stores the accepted ones, in one transaction. */
const makeCommit = ({ skipLocked, sql, write }: Database, wakeUp: () => void) => {
  const { count, countRemoved, counts } = makeCounts(sql)

  /** Ids that are waiting, or were delivered and are still remembered. */
  const known = (ids: ReadonlyArray<string>) =>
    inChunks(ids, (some) =>
      recordIds(sql`
        SELECT record_id FROM spool WHERE ${sql.in("record_id", some)}
        UNION ALL
        SELECT record_id FROM spool_delivered WHERE ${sql.in("record_id", some)}`)
    )

  /** Bytes by which the offers of clients would pass the bound. */
  const missingFor = (offers: Offers, waiting: number): number => {
    const ofClients = offers.filter(({ bound }) => bound.share === undefined)
    const limit = Math.min(...ofClients.map(({ bound }) => bound.limitBytes))
    return waiting + bytesOf(ofClients.flatMap(({ entries }) => entries)) - limit
  }

  /** Drops the backend's own events first when clients need the room (api.md, own telemetry). Returns the sums. */
  function* makeRoom(offers: Offers, now: number): Steps<ReadonlyArray<SpoolCounts>> {
    const sums = yield* counts
    const own = sums.find(({ table }) => table === backendTable)?.waitingBytes ?? 0
    const missing = missingFor(
      offers,
      sums.reduce((sum, { waitingBytes }) => sum + waitingBytes, 0)
    )
    if (own === 0 || missing <= 0) return sums
    // Leased entries will be settled.
    const oldest = yield* candidates(sql`
      SELECT record_id, bytes FROM spool
      WHERE table_name = ${backendTable} AND ${notLeased(sql, now, latestDueTime(now))}
      ORDER BY sequence LIMIT ${groupRecords} ${skipLocked}`)
    let freed = 0
    const dropped = oldest.filter(({ bytes }) => {
      const needed = freed < missing
      if (needed) freed += bytes
      return needed
    })
    const rows = yield* inChunks(
      dropped.map((row) => row.recordId),
      (ids) =>
        removedRows(sql`
          DELETE FROM spool WHERE ${sql.in("record_id", ids)}
          RETURNING record_id, table_name, event_at, bytes`)
    )
    yield* countRemoved(rows, "expired")
    return yield* counts
  }

  function* admit(offers: Offers, now: number): Steps<Decision> {
    yield* lock("spool")
    const ids = new Set(offers.flatMap(({ entries }) => entries.map(({ recordId }) => recordId)))
    const repeated = new Set((yield* known([...ids])).map(({ recordId }) => recordId))
    const decision = decide(offers, repeated, yield* makeRoom(offers, now))
    const { changes, fresh } = decision
    yield* runInChunks(
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
    for (const { table, ...change } of changes) yield* count(table, change)
    if (fresh.length > 0) yield* notify("spool")
    return decision
  }

  return (offers: Offers): Effect.Effect<Decision["admissions"], StoreUnavailable> =>
    Effect.map(
      Effect.clockWith((clock) =>
        write(
          "Spool.offer",
          () => admit(offers, clock.unsafeCurrentTimeMillis()),
          ({ fresh }) => {
            if (fresh.length > 0) wakeUp()
          }
        )
      ),
      ({ admissions }) => admissions
    )
}

interface Waiting {
  readonly offer: Offer
  readonly resume: (answer: Exit.Exit<SpoolAdmission, StoreUnavailable>) => void
}

/**
 * Simultaneous offers share one commit, and each gets its own answer. Where the database does not group its writes, they also
 * share one transaction: it holds the spool's lock, for which the next one waits.
 */
export const makeOffer = (
  database: Database,
  wakeUp: () => void
): Effect.Effect<(offer: Offer) => Effect.Effect<SpoolAdmission, StoreUnavailable>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const commit = makeCommit(database, wakeUp)
    if (database.groupsWrites) return (offer: Offer) => Effect.map(commit([offer]), Arr.headNonEmpty)

    const runCallback = Runtime.runCallback(yield* Effect.runtime<never>())
    const groups = yield* makeGroups<Waiting>(
      (waiting, done) =>
        runCallback(commit(Arr.map(waiting, ({ offer }) => offer)), {
          onExit: (exit) => {
            if (Exit.isFailure(exit)) for (const { resume } of waiting) resume(Exit.failCause(exit.cause))
            else
              for (const [{ resume }, admission] of Arr.zip(waiting, exit.value))
                resume(Exit.succeed(admission))
            done()
          }
        }),
      { atMost: groupRecords, weight: ({ offer }) => offer.entries.length }
    )
    return (offer: Offer) =>
      waitWithinDeadline<SpoolAdmission, StoreUnavailable>((resume) => {
        const waiting: Waiting = { offer, resume }
        groups.add(waiting)
        return () => groups.remove(waiting)
      })
  }).pipe(
    Effect.map(
      (offerSome) => (offer) => (offer.entries.length === 0 ? Effect.succeed("accepted") : offerSome(offer))
    )
  )
