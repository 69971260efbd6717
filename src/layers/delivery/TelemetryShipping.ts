/** The worker that ships the telemetry spool to the table service (table-service.md 3 to 7): at least once, one request in flight. */
import { randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import type { TableName } from "../../schema/Telemetry.ts"
import { makeAgreedTime } from "../../services/ClockAgreement.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { type SpoolEntry, Store, type StoreUnavailable } from "../../services/Store.ts"
import { Tables, type WriteResult } from "../../services/Tables.ts"
import { type NotExecuted, Unknown } from "../../services/UpstreamFailure.ts"
import type { DeliveryLimits } from "./DeliveryLimits.ts"
import { makeDestinationBreaker } from "./DestinationBreaker.ts"
import { uninterruptedRequest } from "./UninterruptedRequest.ts"
import { makeTableBreaker } from "./TableBreaker.ts"
import { patiently, pausedLook } from "./Backoff.ts"

const batchCount = 200
const batchBytes = 1024 * 1024
/** Milliseconds: soon enough after an outage that no answer that was lost with it is forgotten (table-service.md 4). */
const longestPause = 30_000
const expiryInterval = Duration.minutes(10)
const hour = 3_600_000
/** Milliseconds for which a delivered id is known (api.md, telemetry). */
const deliveredMemory = 24 * hour
/** Delivered ids that are known at most, about 120 MB; checked with every expiry, not with every delivery. */
const deliveredAtMost = 1_000_000

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
  /** Monotonic milliseconds. By then a request is answered or cut off; what is left of the lease is for settling it. */
  readonly answersUntil: number
  /** Ids that are neither delivered nor refused yet. */
  readonly open: Ref.Ref<ReadonlySet<string>>
}

/** What is left of the lease does not suffice for a request of so many records. */
class LeaseOver extends Data.TaggedError("LeaseOver")<{ readonly size: number }> {}

/** The service failed, and is left alone for so many milliseconds. */
class Paused extends Data.TaggedError("Paused")<{ readonly millis: number }> {}

