/** The `Tables` port over the table service: its batches and their acknowledgements (table-service.md 2 and 3). */
import { randomUUID } from "node:crypto"
import * as HttpBody from "@effect/platform/HttpBody"
import { HttpClient } from "@effect/platform/HttpClient"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { TableName } from "../../schema/Telemetry.ts"
import { Settings } from "../../services/Settings.ts"
import { type TableRecord, Tables, type TablesService, type WriteResult } from "../../services/Tables.ts"
import { Refused, Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { codePattern, envelopeFailure } from "../upstream/ErrorEnvelope.ts"
import { makeUpstream } from "../upstream/Upstream.ts"
import { expectAll, expectStatus, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"

const dependency = "tables"

/** The body of one ingest call, with `record.json` unchanged. Secret, because it holds the keys. */
const encodeBatch = (
  batchId: string,
  records: ReadonlyArray<TableRecord>,
  keys: ReadonlyMap<TableName, Redacted.Redacted>
): string => {
  const entries = records.map((record) => {
    const key = Redacted.value(Option.getOrThrow(Option.fromNullable(keys.get(record.table))))
    const metadata = {
      record_id: record.recordId,
      table_id: record.table,
      event_ts_ms: Math.trunc(record.eventAt)
    }
    return `{"key":${JSON.stringify(key)},"metadata":${JSON.stringify(metadata)},"record":${record.json}}`
  })
  return `{"batch_id":${JSON.stringify(batchId)},"records":[${entries.join(",")}]}`
}

const readBody = readJson(
  Schema.Struct({
    batch_id: Schema.String,
    status: Schema.Literal("ok", "rejected"),
    code: Schema.optional(Schema.String),
    rejected: Schema.optional(Schema.Array(Schema.Struct({ record_id: Schema.String, code: Schema.String })))
  })
)

/** Any other text would reach the database, the log and an operator's terminal. Postgres stores no NUL, so that one would stop the shipping. */
const toCode = (text: string): string => (codePattern.test(text) ? text : "unknown")

/** Each record's outcome, or the code for which the service refused the batch because of a record that it does not name. */
const readAcknowledgement = (
  batchId: string,
  records: ReadonlyArray<TableRecord>
): ResponseReader<WriteResult | string> =>
  expectStatus(200, (response) =>
    Either.gen(function* () {
      const { batch_id, code, rejected = [], status } = yield* readBody(response)
      yield* expectAll(
        [batch_id.toLowerCase() === batchId, "names another batch"],
        // Of a batch that is rejected without a record or a reason, nothing says what was stored.
        [(status === "rejected") === (code !== undefined || rejected.length > 0), "contradicts itself"]
      )
      if (code !== undefined) return toCode(code)
      const ours = new Set(records.map(({ recordId }) => recordId))
      const listed = rejected.map((entry) => ({
        recordId: entry.record_id.toLowerCase(),
        code: toCode(entry.code)
      }))
      // Unusable metadata is listed under the all-zero id: one of our records, but unknown which.
      const stray = listed.find(({ recordId }) => !ours.has(recordId))
      if (stray !== undefined) return stray.code
      const [refused, duplicates] = Arr.partition(listed, ({ code }) => code === "duplicate")
      return { duplicates: duplicates.map(({ recordId }) => recordId), refused }
    })
  )

/** Codes of a 400 that refuses the batch as a whole. */
const batchCodes: ReadonlyArray<string> = ["bad_json", "invalid_batch", "batch_too_large"]

/** Only a 400 with one of `batchCodes` refuses the batch. Any other refusal may end, so its records are kept. */
const outcomeOf = (refusal: Refused): UpstreamFailure => {
  const { code, retryAfterSeconds, status } = refusal
  return status === 400 && batchCodes.includes(code)
    ? refusal
    : new Unknown({ dependency, reason: `answered ${status} ${code}`, retryAfterSeconds })
}

const make = (
  client: HttpClient,
  target: { readonly url: string; readonly keys: ReadonlyMap<TableName, Redacted.Redacted> }
): TablesService => {
  const upstream = makeUpstream(client, {
    dependency,
    url: target.url,
    timeoutSeconds: 10,
    maxResponseBytes: 4 * 1024 * 1024,
    failureOf: envelopeFailure({ requestIdHeader: "x-request-id" })
  })

  const write: TablesService["write"] = Effect.fnUntraced(function* (records) {
    const batchId = yield* Effect.sync(() => randomUUID())
    const result = yield* upstream({
      operation: "write",
      method: "POST",
      path: "/api/ingest",
      headers: {},
      body: HttpBody.text(encodeBatch(batchId, records, target.keys), "application/json"),
      read: readAcknowledgement(batchId, records)
    }).pipe(Effect.catchTag("Refused", (refusal) => Effect.fail(outcomeOf(refusal))))
    return typeof result === "string" ? yield* new Refused({ dependency, status: 200, code: result }) : result
  })

  return { open: new Set(target.keys.keys()), write }
}

const off: TablesService = {
  open: new Set(),
  write: () => Effect.dieMessage("no table is configured")
}

/** The table service of the settings (`MUSIC_TABLES_URL`). Without one no table is open. */
export const TablesFromSettings: Layer.Layer<Tables, never, Settings | HttpClient> = Layer.effect(
  Tables,
  Effect.zipWith(Settings, HttpClient, ({ tables }, client) =>
    Option.match(tables, { onNone: () => off, onSome: (target) => make(client, target) })
  )
)
