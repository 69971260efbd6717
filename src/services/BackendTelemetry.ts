import { randomUUID } from "node:crypto"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import { version } from "../schema/Release.ts"
import { backendTable } from "../schema/Telemetry.ts"
import * as Metrics from "./Metrics.ts"
import type { Plane } from "./Plane.ts"
import { RequestContext, type RequestInfo } from "./RequestContext.ts"
import { Settings } from "./Settings.ts"
import { type SpoolEntry, Store, type StoreUnavailable } from "./Store.ts"
import { Tables } from "./Tables.ts"

export type BackendEventKind = "request" | "login" | "ting" | "report" | "webhook"

/** Measured facts about the service's own work. Never a token, a key, a user's text or an address. */
export interface BackendEvent {
  readonly kind: BackendEventKind
  readonly fields: Readonly<Record<string, string | number | boolean | null>>
}

const capacity = 10_000
const batch = 200
const interval = Duration.seconds(1)
/** The backend's own events may fill a tenth of the spool: they are dropped before client events. */
const spoolShare = 10

/**
 * The backend's own telemetry: buffered in memory and written to the spool in batches. When there is no room, events are dropped
 * and counted. It never fails or delays a request, and records nothing about a caller who opted out or a testing plane.
 */
export class BackendTelemetry extends Effect.Service<BackendTelemetry>()("music/BackendTelemetry", {
  scoped: Effect.gen(function* () {
    const settings = yield* Settings
    const store = yield* Store
    const tables = yield* Tables
    const enabled = settings.telemetry.enabled && tables.open.has(backendTable)
    let buffer: Array<SpoolEntry> = []
    let dropped = 0

    const toEntry = (event: BackendEvent, requestId: string, source: string, now: number): SpoolEntry => {
      const recordId = randomUUID()
      const json = JSON.stringify({
        id: recordId,
        schema_version: 1,
        app: "music",
        service: "music-backend",
        source,
        version,
        event: `${event.kind}.completed`,
        outcome: event.fields.outcome ?? "ok",
        error_code: event.fields.error_code ?? null,
        context: { ...event.fields, request_id: requestId }
      })
      return {
        table: backendTable,
        recordId,
        eventAt: now,
        json,
        bytes: Buffer.byteLength(json),
        acceptedAt: now
      }
    }

    /** Records an event of the given request; `now` in milliseconds since the epoch. */
    const recordNow = (
      event: BackendEvent,
      { recording, requestId, source }: Pick<RequestInfo, "recording" | "requestId" | "source">,
      now: number
    ): void => {
      if (!enabled || !recording) return
      if (buffer.length < capacity) buffer.push(toEntry(event, requestId, source, now))
      else dropped += 1
    }

    /** Records an event of the current request. */
    const record = (event: BackendEvent): Effect.Effect<void> =>
      Effect.withFiberRuntime((fiber) => {
        recordNow(
          event,
          Context.get(fiber.currentContext, RequestContext),
          Context.get(fiber.currentDefaultServices, Clock.Clock).unsafeCurrentTimeMillis()
        )
        return Effect.void
      })

    /** Records the outcome of an operation in production. */
    const recordOutcome =
      (kind: BackendEventKind, plane: Plane) =>
      <A, E extends { readonly code: string }, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
        plane._tag === "Testing"
          ? effect
          : Effect.onExit(effect, (exit) => {
              if (Exit.isSuccess(exit)) return record({ kind, fields: { outcome: "ok" } })
              // A defect or an interruption is no outcome of the operation.
              return Option.match(Cause.failureOption(exit.cause), {
                onNone: () => Effect.void,
                onSome: ({ code }) => record({ kind, fields: { outcome: "error", error_code: code } })
              })
            })

    const countDropped = (events: number, reason: Metrics.DropReason) =>
      Effect.zipRight(
        Metric.incrementBy(Metrics.ownEventsDropped({ reason }), events),
        Effect.logWarning("Own telemetry dropped", { events, reason })
      )

    const write = (entries: ReadonlyArray<SpoolEntry>): Effect.Effect<void, StoreUnavailable> =>
      store.spool
        .offer(entries, {
          limitBytes: Math.floor(settings.telemetry.spoolBytes / spoolShare),
          share: backendTable,
          wholeBytes: settings.telemetry.spoolBytes
        })
        .pipe(
          Effect.tapError(() => countDropped(entries.length, "database")),
          Effect.flatMap((admission) =>
            admission === "full" ? countDropped(entries.length, "spool") : Effect.void
          )
        )

    /** Uninterruptible: events that have left the buffer are written, also when the process ends meanwhile. */
    const flush = Effect.gen(function* () {
      if (dropped > 0) yield* countDropped(dropped, "buffer")
      dropped = 0
      for (;;) {
        const entries = buffer.slice(0, batch)
        if (entries.length === 0) return
        buffer = buffer.slice(entries.length)
        yield* write(entries)
      }
    }).pipe(
      Effect.catchAll(({ reason }) => Effect.logWarning("Own telemetry not written", reason)),
      Effect.uninterruptible
    )

    if (enabled) {
      yield* Effect.addFinalizer(() => flush)
      yield* Effect.forkScoped(Effect.forever(Effect.zipRight(Effect.sleep(interval), flush)))
    }

    return { record, recordNow, recordOutcome, flush } as const
  })
}) {}