export const makeTelemetryShipping = (
  spoolHours: number,
  bounds: DeliveryLimits
): Effect.Effect<TelemetryShipping, never, Store | Tables> =>
  Effect.gen(function* () {
    const { destinations, spool, wakeups } = yield* Store
    const tables = yield* Tables
    const agreedTime = yield* makeAgreedTime
    const gates = makeTableBreaker(destinations, tables.open, bounds.repairPause)
    const service = makeDestinationBreaker(destinations, bounds, {
      name: "tables",
      title: "The table service",
      longestPause,
      // Its refusals concern a batch or a table's key, which have ways of their own.
      advice: Effect.succeed("look at MUSIC_TABLES_URL")
    })
    // Of a lease: the time of one request in full, with which also the last one of a split batch begins, and the least that the
    // first one makes do with. The rest is for settling.
    const fullTime = (bounds.telemetryLease * 10) / 12
    const leastTime = bounds.telemetryLease / 3
    /** The database is known to take too long for leases. */
    const dragging = yield* Ref.make(false)
    /** Records of the next lease: fewer after a spoiled batch whose bad record was not found in time. */
    const limit = yield* Ref.make(batchCount)

    const leaseOf = (of: ReadonlySet<TableName>, count: number): Effect.Effect<Lease, StoreUnavailable> =>
      Effect.gen(function* () {
        const owner = yield* Effect.sync(() => `telemetry-${randomUUID()}`)
        const beganAt = yield* monotonicMillis
        const now = yield* Clock.currentTimeMillis
        const leaseUntil = now + bounds.telemetryLease
        const entries = yield* spool.lease({ tables: of, count, bytes: batchBytes, now, leaseUntil, owner })
        const open = yield* Ref.make<ReadonlySet<string>>(new Set(entries.map(({ recordId }) => recordId)))
        // A database that took so long to lease may take as long to settle.
        const took = (yield* monotonicMillis) - beganAt
        const answersUntil = beganAt + bounds.telemetryLease - Math.max(took, bounds.telemetryLease / 12)
        return { owner, entries, open, answersUntil }
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

    /** For how many milliseconds everything pauses after a failure. */
    const pauseAfter = (failure: NotExecuted | Unknown) =>
      Effect.gen(function* () {
        // Requests in flight beside ours fail with it, and that was told: counted for each process, it would pause all the longer.
        const paused = yield* Effect.orElseSucceed(service.paused, () => 0)
        const asked = (failure.retryAfterSeconds ?? 0) * 1000
        return paused > 0 && paused >= asked ? paused : yield* service.failed(failure)
      })

    const recovered = service.recovering.pipe(
      Effect.orElseSucceed(() => false),
      Effect.flatMap((recovering) => (recovering ? service.accepted : Effect.void))
    )

    /** Milliseconds that a request may take. */
    const timeFor = (lease: Lease, size: number) =>
      Effect.gen(function* () {
        const time = lease.answersUntil - (yield* monotonicMillis)
        const isFirst = size === lease.entries.length
        if (time < (isFirst ? leastTime : fullTime)) return yield* new LeaseOver({ size })
        yield* Ref.set(dragging, false)
        return time
      })

    /** One request, and what it tells about records, tables and the service; a stop of the process leaves it time. */
    const send = (lease: Lease, entries: ReadonlyArray<SpoolEntry>) =>
      Effect.gen(function* () {
        const duration = yield* timeFor(lease, entries.length)
        const onTimeout = () =>
          new Unknown({ dependency: "tables", reason: "no answer before the lease ended" })
        return yield* tables.write(entries).pipe(
          Effect.timeoutFail({ duration, onTimeout }),
          uninterruptedRequest(bounds.telemetryStop, (exit) =>
            exit.pipe(
              Effect.tapErrorTag("Refused", () => recovered),
              Effect.catchTags({ NotExecuted: failing, Unknown: failing }),
              Effect.flatMap((result) => Effect.zipLeft(settle(lease, entries, result), recovered))
            )
          )
        )
      })

    const failing = (failure: NotExecuted | Unknown) =>
      Effect.flatMap(pauseAfter(failure), (millis) => new Paused({ millis }))

    /** A batch that the service calls spoiled is halved until the bad record stands alone. */
    const write = (
      lease: Lease,
      entries: ReadonlyArray<SpoolEntry>
    ): Effect.Effect<void, Paused | LeaseOver | StoreUnavailable> =>
      send(lease, entries).pipe(
        Effect.catchTag("Refused", ({ code }) => {
          const [first] = entries
          if (entries.length === 1 && first !== undefined)
            return settle(lease, entries, {
              duplicates: [],
              refused: [{ recordId: first.recordId, code }]
            })
          const middle = Math.ceil(entries.length / 2)
          return Effect.zipRight(write(lease, entries.slice(0, middle)), write(lease, entries.slice(middle)))
        }),
        Effect.asVoid
      )

    /** A lease that was over before anything could be sent: without a word, everything would wait until it expires. */
    const tellDragging = Effect.flatMap(Ref.getAndSet(dragging, true), (known) =>
      known
        ? Effect.void
        : Effect.logWarning("The database takes too long to lease telemetry; it waits", {
            leaseMillis: bounds.telemetryLease
          })
    )

    const shipOpen = (open: ReadonlySet<TableName>) =>
      Effect.gen(function* () {
        const count = yield* Ref.get(limit)
        return yield* Effect.acquireUseRelease(
          leaseOf(open, count),
          (lease) =>
            Effect.gen(function* () {
              const { entries } = lease
              if (entries.length === 0) return "nothing" as const
              yield* write(lease, entries)
              yield* Ref.set(limit, batchCount)
              return isFull(entries, count) ? ("more" as const) : ("some" as const)
            }).pipe(
              Effect.catchTag("LeaseOver", ({ size }) =>
                size < lease.entries.length
                  ? Effect.as(Ref.set(limit, size), "more" as const)
                  : Effect.as(tellDragging, "some" as const)
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
            const known = yield* send(lease, [entry])
            if (known) yield* gates.reopen(entry.table)
            return known
          }).pipe(
            Effect.catchTags({
              // A batch of one that is spoiled tells nothing about the key.
              Refused: ({ code }) =>
                settle(lease, lease.entries, {
                  duplicates: [],
                  refused: lease.entries.map(({ recordId }) => ({ recordId, code }))
                }).pipe(Effect.as(false)),
              LeaseOver: () => Effect.as(tellDragging, false)
            })
          ),
        giveBack
      ).pipe(Effect.withSpan("TelemetryShipping.tryClosed"))

    const round = Effect.gen(function* () {
      const pause = yield* service.paused
      if (pause > 0) return yield* new Paused({ millis: pause })
      const { due, open } = yield* gates.look
      const reopened = due.size > 0 && (yield* tryClosed(due))
      const found = yield* shipOpen(open)
      return reopened ? ("more" as const) : found
    }).pipe(
      Effect.catchTag("Paused", ({ millis }) =>
        Effect.as(Effect.sleep(Math.min(pausedLook, millis)), "more" as const)
      )
    )

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
        // Nothing is old at 0; the bound of the ids holds all the same.
        const agreed = Option.getOrElse(yield* agreedTime, () => 0)
        yield* spool.expire({
          acceptedBefore: agreed - spoolHours * hour,
          deliveredBefore: agreed - deliveredMemory,
          deliveredAtMost
        })
        yield* Effect.sleep(expiryInterval)
      })
    )

    return { ship, expire, anyClosed: gates.anyClosed }
  })

/** A lease near its bounds: more is waiting. */
const isFull = (entries: ReadonlyArray<SpoolEntry>, count: number): boolean =>
  entries.length >= count || entries.reduce((sum, { bytes }) => sum + bytes, 0) >= batchBytes / 2
