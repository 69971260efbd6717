import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Runtime from "effect/Runtime"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type {
  TelemetrySpool,
  SpoolAdmission,
  SpoolCounts,
  SpoolEntry,
  StoreUnavailable
} from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { makeGroups } from "../GroupCommit.ts"
import { all, inChunks, lock, runInChunks, type Steps } from "../Query.ts"
import { waitWithinDeadline } from "../RequestDeadline.ts"
import { bytesOf, makeCounts } from "./SpoolRows.ts"

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
 * Decides about offers in order, each as if it came alone. `known` are ids that wait or were delivered, `waitingBytes` those of
 * all tables so far.
 */
const decide = (offers: Offers, known: ReadonlySet<string>, waitingBytes: number): Decision => {
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

/** Decides about offers and stores the accepted ones, in one transaction. */
const makeCommit = ({ sql, write }: Database, wakeUp: () => void) => {
  const { count, counts } = makeCounts(sql)

  /** Ids that are waiting, or were delivered and are still remembered. */
  const known = (ids: ReadonlyArray<string>) =>
    inChunks(ids, (some) =>
      recordIds(sql`
        SELECT record_id FROM spool WHERE ${sql.in("record_id", some)}
        UNION ALL
        SELECT record_id FROM spool_delivered WHERE ${sql.in("record_id", some)}`)
    )

  function* admit(offers: Offers): Steps<Decision> {
    yield* lock("spool")
    const ids = new Set(offers.flatMap(({ entries }) => entries.map(({ recordId }) => recordId)))
    const repeated = new Set((yield* known([...ids])).map(({ recordId }) => recordId))
    const waitingBytes = (yield* counts).reduce((sum, table) => sum + table.waitingBytes, 0)
    const decision = decide(offers, repeated, waitingBytes)
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
    return decision
  }

  return (offers: Offers): Effect.Effect<Decision["admissions"], StoreUnavailable> =>
    Effect.map(
      write(
        "Spool.offer",
        () => admit(offers),
        ({ fresh }) => {
          if (fresh.length > 0) wakeUp()
        }
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
