/** Sends leased telemetry records to the table service and settles them by its answer (table-service.md 3 to 7). */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import type { SpoolEntry, StoreUnavailable, TelemetrySpool } from "../../services/Store.ts"
import type { TablesService, WriteResult } from "../../services/Tables.ts"
import { type NotExecuted, type Refused, Unknown } from "../../services/UpstreamFailure.ts"
import type { DeliveryLimits } from "./DeliveryLimits.ts"
import type { DestinationBreaker } from "./DestinationBreaker.ts"
import type { TableBreaker } from "./TableBreaker.ts"
import { type LeaseOver, requestTime, type TelemetryLease } from "./TelemetryLease.ts"
import { uninterruptedRequest } from "./UninterruptedRequest.ts"

/** The service failed; the next request may be sent after this many milliseconds. */
export class Paused extends Data.TaggedError("Paused")<{ readonly millis: number }> {}

type Entries = ReadonlyArray<SpoolEntry>
type SendError = Paused | LeaseOver | StoreUnavailable

export interface TelemetryBatch {
  /** One request. False when the service does not know the key of a table in it. `Refused` concerns the whole batch. */
  readonly send: (lease: TelemetryLease, entries: Entries) => Effect.Effect<boolean, SendError | Refused>
  /** Settles records of a batch that was refused as a whole. */
  readonly refuse: (
    lease: TelemetryLease,
    entries: Entries,
    code: string
  ) => Effect.Effect<void, StoreUnavailable>
  /** Sends a batch, and halves one that is refused until the bad record is found. */
  readonly sendAll: (lease: TelemetryLease, entries: Entries) => Effect.Effect<void, SendError>
}

export const makeTelemetryBatch = (parts: {
  readonly spool: TelemetrySpool
  readonly tables: TablesService
  readonly tableBreaker: TableBreaker
  readonly breaker: DestinationBreaker
  readonly limits: DeliveryLimits
}): Effect.Effect<TelemetryBatch> =>
  Effect.gen(function* () {
    const { breaker, limits, spool, tableBreaker, tables } = parts
    /** The database is known to take too long for leases. */
    const slowDatabase = yield* Ref.make(false)

    /** Nothing could be sent under a lease. Without this warning the records would wait silently until they expire. */
    const warnSlowDatabase = Effect.flatMap(Ref.getAndSet(slowDatabase, true), (known) =>
      known
        ? Effect.void
        : Effect.logWarning("The database is too slow to lease telemetry; the records wait", {
            leaseMillis: limits.telemetryLease
          })
    )

    const logRefused = (entries: Entries, refused: WriteResult["refused"]) =>
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

    /** Records of a table whose key is unknown stay unsettled, so they are released. False when there are any. */
    const settle = (lease: TelemetryLease, entries: Entries, { duplicates, refused }: WriteResult) =>
      Effect.gen(function* () {
        const locked = new Set(
          refused.filter(({ code }) => code === "unauthorized").map((one) => one.recordId)
        )
        const final = refused.filter(({ recordId }) => !locked.has(recordId))
        const notDelivered = new Set([...duplicates, ...refused.map(({ recordId }) => recordId)])
        const sent = new Set(entries.map(({ recordId }) => recordId))
        yield* spool.settle({
          owner: lease.owner,
          now: yield* Clock.currentTimeMillis,
          delivered: [...sent].filter((id) => !notDelivered.has(id)),
          duplicates,
          refused: final
        })
        yield* Ref.update(
          lease.unsettled,
          (unsettled) => new Set([...unsettled].filter((id) => locked.has(id) || !sent.has(id)))
        )
        yield* logRefused(entries, final)
        const closing = new Set(
          entries.filter(({ recordId }) => locked.has(recordId)).map(({ table }) => table)
        )
        yield* Effect.forEach(closing, tableBreaker.close, { discard: true })
        return closing.size === 0
      }).pipe(Effect.uninterruptible)

    const failWithPause = (failure: NotExecuted | Unknown) =>
      Effect.gen(function* () {
        // Requests of other processes fail at the same time. Counting each of them would lengthen the pause.
        const paused = yield* Effect.orElseSucceed(breaker.pauseMillis, () => 0)
        const asked = (failure.retryAfterSeconds ?? 0) * 1000
        const millis = paused > 0 && paused >= asked ? paused : yield* breaker.recordFailure(failure)
        return yield* new Paused({ millis })
      })

    const recordRecovery = breaker.isRecovering.pipe(
      Effect.orElseSucceed(() => false),
      Effect.flatMap((recovering) => (recovering ? breaker.recordWrite : Effect.void))
    )

    /** When the process stops, the request keeps its grace time. */
    const send: TelemetryBatch["send"] = (lease, entries) =>
      Effect.gen(function* () {
        const duration = yield* requestTime(limits.telemetryLease, lease, entries.length).pipe(
          Effect.tap(Ref.set(slowDatabase, false)),
          Effect.tapError(({ size }) => (size < lease.entries.length ? Effect.void : warnSlowDatabase))
        )
        const onTimeout = () =>
          new Unknown({ dependency: "tables", reason: "no answer before the lease ended" })
        return yield* tables.write(entries).pipe(
          Effect.timeoutFail({ duration, onTimeout }),
          uninterruptedRequest(limits.telemetryStopGrace, (exit) =>
            exit.pipe(
              Effect.tapErrorTag("Refused", () => recordRecovery),
              Effect.catchTags({ NotExecuted: failWithPause, Unknown: failWithPause }),
              Effect.flatMap((result) => Effect.zipLeft(settle(lease, entries, result), recordRecovery))
            )
          )
        )
      })

    const refuse: TelemetryBatch["refuse"] = (lease, entries, code) =>
      Effect.asVoid(
        settle(lease, entries, {
          duplicates: [],
          refused: entries.map(({ recordId }) => ({ recordId, code }))
        })
      )

    const sendAll: TelemetryBatch["sendAll"] = (lease, entries) =>
      send(lease, entries).pipe(
        Effect.asVoid,
        Effect.catchTag("Refused", ({ code }) => {
          if (entries.length === 1) return refuse(lease, entries, code)
          const middle = Math.ceil(entries.length / 2)
          return Effect.zipRight(
            sendAll(lease, entries.slice(0, middle)),
            sendAll(lease, entries.slice(middle))
          )
        })
      )

    return { send, refuse, sendAll }
  })
