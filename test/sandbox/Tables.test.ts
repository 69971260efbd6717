/** What the simulated table service refuses, and for how long it recognises a record. */
import { randomUUID } from "node:crypto"
import { beforeEach, expect, it } from "vitest"
import { makeTables } from "../../sandbox/upstreams/Tables.ts"
import { jsonType, outcome, send } from "./Simulators.ts"

let clock: number
let tables: ReturnType<typeof makeTables>
let key: string
beforeEach(() => {
  clock = 1_758_700_800_000
  tables = makeTables({ now: () => clock })
  key = tables.createTable("musicbackend")
})

const nil = "00000000-0000-0000-0000-000000000000"
const record_id = "01990c6e-5f0a-4c1e-8d3b-2a4f6b8c0d1e"
const entry = (change: object = {}) => ({
  key,
  metadata: { record_id, table_id: "musicbackend", event_ts_ms: clock },
  record: { type: "http.completed", data: { status: 200 } },
  ...change
})
const post = (body: string, headers: Record<string, string> = {}) =>
  send(tables.handle, "POST", "/api/ingest", { ...jsonType, "user-agent": "music/0.1.0", ...headers }, body)
const batch = (...records: ReadonlyArray<unknown>) => JSON.stringify({ batch_id: randomUUID(), records })
/** The codes of the rejected records, and the ids that it names. */
const ingest = async (...records: ReadonlyArray<unknown>) => {
  const { body } = await post(batch(...records))
  const { rejected = [] } = body as { readonly rejected?: ReadonlyArray<{ code: string; record_id: string }> }
  return rejected.map((one) => `${one.code} ${one.record_id}`)
}

it.each<[string, object]>([
  [nil, { metadata: { event_ts_ms: 1 } }],
  [nil, { metadata: { record_id: "x", event_ts_ms: 1 } }],
  [nil, { metadata: { record_id, event_ts_ms: 1.5 } }],
  [nil, { metadata: null }],
  [record_id, { record: [] }],
  [record_id, { record: "text" }]
])("A record is invalid, and named %s, with %j", async (name, change) => {
  expect(await ingest(entry(change))).toEqual([`invalid ${name}`])
})

it("A record has 270,336 bytes of UTF-8; metadata, key, size and form are checked in this order", async () => {
  const text = "é".repeat((270_336 - Buffer.byteLength('{"text":""}') - 1) / 2)
  expect(await ingest(entry({ record: { text: `${text}x` } }))).toEqual([])
  expect(await ingest(entry({ record: { text: `${text}xx` } }))).toEqual([`size_exceeded ${record_id}`])
  const record = "x".repeat(270_336)
  const unknown = { key: "table-nowhere-x", record }
  expect(await ingest(entry({ ...unknown, metadata: {} }))).toEqual([`invalid ${nil}`])
  expect(await ingest(entry(unknown))).toEqual([`unauthorized ${record_id}`])
  expect(await ingest(entry({ record }))).toEqual([`size_exceeded ${record_id}`])
})

it("A record is recognised across tables for 300 s after its first arrival, and then stored again", async () => {
  const other = tables.createTable("other")
  const duplicate = [`duplicate ${record_id}`]
  expect(await ingest(entry())).toEqual([])
  clock += 200_000
  expect(await ingest(entry({ key: other }))).toEqual(duplicate)
  clock += 99_999
  expect(await ingest(entry())).toEqual(duplicate)
  clock += 1
  expect(await ingest(entry())).toEqual([])
  expect(tables.rows("musicbackend")).toHaveLength(2)
})

it.each<[string, string, Record<string, string>?]>([
  ["400 bad_json", batch(), { "content-type": "text/plain" }],
  ["400 bad_json", "{"],
  ["400 invalid_batch", JSON.stringify({ batch_id: "1", records: [] })],
  ["400 invalid_batch", JSON.stringify({ batch_id: nil, records: [{ key: "k", record: {} }] })],
  ["403", batch(), { "user-agent": "" }]
])("A batch is refused with %s: %s %j", async (expected, body, headers) => {
  expect(outcome(await post(body, headers))).toBe(expected)
})

it("A batch has 8 MiB at most, and stores nothing when one entry is malformed", async () => {
  const padded = (bytes: number) => batch() + " ".repeat(bytes - Buffer.byteLength(batch()))
  expect(outcome(await post(padded(8_388_609)))).toBe("400 bad_json")
  expect(outcome(await post(padded(8_388_608)))).toBe("200")
  expect(outcome(await post(batch(entry(), { key })))).toBe("400 invalid_batch")
  expect(tables.rows("musicbackend")).toEqual([])
})
