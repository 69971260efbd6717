/** The worker that ships the telemetry spool to the table service: at least once, one request in flight (table-service.md 3 to 7). */
import { randomUUID } from "node:crypto"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { asTrace } from "../../services/Tracing.ts"
import {
  type SpoolEntry,
  Store,
  type StoreUnavailable,
  tableDestination,
  tablesDestination
} from "../../services/Store.ts"
import { Tables, type WriteResult } from "../../services/Tables.ts"
import { Refused, Unknown } from "../../services/UpstreamFailure.ts"
import {
  type DeliveryLimits,
  longestPausedSleep,
  makeBreaker,
  repeatRounds,
  uninterruptedRequest
} from "./Worker.ts"

const batchCount = 200
const batchBytes = 1024 * 1024
/** Milliseconds: below the 5 minutes for which the service recognises a record whose answer was lost (table-service.md 4). */
const longestBackoff = 30_000

/** Each is for one request. */
interface Lease {
  /** Unique per lease, so that a slow holder cannot settle records of its successor. */
  readonly owner: string
  readonly entries: ReadonlyArray<SpoolEntry>
  /** Nothing is left to release. */
  settled: boolean
}

export const makeTelemetryShipping = (limits: DeliveryLimits) =>
  Effect.gen(function* () {
    const { destinations, spool, wakeups } = yield* Store
    const tables = yield* Tables
    const service = makeBreaker(destinations, limits, {
      name: tablesDestination,
      title: "The table service",
      longestBackoff,
      // Refusals concern a batch or a table's key, and are handled here.
      advice: "look at MUSIC_TABLES_URL"
    })
    /** The records of a table whose key the service does not know wait, and are tried again after each pause (table-service.md 3). */
    const keys = [...tables.open].map((table) => ({
      table,
      breaker: makeBreaker(destinations, limits, {
        name: tableDestination(table),
        title: `The table ${table}`,
        longestBackoff,
        advice:
          "set the table's key (MUSIC_…_TABLE_KEY) to a live one and restart, or restore the table. It is tried again every five minutes"
      })
    }))
    const keyStates = Effect.forEach(keys, ({ breaker, table }) =>
      Effect.map(breaker.state, (state) => ({ table, ...state }))
    )
    /** Records of the next lease: half as many after each refused batch, until the bad record is alone. */
    let leaseCount = batchCount

    const lease = Effect.gen(function* () {
      const states = yield* keyStates
      const owner = yield* Effect.sync(() => `telemetry-${randomUUID()}`)
      const now = yield* Clock.currentTimeMillis
      const entries = yield* spool.lease({
        tables: new Set(states.filter(({ pauseMillis }) => pauseMillis === 0).map(({ table }) => table)),
        count: leaseCount,
        bytes: batchBytes,
        now,
        leaseUntil: now + limits.telemetryLease,
        owner
      })
      return { owner, entries, settled: entries.length === 0 }
    })

    /** Records of a table whose key is unknown stay in the spool. */
    const settle = (leased: Lease, { duplicates, refused }: WriteResult) =>
      Effect.gen(function* () {
        const tableOf = new Map(leased.entries.map(({ recordId, table }) => [recordId, table]))
        const [final, locked] = Arr.partition(refused, ({ code }) => code === "unauthorized")
        const notDelivered = new Set([...duplicates, ...refused.map(({ recordId }) => recordId)])
        yield* spool.settle({
          owner: leased.owner,
          now: yield* Clock.currentTimeMillis,
          delivered: [...tableOf.keys()].filter((id) => !notDelivered.has(id)),
          duplicates,
          refused: final
        })
        leased.settled = locked.length === 0
        for (const { code, recordId } of final)
          yield* Effect.logError("A telemetry record was refused", {
            table: tableOf.get(recordId),
            record: recordId,
            code
          })
        const unknownKey = new Refused({ dependency: "tables", status: 401, code: "unauthorized" })
        const closed = new Set(locked.map(({ recordId }) => tableOf.get(recordId)))
        const sentTo = new Set(tableOf.values())
        for (const { breaker, table } of keys)
          if (closed.has(table)) yield* breaker.recordFailure(unknownKey)
          else if (sentTo.has(table)) yield* breaker.recordWrite
        yield* service.recordWrite
      }).pipe(Effect.uninterruptible)

    /** It says nothing about a key. The bad record is found by sending half of the batch, and so on. */
    const divide = (leased: Lease, { code }: Refused) => {
      const { length } = leased.entries
      leaseCount = length === 1 ? batchCount : Math.ceil(length / 2)
      const refused = leased.entries.map(({ recordId }) => ({ recordId, code }))
      return length === 1 ? settle(leased, { duplicates: [], refused }) : service.recordWrite
    }

    /** Sends all records of a lease and settles them. When the process stops, the request keeps its grace time. True when more wait. */
    const send = (leased: Lease) =>
      tables.write(leased.entries).pipe(
        Effect.timeoutFail({
          duration: (limits.telemetryLease * 2) / 3,
          onTimeout: () => new Unknown({ dependency: "tables", reason: "no answer in time" })
        }),
        uninterruptedRequest((exit) =>
          Effect.flatMap(exit, (result) => {
            const hasMore = leaseCount < batchCount || isFull(leased.entries)
            leaseCount = batchCount
            return Effect.as(settle(leased, result), hasMore)
          }).pipe(
            Effect.catchTags({
              Refused: (refusal) => Effect.as(divide(leased, refusal), true),
              // The next round waits for the end of the pause.
              NotExecuted: (failure) => Effect.as(service.recordFailure(failure), true),
              Unknown: (failure) => Effect.as(service.recordFailure(failure), true)
            })
          )
        ),
        asTrace("TelemetryShipping.ship")
      )

    const ship = (leased: Lease): Effect.Effect<boolean, StoreUnavailable> =>
      leased.entries.length === 0 ? Effect.succeed(false) : send(leased)

    const release = ({ entries, owner, settled }: Lease) =>
      settled
        ? Effect.void
        : Effect.ignoreLogged(
            spool.release(
              owner,
              entries.map(({ recordId }) => recordId)
            )
          )

    const round = Effect.gen(function* () {
      const { pauseMillis } = yield* service.state
      if (pauseMillis > 0) return yield* Effect.sleep(Math.min(longestPausedSleep, pauseMillis))
      if (yield* Effect.acquireUseRelease(lease, ship, release)) return
      // Records of a dead holder come back without a wake-up, hence the poll interval.
      yield* Effect.raceFirst(
        Effect.zipRight(wakeups.spool, Effect.sleep(limits.batchDelay)),
        Effect.sleep(limits.telemetryPollInterval)
      )
    })

    return {
      run: repeatRounds("Telemetry")(round),
      /** Any process found that the service does not know the key of a table. */
      anyClosed: Effect.map(keyStates, (states) => states.some(({ stopped }) => stopped))
    }
  })

/** The lease is near its bounds, so more records are waiting. */
const isFull = (entries: ReadonlyArray<SpoolEntry>): boolean =>
  entries.length >= batchCount || entries.reduce((sum, { bytes }) => sum + bytes, 0) >= batchBytes / 2
