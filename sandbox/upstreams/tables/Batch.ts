/** A batch as the ingest route reads it (table-service.md 2 and 3): shape, compact sizes, the record's own parts. */
import { canonical, isRecord, parseJson } from "../Json.ts"
import type { Reply, Seen } from "../Simulator.ts"

/** Largest batch, bytes of the body. */
const batchLimit = 8_388_608
/** Largest `record`, bytes of compact JSON. */
export const recordLimit = 270_336
/** The id of a rejection when the record's own id is unreadable. */
export const nilUuid = "00000000-0000-0000-0000-000000000000"

export interface Entry {
  readonly key: string
  readonly metadata: unknown
  readonly record: unknown
}

export interface Batch {
  readonly batchId: string
  readonly entries: ReadonlyArray<Entry>
}

/** Refuses the whole batch; only these two fields (table-service.md 3). */
export const refusal = (status: number, code: string, message: string): Reply => ({
  status,
  body: { error: { code, message } }
})

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const uuidOf = (value: unknown): string | undefined =>
  typeof value === "string" && uuid.test(value) ? value : undefined

const readEntry = (json: unknown): Entry | undefined => {
  const { key, metadata, record } = isRecord(json) ? json : {}
  if (typeof key !== "string" || metadata === undefined || record === undefined) return undefined
  return { key, metadata, record }
}

const isJson = (request: Seen): boolean => {
  const declared = request.headers.get("content-type")?.[0] ?? ""
  return /^application\/(?:json|[^/;\s]+\+json)$/i.test((declared.split(";")[0] ?? "").trim())
}

export const bytesOf = (json: unknown): number => Buffer.byteLength(canonical(json))

/** The batch of a request, or the refusal of the whole. */
export const readBatch = (request: Seen): Batch | Reply => {
  const json = isJson(request) && request.body.length <= batchLimit ? parseJson(request.body) : undefined
  if (json === undefined) return refusal(400, "bad_json", "the body is not JSON of at most 8 MiB")
  const { batch_id, records } = isRecord(json) ? json : {}
  const batchId = uuidOf(batch_id)
  if (batchId === undefined || !Array.isArray(records))
    return refusal(400, "invalid_batch", "a batch needs batch_id, a UUID, and records, an array")
  const entries: Array<Entry> = []
  for (const item of records) {
    const entry = readEntry(item)
    if (entry === undefined)
      return refusal(400, "invalid_batch", "every record needs key, metadata and record")
    entries.push(entry)
  }
  return { batchId, entries }
}

export interface RecordHeader {
  readonly recordId: string
  readonly eventMilliseconds: number
}

/** The required fields of an entry's metadata; `undefined` when they are unusable. */
export const readRecordHeader = (metadata: unknown): RecordHeader | undefined => {
  const { record_id, event_ts_ms } = isRecord(metadata) ? metadata : {}
  const recordId = uuidOf(record_id)
  return recordId !== undefined && typeof event_ts_ms === "number" && Number.isSafeInteger(event_ts_ms)
    ? { recordId, eventMilliseconds: event_ts_ms }
    : undefined
}
