import { randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Queue from "effect/Queue"
import { version } from "../schema/Release.ts"
import { backendTable } from "../schema/Telemetry.ts"
import * as Metrics from "./Metrics.ts"
import type { Plane } from "./Plane.ts"
import { RequestContext } from "./RequestContext.ts"
import { Settings } from "./Settings.ts"
import { type SpoolEntry, Store, type StoreUnavailable } from "./Store.ts"
import { Tables } from "./Tables.ts"

export type BackendEventKind = "request" | "login" | "ting" | "report" | "webhook"

/** Facts about our own work. Never a token, a key, a text of a user, or an address. */
export interface BackendEvent {
  readonly kind: BackendEventKind
  readonly fields: Readonly<Record<string, string | number | boolean | null>>
}

const capacity = 10_000
const batch = 200
const interval = Duration.seconds(1)
/** The backend's own events may fill a tenth of the spool: they are the first to go. */
const share = 10

/**
 * The backend's own telemetry: buffered in memory, written to the spool in batches, dropped first and counted. It
 * never fails or delays a request, and records nothing of a caller who opted out or of a testing plane.
 */
export class BackendTelemetry extends Effect.Service<BackendTelemetry>()("music/BackendTelemetry", {
  scoped: Effect.gen(function* () {
    const settings = yield* Settings
    const store = yield* Store
    const tables = yield* Tables
    const enabled = settings.telemetry.enabled && tables.open.has(backendTable)
    const buffer = yield* Queue.dropping<SpoolEntry>(capacity)
    let dropped = 0

    const entryOf = (event: BackendEvent, requestId: string, source: string, now: number): SpoolEntry => {
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

    const record = (event: BackendEvent): Effect.Effect<void> =>
      Effect.gen(function* () {
        const { recording, requestId, source } = yield* RequestContext
        if (!enabled || !recording) return
        const now = yield* Clock.currentTimeMillis
        const kept = yield* Queue.offer(buffer, entryOf(event, requestId, source, now))
        if (!kept) dropped += 1
      })

    /** Records how an operation ended, unless it belongs to a testing plane. */
    const outcome =
      (kind: BackendEventKind, plane: Plane) =>
      <A, E extends { readonly code: string }, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
        plane._tag === "Testing"
          ? effect
          : effect.pipe(
              Effect.tapBoth({
                onSuccess: () => record({ kind, fields: { outcome: "ok" } }),
                onFailure: ({ code }) => record({ kind, fields: { outcome: "error", error_code: code } })
              })
            )

    const lost = (events: number, reason: Metrics.DropReason) =>
      Effect.zipRight(
        Metric.incrementBy(Metrics.ownEventsDropped({ reason }), events),
        Effect.logWarning("Own telemetry dropped", { events, reason })
      )

    const write = (entries: ReadonlyArray<SpoolEntry>): Effect.Effect<void, StoreUnavailable> =>
      store.spool
        .offer(entries, {
          limitBytes: Math.floor(settings.telemetry.spoolBytes / share),
          share: backendTable,
          wholeBytes: settings.telemetry.spoolBytes
        })
        .pipe(
          Effect.tapError(() => lost(entries.length, "database")),
          Effect.flatMap((admission) => (admission === "full" ? lost(entries.length, "spool") : Effect.void))
        )

    /** Uninterruptible: what has left the buffer is written, also when the process ends meanwhile. */
    const flush = Effect.gen(function* () {
      if (dropped > 0) yield* lost(dropped, "buffer")
      dropped = 0
      for (;;) {
        const entries = Array.from(yield* Queue.takeUpTo(buffer, batch))
        if (entries.length === 0) return
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

    return { record, outcome, flush } as const
  })
}) {}
