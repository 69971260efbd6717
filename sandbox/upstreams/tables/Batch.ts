/** A batch as the ingest route reads it (table-service.md 2 and 3): shape, compact sizes, the record's own parts. */
import type { Reply, Seen } from "../Simulator.ts"
import { canonical, isInteger64, type Json, JsonProblem, parseJson, textOf } from "../StrictJson.ts"

/** Largest batch, bytes: of the body as sent, and again of its compact JSON. */
const batchLimit = 8_388_608
/** Largest `record`, bytes of compact JSON. */
export const recordLimit = 270_336
/** The id of a rejection when the record's own id is unreadable. */
export const nilUuid = "00000000-0000-0000-0000-000000000000"

export interface Entry {
  readonly key: string
  readonly metadata: Json
  readonly record: Json
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

/** Hyphenated, simple, braced and URN spellings (assumed, as the usual parser takes them), in lower hyphenated form. */
const uuidOf = (json: Json | undefined): string | undefined => {
  const text = textOf(json)?.toLowerCase()
  const found = text?.match(
    /^(?:[0-9a-f]{32}|(?:urn:uuid:)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\{[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\})$/
  )
  const digits = found?.[0].replace(/^urn:uuid:|[{}-]/g, "")
  return digits?.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")
}

const readEntry = (json: Json): Entry | undefined => {
  if (json.kind !== "object") return undefined
  const key = textOf(json.fields.get("key"))
  const metadata = json.fields.get("metadata")
  const record = json.fields.get("record")
  if (key === undefined || metadata === undefined || record === undefined) return undefined
  return { key, metadata, record }
}

const isJson = (request: Seen): boolean => {
  const declared = request.headers.get("content-type")?.[0] ?? ""
  return /^application\/(?:json|[^/;\s]+\+json)$/i.test((declared.split(";")[0] ?? "").trim())
}

const parse = (request: Seen): Json | undefined => {
  try {
    return parseJson(request.body, { duplicateKeys: "last" })
  } catch (problem) {
    if (problem instanceof JsonProblem) return undefined
    throw problem
  }
}

export const bytesOf = (json: Json): number => Buffer.byteLength(canonical(json))

/** The batch of a request, or the refusal of the whole. */
export const readBatch = (request: Seen): Batch | Reply => {
  const json = isJson(request) && request.body.length <= batchLimit ? parse(request) : undefined
  if (json === undefined) return refusal(400, "bad_json", "the body is not JSON of at most 8 MiB")
  const batchId = json.kind === "object" ? uuidOf(json.fields.get("batch_id")) : undefined
  const records = json.kind === "object" ? json.fields.get("records") : undefined
  if (batchId === undefined || records?.kind !== "array")
    return refusal(400, "invalid_batch", "a batch needs batch_id, a UUID, and records, an array")
  const entries: Array<Entry> = []
  for (const item of records.items) {
    const entry = readEntry(item)
    if (entry === undefined)
      return refusal(400, "invalid_batch", "every record needs key, metadata and record")
    entries.push(entry)
  }
  if (bytesOf(json) > batchLimit)
    return refusal(400, "batch_too_large", "the batch is over 8 MiB once written compactly")
  return { batchId, entries }
}

export interface RecordHeader {
  readonly recordId: string
  readonly eventMilliseconds: number
}

/** The required fields of an entry's metadata; `undefined` when they are unusable. */
export const readRecordHeader = (metadata: Json): RecordHeader | undefined => {
  if (metadata.kind !== "object") return undefined
  const recordId = uuidOf(metadata.fields.get("record_id"))
  const event = metadata.fields.get("event_ts_ms")
  if (recordId === undefined || event?.kind !== "number" || !isInteger64(event)) return undefined
  return { recordId, eventMilliseconds: Number(event.text) }
}
