/** What the simulated table service refuses, and for how long it recognises a record. */
import { randomUUID } from "node:crypto"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { startTables, type TablesSimulator } from "../../sandbox/upstreams/Tables.ts"
import { outcome, send } from "./IamBench.ts"

let clock = 0
let tables: TablesSimulator
let key: string
beforeEach(async () => {
  clock = 1_758_700_800_000
  tables = await startTables({ now: () => clock })
  key = tables.createTable("musicbackend")
})
afterEach(() => tables.close())

const nil = "00000000-0000-0000-0000-000000000000"
const record_id = "01990c6e-5f0a-4c1e-8d3b-2a4f6b8c0d1e"
const entry = (change: object = {}) => ({
  key,
  metadata: { record_id, table_id: "musicbackend", event_ts_ms: clock },
  record: { type: "http.completed", data: { status: 200 } },
  ...change
})
const post = (body: string, headers: Record<string, string> = {}) => {
  const usual = { "content-type": "application/json", "user-agent": "music-backend/0.1.0" }
  return send(tables.url, "POST", "/api/ingest", { ...usual, ...headers }, body)
}
const batch = (...records: ReadonlyArray<unknown>) => JSON.stringify({ batch_id: randomUUID(), records })
/** The codes of the rejected records, and the ids that it names. */
const ingest = async (...records: ReadonlyArray<unknown>) => {
  const { json } = await post(batch(...records))
  const { rejected = [] } = json as { readonly rejected?: ReadonlyArray<{ code: string; record_id: string }> }
  return rejected.map((one) => `${one.code} ${one.record_id}`)
}

describe("A record", () => {
  it.each<readonly [string, object]>([
    [nil, { metadata: { event_ts_ms: 1 } }],
    [nil, { metadata: { record_id: "x", event_ts_ms: 1 } }],
    [nil, { metadata: { record_id } }],
    [nil, { metadata: { record_id, event_ts_ms: 1.5 } }],
    [nil, { metadata: { record_id, event_ts_ms: "1" } }],
    [nil, { metadata: 7 }],
    [nil, { metadata: null }],
    ...[[], "text", null, 5].map((record) => [record_id, { record }] as const)
  ])("is invalid, and named %s, with %j", async (name, change) => {
    expect(await ingest(entry(change))).toEqual([`invalid ${name}`])
  })

  it("has 270,336 bytes of UTF-8 at most; metadata, key, size and form are checked in this order", async () => {
    const shell = Buffer.byteLength('{"text":""}')
    const text = "é".repeat((270_336 - shell - 1) / 2)
    expect(await ingest(entry({ record: { text: `${text}x` } }))).toEqual([])
    expect(await ingest(entry({ record: { text: `${text}xx` } }))).toEqual([`size_exceeded ${record_id}`])
    const record = "x".repeat(270_336)
    const unknown = { key: "table-nowhere-x", record }
    expect(await ingest(entry({ ...unknown, metadata: {} }))).toEqual([`invalid ${nil}`])
    expect(await ingest(entry(unknown))).toEqual([`unauthorized ${record_id}`])
    expect(await ingest(entry({ record }))).toEqual([`size_exceeded ${record_id}`])
  })

  it("is recognised across tables for 300 s after its first arrival, and then stored again", async () => {
    const other = tables.createTable("other")
    const duplicate = [`duplicate ${record_id}`]
    expect(await ingest(entry())).toEqual([])
    clock += 200_000
    expect(await ingest(entry({ key: other }))).toEqual(duplicate)
    clock += 99_999
    expect(await ingest(entry())).toEqual(duplicate)
    clock += 1
    expect(await ingest(entry())).toEqual([])
    expect(tables.rows("musicbackend").map(({ cursor }) => cursor)).toEqual([1, 2])
  })
})

describe("A batch", () => {
  const bodies = [
    [],
    { records: [] },
    { batch_id: "1", records: [] },
    { batch_id: nil },
    { batch_id: nil, records: {} },
    ...[1, { metadata: {}, record: {} }, { key: 1, metadata: {}, record: {} }, { key: "k", record: {} }].map(
      (one) => ({
        batch_id: nil,
        records: [one]
      })
    )
  ]
  it.each<readonly [string, string, Record<string, string>?]>([
    ["400 bad_json", batch(), { "content-type": "text/plain" }],
    ["400 bad_json", "{"],
    ["400 bad_json", ""],
    ...bodies.map((body) => ["400 invalid_batch", JSON.stringify(body)] as const),
    ["403", batch(), { "user-agent": "" }]
  ])("is refused with %s: %s %j", async (expected, body, headers) => {
    expect(outcome(await post(body, headers))).toBe(expected)
  })

  it("has 8 MiB at most, and stores nothing when one entry is malformed", async () => {
    const padded = (bytes: number) => batch() + " ".repeat(bytes - Buffer.byteLength(batch()))
    expect(outcome(await post(padded(8_388_609)))).toBe("400 bad_json")
    expect(outcome(await post(padded(8_388_608)))).toBe("200")
    expect(outcome(await post(batch(entry(), { key })))).toBe("400 invalid_batch")
    expect(tables.rows("musicbackend")).toEqual([])
    expect(outcome(await send(tables.url, "GET", "/api/other", { "user-agent": "x" }))).toBe("404 not_found")
    expect(outcome(await send(tables.url, "GET", "/api/ingest", { "user-agent": "x" }))).toBe("405")
  })
})
