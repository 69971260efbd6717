import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
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
import { groupCommit } from "../GroupCommit.ts"
import { all, inChunks, Whole } from "./Rows.ts"
import { bytesOf, makeCounts, notLeased, RemovedRow } from "./SpoolRows.ts"

/** Records of one transaction, which holds up the others, and in SQLite the thread. */
const groupRecords = 1_000

export interface Offer {
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
 * Decides about offers in order, each as if it came alone. `known` are ids that wait or were delivered, `waiting` the bytes of
 * each table so far.
 */
const decide = (
  offers: ReadonlyArray<Offer>,
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

  const admissions = offers.map(({ bound, entries }): SpoolAdmission => {
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

/** Simultaneous offers of this process share one transaction; each gets its own answer. */
export const makeOffer = (
  { announce, alone, skipLocked, sql, write }: Database,
  wakeUp: Effect.Effect<void>
): Effect.Effect<(offer: Offer) => Effect.Effect<SpoolAdmission, StoreUnavailable>, never, Scope.Scope> => {
  const { count, countRemoved, counts } = makeCounts(sql)

  /** Ids that are waiting, or were delivered and are still remembered. */
  const known = (recordIds: ReadonlyArray<string>) =>
    inChunks(recordIds, (ids) =>
      all(Schema.Struct({ recordId: Schema.String }))(sql`
        SELECT record_id FROM spool WHERE ${sql.in("record_id", ids)}
        UNION ALL
        SELECT record_id FROM spool_delivered WHERE ${sql.in("record_id", ids)}`)
    ).pipe(Effect.map((rows) => new Set(rows.map((row) => row.recordId))))

  /** Bytes by which the offers of clients would pass the bound. */
  const missingFor = (offers: ReadonlyArray<Offer>, waiting: number): number => {
    const ofClients = offers.filter(({ bound }) => bound.share === undefined)
    const limit = Math.min(...ofClients.map(({ bound }) => bound.limitBytes))
    return waiting + bytesOf(ofClients.flatMap(({ entries }) => entries)) - limit
  }

  /** Drops the backend's own events first when clients need the room (api.md, own telemetry). */
  const makeRoom = (offers: ReadonlyArray<Offer>) =>
    Effect.gen(function* () {
      const sums = yield* counts
      const own = sums.find(({ table }) => table === backendTable)?.waitingBytes ?? 0
      const missing = missingFor(
        offers,
        sums.reduce((sum, { waitingBytes }) => sum + waitingBytes, 0)
      )
      if (own === 0 || missing <= 0) return sums
      const now = yield* Clock.currentTimeMillis
      // Leased entries will be settled.
      const oldest = yield* all(Schema.Struct({ recordId: Schema.String, bytes: Whole }))(sql`
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
          all(RemovedRow)(sql`
            DELETE FROM spool WHERE ${sql.in("record_id", ids)}
            RETURNING record_id, table_name, event_at, bytes`)
      )
      yield* countRemoved(rows, "expired")
      return yield* counts
    })

  const commit = (offers: ReadonlyArray<Offer>) =>
    write(
      "Spool.commit",
      Effect.gen(function* () {
        yield* alone("spool")
        const ids = new Set(offers.flatMap(({ entries }) => entries.map(({ recordId }) => recordId)))
        const decision = decide(offers, yield* known([...ids]), yield* makeRoom(offers))
        const { changes, fresh } = decision
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
        yield* Effect.forEach(changes, ({ table, ...change }) => count(table, change), { discard: true })
        if (fresh.length > 0) yield* announce("spool")
        return decision
      }),
      ({ fresh }) => (fresh.length > 0 ? wakeUp : Effect.void)
    ).pipe(Effect.map(({ admissions }) => admissions))

  return Effect.map(
    groupCommit(commit, { atMost: groupRecords, weight: ({ entries }: Offer) => entries.length }),
    (commitInGroup) => (offer) =>
      offer.entries.length === 0
        ? Effect.succeed("accepted")
        : Effect.withSpan(commitInGroup(offer), "Spool.offer", { captureStackTrace: false })
  )
}
