/** The worker that ships the telemetry spool to the table service (table-service.md 3 to 7): at least once, one request in flight. */
import { randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import type { TableName } from "../../schema/Telemetry.ts"
import { type SpoolEntry, Store, type StoreUnavailable } from "../../services/Store.ts"
import { Tables, type WriteResult } from "../../services/Tables.ts"
import type { NotExecuted, Unknown } from "../../services/Upstream.ts"
import type { Bounds } from "./Bounds.ts"
import { makeTableGates } from "./TableGates.ts"
import { backoff, patiently } from "./Worker.ts"

const batchCount = 200
const batchBytes = 1024 * 1024
/** Milliseconds. */
const longestPause = 30_000
const expiryInterval = Duration.minutes(10)
const hour = 3_600_000
/** Milliseconds for which a delivered id is known (api.md, telemetry). */
const deliveredMemory = 24 * hour

export interface TelemetryShipping {
  readonly ship: Effect.Effect<never>
  readonly expire: Effect.Effect<never>
  /** A table's key is unknown to the service, whichever process learned it. */
  readonly anyClosed: Effect.Effect<boolean, StoreUnavailable>
}

interface Lease {
  /** Another for each lease: who was too slow cannot settle what its successor holds. */
  readonly owner: string
  readonly entries: ReadonlyArray<SpoolEntry>
  /** After this time no further request starts: what is still open is given back. */
  readonly startsUntil: number
  /** Ids that are neither delivered nor refused yet. */
  readonly open: Ref.Ref<ReadonlySet<string>>
}

/** The lease does not suffice for a request of so many records. */
class LeaseOver extends Data.TaggedError("LeaseOver")<{ readonly size: number }> {}

/** What a round found: nothing, less than it could have sent, or more is waiting. */
type Found = "nothing" | "some" | "more"

export const makeTelemetryShipping = (
  spoolHours: number,
  bounds: Bounds
): Effect.Effect<TelemetryShipping, never, Store | Tables> =>
  Effect.gen(function* () {
    const { destinations, spool, wakeups } = yield* Store
    const tables = yield* Tables
    const gates = makeTableGates(destinations, tables.open, bounds.repairPause)
    const failures = yield* Ref.make(0)
    /** Records of the next lease: fewer after a spoiled batch whose bad record was not found in time. */
    const limit = yield* Ref.make(batchCount)

    const leaseOf = (of: ReadonlySet<TableName>, count: number): Effect.Effect<Lease, StoreUnavailable> =>
      Effect.gen(function* () {
        const owner = yield* Effect.sync(() => `telemetry-${randomUUID()}`)
        const now = yield* Clock.currentTimeMillis
        const leaseUntil = now + bounds.telemetryLease
        const entries = yield* spool.lease({ tables: of, count, bytes: batchBytes, now, leaseUntil, owner })
        const open = yield* Ref.make<ReadonlySet<string>>(new Set(entries.map(({ recordId }) => recordId)))
        // A request takes 10 s at most; the rest is for settling it.
        return { owner, entries, open, startsUntil: now + bounds.telemetryLease / 12 }
      })

    const giveBack = ({ open, owner }: Lease): Effect.Effect<void> =>
      Effect.flatMap(Ref.get(open), (ids) =>
        ids.size === 0 ? Effect.void : Effect.ignoreLogged(spool.release(owner, [...ids]))
      )

    /** Records of a table whose key is unknown stay open, and so are given back; true when there are none. */
    const settle = (lease: Lease, entries: ReadonlyArray<SpoolEntry>, { duplicates, refused }: WriteResult) =>
      Effect.gen(function* () {
        const locked = new Set(
          refused.filter(({ code }) => code === "unauthorized").map((one) => one.recordId)
        )
        const final = refused.filter(({ recordId }) => !locked.has(recordId))
        const other = new Set([...duplicates, ...refused.map(({ recordId }) => recordId)])
        const ids = entries.map(({ recordId }) => recordId)
        yield* spool.settle({
          owner: lease.owner,
          now: yield* Clock.currentTimeMillis,
          delivered: ids.filter((id) => !other.has(id)),
          duplicates,
          refused: final
        })
        yield* Ref.update(
          lease.open,
          (open) => new Set([...open].filter((id) => locked.has(id) || !ids.includes(id)))
        )
        yield* tellRefused(entries, final)
        const closing = new Set(
          entries.filter(({ recordId }) => locked.has(recordId)).map(({ table }) => table)
        )
        yield* Effect.forEach(closing, gates.close, { discard: true })
        return closing.size === 0
      }).pipe(Effect.uninterruptible)

    const tellRefused = (entries: ReadonlyArray<SpoolEntry>, refused: WriteResult["refused"]) =>
      Effect.forEach(
        refused,
        ({ code, recordId }) =>
          Effect.logError("A telemetry record was refused", {
            table: entries.find((entry) => entry.recordId === recordId)?.table,
            record: recordId,
            code
          }),
        { discard: true }
      )

    /** A batch that the service calls spoiled is halved until the bad record stands alone. */
    const write = (
      lease: Lease,
      entries: ReadonlyArray<SpoolEntry>
    ): Effect.Effect<void, NotExecuted | Unknown | LeaseOver | StoreUnavailable> =>
      Effect.gen(function* () {
        if ((yield* Clock.currentTimeMillis) > lease.startsUntil)
          return yield* new LeaseOver({ size: entries.length })
        yield* tables.write(entries).pipe(
          Effect.flatMap((result) => settle(lease, entries, result)),
          Effect.catchTag("Refused", ({ code }) => {
            const [first] = entries
            if (entries.length === 1 && first !== undefined)
              return settle(lease, entries, {
                duplicates: [],
                refused: [{ recordId: first.recordId, code }]
              })
            const middle = Math.ceil(entries.length / 2)
            return Effect.zipRight(
              write(lease, entries.slice(0, middle)),
              write(lease, entries.slice(middle))
            )
          })
        )
      })

    const recovered = Effect.flatMap(Ref.getAndSet(failures, 0), (count) =>
      count === 0 ? Effect.void : Effect.logInfo("The table service is available again")
    )

    const pause = (failure: NotExecuted | Unknown): Effect.Effect<Found> =>
      Effect.gen(function* () {
        const count = yield* Ref.updateAndGet(failures, (before) => before + 1)
        const own = yield* backoff(count, bounds.firstPause, longestPause)
        const millis = Math.max(own, (failure.retryAfterSeconds ?? 0) * 1000)
        const facts = { failure: failure.reason, pauseMillis: millis }
        if (count === 1)
          yield* Effect.logWarning("The table service is not available; telemetry waits", facts)
        else yield* Effect.logDebug("The table service is still not available", facts)
        yield* Effect.sleep(millis)
        return "more" as const
      })

    const shipOpen = (open: ReadonlySet<TableName>) =>
      Effect.gen(function* () {
        const count = yield* Ref.get(limit)
        return yield* Effect.acquireUseRelease(
          leaseOf(open, count),
          ({ entries, ...lease }) =>
            Effect.gen(function* () {
              if (entries.length === 0) return "nothing" as const
              yield* write({ ...lease, entries }, entries)
              yield* Ref.set(limit, batchCount)
              yield* recovered
              return isFull(entries, count) ? ("more" as const) : ("some" as const)
            }).pipe(
              Effect.catchTag("LeaseOver", ({ size }) =>
                Effect.as(Ref.set(limit, size), size < entries.length ? ("more" as const) : ("some" as const))
              )
            ),
          giveBack
        )
      }).pipe(Effect.withSpan("TelemetryShipping.round"))

    /** One record shows whether a closed table takes them again; true when it does. */
    const tryClosed = (due: ReadonlySet<TableName>) =>
      Effect.acquireUseRelease(
        leaseOf(due, 1),
        (lease) =>
          Effect.gen(function* () {
            const [entry] = lease.entries
            if (entry === undefined || !(yield* gates.book(entry.table))) return false
            const known = yield* settle(lease, [entry], yield* tables.write([entry]))
            if (known) yield* gates.reopen(entry.table)
            return known
          }).pipe(
            // A batch of one that is spoiled tells nothing about the key.
            Effect.catchTag("Refused", ({ code }) =>
              settle(lease, lease.entries, {
                duplicates: [],
                refused: lease.entries.map(({ recordId }) => ({ recordId, code }))
              }).pipe(Effect.as(false))
            )
          ),
        giveBack
      ).pipe(Effect.withSpan("TelemetryShipping.tryClosed"))

    const round = Effect.gen(function* () {
      const { due, open } = yield* gates.look
      const reopened = due.size > 0 && (yield* tryClosed(due))
      const found = yield* shipOpen(open)
      return reopened ? ("more" as const) : found
    }).pipe(Effect.catchTags({ NotExecuted: pause, Unknown: pause }))

    /** Without a sign: records of a holder that died come back unannounced. */
    const idle = Effect.raceFirst(
      Effect.zipRight(wakeups.spool, Effect.sleep(bounds.gathering)),
      Effect.sleep(bounds.telemetryLook)
    )

    const ship = patiently("Telemetry")(
      Effect.flatMap(round, (found) => {
        if (found === "more") return Effect.void
        return found === "some" ? Effect.sleep(bounds.gathering) : idle
      })
    )

    const expire = patiently("Telemetry expiry")(
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        yield* spool.expire({
          acceptedBefore: now - spoolHours * hour,
          deliveredBefore: now - deliveredMemory
        })
        yield* Effect.sleep(expiryInterval)
      })
    )

    return { ship, expire, anyClosed: gates.anyClosed }
  })

/** A lease near its bounds: more is waiting. */
const isFull = (entries: ReadonlyArray<SpoolEntry>, count: number): boolean =>
  entries.length >= count || entries.reduce((sum, { bytes }) => sum + bytes, 0) >= batchBytes / 2
