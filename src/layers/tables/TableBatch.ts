/** The batch and its acknowledgement on the wire (table-service.md 2 and 3). */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { TableRecord, WriteResult } from "../../services/Tables.ts"
import { expect, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"

/** The body of one ingest call, with `record.json` unchanged. Secret, because it holds the keys. */
export const encodeBatch = (
  batchId: string,
  records: ReadonlyArray<{ readonly key: string; readonly record: TableRecord }>
): string => {
  const entries = records.map(({ key, record }) => {
    const metadata = {
      record_id: record.recordId,
      table_id: record.table,
      event_ts_ms: Math.trunc(record.eventAt)
    }
    return `{"key":${JSON.stringify(key)},"metadata":${JSON.stringify(metadata)},"record":${record.json}}`
  })
  return `{"batch_id":${JSON.stringify(batchId)},"records":[${entries.join(",")}]}`
}

const Acknowledgement = Schema.Struct({
  batch_id: Schema.String,
  status: Schema.Literal("ok", "rejected"),
  code: Schema.optional(Schema.String),
  rejected: Schema.optional(Schema.Array(Schema.Struct({ record_id: Schema.String, code: Schema.String })))
})
const readBody = readJson(Acknowledgement)

/** Each record's outcome, or `Spoiled`: the service refused the batch for a record that it does not name. */
export type Verdict =
  | { readonly _tag: "Written"; readonly result: WriteResult }
  | { readonly _tag: "Spoiled"; readonly code: string }

/** Reads the acknowledgement of the batch that was sent. */
export const readAcknowledgement =
  (batchId: string, records: ReadonlyArray<TableRecord>): ResponseReader<Verdict> =>
  (response) =>
    Either.gen(function* () {
      yield* expect(response.status === 200, "should be 200")
      const { batch_id, code, rejected = [], status } = yield* readBody(response)
      yield* expect(batch_id.toLowerCase() === batchId, "names another batch")
      yield* expect(status === "rejected" || rejected.length === 0, "contradicts itself")
      if (code !== undefined) return { _tag: "Spoiled", code }
      const ours = new Set(records.map(({ recordId }) => recordId))
      const listed = rejected.map((entry) => ({ recordId: entry.record_id.toLowerCase(), code: entry.code }))
      // Unusable metadata is listed under the all-zero id: one of our records, but unknown which.
      const stray = listed.find(({ recordId }) => !ours.has(recordId))
      if (stray !== undefined) return { _tag: "Spoiled", code: stray.code }
      return {
        _tag: "Written",
        result: {
          duplicates: listed.filter((entry) => entry.code === "duplicate").map(({ recordId }) => recordId),
          refused: listed.filter((entry) => entry.code !== "duplicate")
        }
      }
    })

/** Codes of a 400 that refuses the batch as a whole. */
export const batchCodes: ReadonlyArray<string> = ["bad_json", "invalid_batch", "batch_too_large"]
