import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { TableName } from "../../schema/Telemetry.ts"
import { Settings } from "../../services/Settings.ts"
import { type TableRecord, Tables, type TablesService, type WriteResult } from "../../services/Tables.ts"
import { traced } from "../../services/Tracing.ts"
import { NotExecuted, Refused, Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { envelopeFailure } from "../upstream/ErrorEnvelope.ts"
import { makeUpstream } from "../upstream/UpstreamClient.ts"
import { jsonBody } from "../upstream/UpstreamRequest.ts"
import { type Send, UpstreamTransport } from "../upstream/UpstreamTransport.ts"
import { batchCodes, encodeBatch, readAcknowledgement } from "./TableBatch.ts"

const dependency = "tables"

/** Only a 400 with one of `batchCodes` refuses the batch. Any other refusal may end, so its records are kept. */
const outcomeOf = (refusal: Refused): UpstreamFailure => {
  if (refusal.status === 400 && batchCodes.includes(refusal.code)) return refusal
  const { code, retryAfterSeconds, status } = refusal
  const facts = {
    dependency,
    reason: `answered ${status} ${code}`,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds })
  } as const
  return status === 429 ? new NotExecuted(facts) : new Unknown(facts)
}

const make = (
  target: { readonly url: string; readonly keys: ReadonlyMap<TableName, Redacted.Redacted> },
  send: Send
): TablesService => {
  const upstream = makeUpstream(send, {
    dependency,
    url: target.url,
    timeoutSeconds: 10,
    maxResponseBytes: 4 * 1024 * 1024,
    failureOf: envelopeFailure({ requestIdHeader: "x-request-id" })
  })

  const keyed = (record: TableRecord) => {
    const key = target.keys.get(record.table)
    return key === undefined
      ? Effect.dieMessage(`the table ${record.table} has no key`)
      : Effect.succeed({ key: Redacted.value(key), record })
  }

  const write = Effect.fnUntraced(function* (
    records: ReadonlyArray<TableRecord>
  ): Effect.fn.Return<WriteResult, UpstreamFailure> {
    if (records.length === 0) return { duplicates: [], refused: [] }
    const entries = yield* Effect.forEach(records, keyed)
    const batchId = yield* Effect.sync(() => randomUUID())
    const verdict = yield* upstream({
      operation: "write",
      method: "POST",
      path: "/api/ingest",
      headers: {},
      body: jsonBody(encodeBatch(batchId, entries)),
      read: readAcknowledgement(batchId, records)
    }).pipe(Effect.catchTag("Refused", (refusal) => Effect.fail(outcomeOf(refusal))))
    if (verdict._tag === "Spoiled") return yield* new Refused({ dependency, status: 200, code: verdict.code })
    return verdict.result
  }, traced("Tables.write"))

  return { open: new Set(target.keys.keys()), write }
}

const off: TablesService = {
  open: new Set(),
  write: () => Effect.dieMessage("no table is configured")
}

/** The table service of the settings (`MUSIC_TABLES_URL`). Without one no table is open. */
export const TablesFromSettings: Layer.Layer<Tables, never, Settings | UpstreamTransport> = Layer.effect(
  Tables,
  Effect.gen(function* () {
    const { tables } = yield* Settings
    const { send } = yield* UpstreamTransport
    return Option.match(tables, {
      onNone: () => off,
      onSome: (target) => make(target, send)
    })
  })
)
