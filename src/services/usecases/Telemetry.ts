import { randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { Failure, refuseField } from "../../schema/Failure.ts"
import { orderedUuid, rfc3339Pattern, uuidPattern } from "../../schema/Patterns.ts"
import { clientTables, type TableName, type TelemetryRequest } from "../../schema/Telemetry.ts"
import type { Plane } from "../Plane.ts"
import { redactObject } from "../text/Redaction.ts"
import { RequestContext } from "../RequestContext.ts"
import { Settings } from "../Settings.ts"
import { type SpoolEntry, Store } from "../Store.ts"
import { logAndMapStoreFailure } from "../StoreFailures.ts"
import { Tables } from "../Tables.ts"

type Event = TelemetryRequest["events"][number]

const day = 24 * 60 * 60 * 1000
/** Milliseconds; the bounds of a plausible event time. */
const furthestBack = 30 * day
const furthestAhead = day
/** Bytes of JSON; the table service refuses a larger record for good (table-service.md 2). */
const recordLimit = 270_336
/** Bytes that an event counts besides its content, for its row and keys: most of what a small one takes. */
const bytesBeside = 250

const readClaimedTime = (event: Event): number => {
  const metadata = event.metadata
  if (typeof metadata !== "object" || metadata === null || !("occurred_at" in metadata)) return Number.NaN
  const at = metadata.occurred_at
  if (typeof at === "number") return at
  return typeof at === "string" && rfc3339Pattern.test(at) ? Date.parse(at) : Number.NaN
}

/** The event's own time when it is plausible, else the time of receipt; milliseconds since the epoch. */
export const eventTime = (event: Event, receivedAt: number): number => {
  const claimed = readClaimedTime(event)
  return claimed >= receivedAt - furthestBack && claimed <= receivedAt + furthestAhead
    ? Math.trunc(claimed)
    : receivedAt
}

/** Only a UUID identifies an event: two clients may both count from 1. */
const readUuid = ({ id }: Event): string | undefined =>
  typeof id === "string" && uuidPattern.test(id) ? id.toLowerCase() : undefined

const toEntry = (table: TableName, event: Event, receivedAt: number): SpoolEntry => {
  const uuid = readUuid(event)
  const recordId = uuid ?? orderedUuid(receivedAt, randomUUID())
  const redacted = redactObject(event)
  // Another id stays as it is: the table service reserves no name in a record and keeps the record id beside it (table-service.md 2).
  const json = JSON.stringify(
    uuid === undefined && "id" in redacted ? redacted : { ...redacted, id: recordId }
  )
  return {
    table,
    recordId,
    eventAt: eventTime(event, receivedAt),
    json,
    bytes: Buffer.byteLength(json) + bytesBeside,
    acceptedAt: receivedAt
  }
}

/** Accepts client telemetry. Success means committed, or validated and not to be recorded. */
export class Telemetry extends Effect.Service<Telemetry>()("music/Telemetry", {
  effect: Effect.gen(function* () {
    const settings = yield* Settings
    const store = yield* Store
    const tables = yield* Tables

    const accept = Effect.fnUntraced(function* (plane: Plane, request: TelemetryRequest) {
      const table = clientTables.find((name) => name === request.table && tables.open.has(name))
      if (table === undefined) {
        return yield* refuseField("table", "is not a table that accepts client events here")
      }
      const { recording } = yield* RequestContext
      // Table keys are production credentials, and an opt-out is final: nothing is written, and the call succeeds.
      if (!recording || !settings.telemetry.enabled || plane._tag === "Testing") return
      const now = yield* Clock.currentTimeMillis
      const entries = request.events.map((event) => toEntry(table, event, now))
      // `1e20` is written with all its digits.
      const large = entries.findIndex(({ bytes }) => bytes > recordLimit + bytesBeside)
      if (large !== -1) {
        return yield* refuseField(`events.${large}`, `must be at most ${recordLimit} bytes as it is stored`)
      }
      const admission = yield* store.spool
        .offer(entries, { limitBytes: settings.telemetry.spoolBytes })
        .pipe(logAndMapStoreFailure)
      if (admission === "full") return yield* new Failure("spool_full", { retryAfterSeconds: 30 })
    })

    return { accept } as const
  })
}) {}
