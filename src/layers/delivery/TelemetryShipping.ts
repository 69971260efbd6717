/** The worker that ships the telemetry spool to the table service: at least once, one request in flight (table-service.md 3 to 7). */
import { randomUUID } from "node:crypto"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import type { TableName } from "../../schema/Telemetry.ts"
import { asTrace } from "../../services/Tracing.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import {
  type SpoolEntry,
  Store,
  type StoreUnavailable,
  tableDestination,
  tablesDestination
} from "../../services/Store.ts"
import { Tables, type WriteResult } from "../../services/Tables.ts"
import { type NotExecuted, Refused, Unknown } from "../../services/UpstreamFailure.ts"
import { longestPausedSleep, makeBreaker } from "./Breaker.ts"
import type { DeliveryLimits } from "./DeliveryLimits.ts"
import { repeatRounds, uninterruptedRequest } from "./Worker.ts"

const batchCount = 200
const batchBytes = 1024 * 1024
/** Milliseconds: below the 5 minutes for which the service recognises a record whose answer was lost (table-service.md 4). */
const longestBackoff = 30_000

type Entries = ReadonlyArray<SpoolEntry>

/** Each is for one request. */
interface Lease {
  /** Unique per lease, so that a slow holder cannot settle records of its successor. */
  readonly owner: string
  readonly entries: Entries
  /** Monotonic milliseconds. By then the request is answered or cut off; the rest of the lease is for settling. */
  readonly answerUntil: number
  /** Nothing is left to release. */
  readonly settled: Ref.Ref<boolean>
}

/** The service failed; the next request may be sent after this many milliseconds. */
class Paused extends Data.TaggedError("Paused")<{ readonly millis: number }> {}

/** What a round leads to: the next one at once, after the batch delay, or after a wake-up. */
type Next = "more" | "some" | "nothing"

export interface TelemetryShipping {
  readonly run: Effect.Effect<never>
  /** Any process found that the service does not know the key of a table. */
  readonly anyClosed: Effect.Effect<boolean, StoreUnavailable>
}

export const makeTelemetryShipping = (
  limits: DeliveryLimits
): Effect.Effect<TelemetryShipping, never, Store | Tables> =>
  Effect.gen(function* () {
    const { destinations, spool, wakeups } = yield* Store
    const tables = yield* Tables
    const breaker = makeBreaker(destinations, limits, {
      name: tablesDestination,
      title: "The table service",
      longestBackoff,
      // Refusals concern a batch or a table's key, and are handled here.
      advice: Effect.succeed("look at MUSIC_TABLES_URL")
    })
    /**
     * A table is closed while the service does not know its key: its records wait, and one of them is sent as a probe at each interval,
     * because the contract forbids frequent retries (table-service.md 3).
     */
    const breakerOf = (table: TableName) =>
      makeBreaker(destinations, limits, {
        name: tableDestination(table),
        title: `The table ${table}`,
        longestBackoff,
        advice: Effect.succeed(
          "set the table's key (MUSIC_…_TABLE_KEY) to a live one, or restore the table. A single record is sent periodically as a probe"
        )
      })
    const tableStates = Effect.forEach(tables.open, (table) =>
      Effect.map(breakerOf(table).state, (state) => ({ table, ...state }))
    )
    /** Records of the next lease: half as many after each refused batch, until the bad record is alone. */
    const leaseCount = yield* Ref.make(batchCount)
    /** The database is known to take too long for leases. */
    const slowDatabase = yield* Ref.make(false)

    const lease = (from: ReadonlySet<TableName>, count: number) =>
      Effect.gen(function* () {
        const owner = yield* Effect.sync(() => `telemetry-${randomUUID()}`)
        const startedAt = yield* monotonicMillis
        const now = yield* Clock.currentTimeMillis
        const leaseUntil = now + limits.telemetryLease
        const entries = yield* spool.lease({ tables: from, count, bytes: batchBytes, now, leaseUntil, owner })
        // Settling may take the database as long as leasing did.
        const took = (yield* monotonicMillis) - startedAt
        const answerUntil = startedAt + limits.telemetryLease - Math.max(took, limits.telemetryLease / 12)
        return { owner, entries, answerUntil, settled: yield* Ref.make(entries.length === 0) }
      })

    const release = ({ entries, owner, settled }: Lease) =>
      Effect.unlessEffect(
        Effect.ignoreLogged(
          spool.release(
            owner,
            entries.map(({ recordId }) => recordId)
          )
        ),
        Ref.get(settled)
      )

    /** Records of a table whose key is unknown stay in the spool. True when there are none. */
    const settle = ({ entries, owner, settled }: Lease, { duplicates, refused }: WriteResult) =>
      Effect.gen(function* () {
        const tableOf = new Map(entries.map(({ recordId, table }) => [recordId, table]))
        const [final, locked] = Arr.partition(refused, ({ code }) => code === "unauthorized")
        const notDelivered = new Set([...duplicates, ...refused.map(({ recordId }) => recordId)])
        yield* spool.settle({
          owner,
          now: yield* Clock.currentTimeMillis,
          delivered: [...tableOf.keys()].filter((id) => !notDelivered.has(id)),
          duplicates,
          refused: final
        })
        yield* Ref.set(settled, locked.length === 0)
        for (const { code, recordId } of final)
          yield* Effect.logError("A telemetry record was refused", {
            table: tableOf.get(recordId),
            record: recordId,
            code
          })
        const unknownKey = new Refused({ dependency: "tables", status: 401, code: "unauthorized" })
        for (const table of new Set(locked.map(({ recordId }) => tableOf.get(recordId))))
          if (table !== undefined) yield* breakerOf(table).recordFailure(unknownKey)
        return locked.length === 0
      }).pipe(Effect.uninterruptible)

    const failWithPause = (failure: NotExecuted | Unknown) =>
      Effect.gen(function* () {
        // Requests of other processes fail at the same time. Counting each of them would lengthen the pause.
        const paused = yield* Effect.match(breaker.state, {
          onFailure: () => 0,
          onSuccess: ({ pauseMillis }) => pauseMillis
        })
        const asked = (failure.retryAfterSeconds ?? 0) * 1000
        const millis = paused > 0 && paused >= asked ? paused : yield* breaker.recordFailure(failure)
        return yield* new Paused({ millis })
      })

    const recordRecovery = breaker.state.pipe(
      Effect.flatMap(({ failures, pauseMillis }) =>
        failures > 0 && pauseMillis === 0 ? breaker.recordWrite : Effect.void
      ),
      Effect.ignore
    )

    /**
     * Sends all records of a lease and settles them. False when the service does not know the key of a table among them. `Refused` concerns
     * the whole batch. When the process stops, the request keeps its grace time.
     */
    const send = (leased: Lease, duration: number) =>
      tables.write(leased.entries).pipe(
        Effect.timeoutFail({
          duration,
          onTimeout: () => new Unknown({ dependency: "tables", reason: "no answer before the lease ended" })
        }),
        uninterruptedRequest(limits.telemetryStopGrace, (exit) =>
          exit.pipe(
            Effect.tapErrorTag("Refused", () => recordRecovery),
            Effect.catchTags({ NotExecuted: failWithPause, Unknown: failWithPause }),
            Effect.flatMap((result) => Effect.zipLeft(settle(leased, result), recordRecovery))
          )
        ),
        asTrace("TelemetryShipping.ship")
      )

    /** Nothing can be sent under a lease. Without this warning the records would wait silently until they expire. */
    const warnSlowDatabase = Effect.unlessEffect(
      Effect.logWarning("The database is too slow to lease telemetry; the records wait", {
        leaseMillis: limits.telemetryLease
      }),
      Ref.getAndSet(slowDatabase, true)
    )

    /** Settles the only record of a batch that was refused. */
    const refuse = (leased: Lease, code: string) =>
      settle(leased, {
        duplicates: [],
        refused: leased.entries.map(({ recordId }) => ({ recordId, code }))
      })

    const sendLeased = (leased: Lease, count: number, isProbe: boolean) =>
      Effect.gen(function* () {
        const { answerUntil, entries } = leased
        const [first] = entries
        if (first === undefined) return "nothing"
        const duration = answerUntil - (yield* monotonicMillis)
        if (duration < limits.telemetryLease / 3) return yield* Effect.as(warnSlowDatabase, "some" as const)
        yield* Ref.set(slowDatabase, false)
        const table = breakerOf(first.table)
        if (isProbe && !(yield* table.reserveProbe)) return "nothing"
        const isKnown = yield* send(leased, duration)
        yield* Ref.set(leaseCount, batchCount)
        if (isProbe && !isKnown) return "nothing"
        if (isProbe) yield* table.recordWrite
        return count < batchCount || isFull(entries, count) ? "more" : "some"
      }).pipe(
        // It says nothing about a key. The bad record is found by sending half of the batch, and so on.
        Effect.catchTag("Refused", ({ code }) =>
          Effect.gen(function* () {
            const { length } = leased.entries
            if (length === 1) yield* refuse(leased, code)
            yield* Ref.set(leaseCount, length === 1 ? batchCount : Math.ceil(length / 2))
            return "more" as const
          })
        )
      )

    const ship = (from: ReadonlySet<TableName>, count: number, isProbe = false) =>
      Effect.acquireUseRelease(
        lease(from, count),
        (leased): Effect.Effect<Next, Paused | StoreUnavailable> => sendLeased(leased, count, isProbe),
        release
      )

    const round: Effect.Effect<Next, StoreUnavailable> = Effect.gen(function* () {
      const { pauseMillis } = yield* breaker.state
      if (pauseMillis > 0) return yield* new Paused({ millis: pauseMillis })
      const states = yield* tableStates
      const closed = states.filter(({ stopped }) => stopped)
      const due = new Set(closed.filter((one) => one.pauseMillis === 0).map(({ table }) => table))
      const open = new Set(states.filter(({ stopped }) => !stopped).map(({ table }) => table))
      const probed = due.size === 0 ? "nothing" : yield* ship(due, 1, true)
      const found = yield* ship(open, yield* Ref.get(leaseCount))
      return probed === "more" ? probed : found
    }).pipe(
      Effect.catchTag("Paused", ({ millis }) =>
        Effect.as(Effect.sleep(Math.min(longestPausedSleep, millis)), "more" as const)
      )
    )

    /** Records of a dead holder come back without a wake-up, hence the poll interval. */
    const sleepUntilWoken = Effect.raceFirst(
      Effect.zipRight(wakeups.spool, Effect.sleep(limits.batchDelay)),
      Effect.sleep(limits.telemetryPollInterval)
    )

    return {
      run: repeatRounds("Telemetry")(
        Effect.flatMap(round, (next) => {
          if (next === "more") return Effect.void
          return next === "some" ? Effect.sleep(limits.batchDelay) : sleepUntilWoken
        })
      ),
      anyClosed: Effect.map(tableStates, (states) => states.some(({ stopped }) => stopped))
    }
  })

/** The lease is near its bounds, so more records are waiting. */
const isFull = (entries: Entries, count: number): boolean =>
  entries.length >= count || entries.reduce((sum, { bytes }) => sum + bytes, 0) >= batchBytes / 2
