/** What the simulated table service refuses. */
import { randomUUID } from "node:crypto"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { startTables, type TablesSimulator } from "../../sandbox/upstreams/Tables.ts"

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

const entry = (overrides: Readonly<Record<string, unknown>> = {}) => ({
  key,
  metadata: { record_id: randomUUID(), table_id: "musicbackend", event_ts_ms: clock },
  record: { type: "http.completed", data: { status: 200 } },
  ...overrides
})

const withId = (record_id: string) => entry({ metadata: { record_id, event_ts_ms: clock } })

const post = async (body: string | Buffer, headers: Record<string, string> = {}) => {
  const response = await fetch(`${tables.url}/api/ingest`, {
    method: "POST",
    headers: { "content-type": "application/json", "user-agent": "music-backend/0.1.0", ...headers },
    body
  })
  const text = await response.text()
  const json: unknown = text.startsWith("{") ? JSON.parse(text) : text
  return { status: response.status, body: json }
}

const batchOf = (...records: ReadonlyArray<unknown>) => ({ batch_id: randomUUID(), records })
const ingest = (...records: ReadonlyArray<unknown>) => post(JSON.stringify(batchOf(...records)))
const codes = (...expected: ReadonlyArray<string>) => ({
  status: 200,
  body: expect.objectContaining({
    status: "rejected",
    rejected: expected.map((code) => expect.objectContaining({ code, reason: expect.any(String) }))
  })
})
const accepted = { status: 200, body: expect.objectContaining({ status: "ok" }) }
const refused = (status: number, code: string) => ({
  status,
  body: { error: { code, message: expect.any(String) } }
})

describe("rejections of a record", () => {
  it.each([
    ["metadata without a record id", { metadata: { event_ts_ms: 1 } }],
    ["a record id that is no UUID", { metadata: { record_id: "x", event_ts_ms: 1 } }],
    ["metadata without a time", { metadata: { record_id: randomUUID() } }],
    ["a time with a fraction", { metadata: { record_id: randomUUID(), event_ts_ms: 1.5 } }],
    ["a time that is a string", { metadata: { record_id: randomUUID(), event_ts_ms: "1" } }],
    ["metadata that is no object", { metadata: 7 }],
    ["metadata that is null", { metadata: null }]
  ])("names the nil UUID for %s", async (_, overrides) => {
    const reply = await ingest(entry(overrides))
    expect(reply).toEqual(codes("invalid"))
    expect(reply.body).toMatchObject({ rejected: [{ record_id: nil }] })
  })

  it.each([[[]], ["text"], [null], [5]])("names the record id when the record is %j", async (record) => {
    const bad = entry({ record })
    const reply = await ingest(bad)
    expect(reply).toEqual(codes("invalid"))
    expect(reply.body).toMatchObject({ rejected: [{ record_id: bad.metadata.record_id }] })
  })

  it("measures a record in UTF-8 bytes: 270,336 pass and one more is size_exceeded", async () => {
    const shell = Buffer.byteLength('{"text":""}')
    const text = `${"é".repeat((270_336 - shell - 1) / 2)}`
    expect(Buffer.byteLength(JSON.stringify({ text: `${text}x` }))).toBe(270_336)
    expect(await ingest(entry({ record: { text: `${text}x` } }))).toEqual(accepted)
    expect(await ingest(entry({ record: { text: `${text}xx` } }))).toEqual(codes("size_exceeded"))
  })

  it("checks metadata, then the key, then the size, then that it is an object", async () => {
    const key = "table-nowhere-x"
    const huge = "x".repeat(270_336)
    expect(await ingest(entry({ metadata: {}, key, record: huge }))).toEqual(codes("invalid"))
    expect(await ingest(entry({ key, record: huge }))).toEqual(codes("unauthorized"))
    expect(await ingest(entry({ record: huge }))).toEqual(codes("size_exceeded"))
    expect(await ingest(entry({ record: "small" }))).toEqual(codes("invalid"))
  })
})

describe("dedupe", () => {
  it("recognises an id across tables for 300 s after its first arrival, and then stores it again", async () => {
    const id = randomUUID()
    const other = tables.createTable("other")
    expect(await ingest(withId(id))).toEqual(accepted)
    clock += 200_000
    expect(await ingest({ ...withId(id), key: other })).toEqual(codes("duplicate"))
    clock += 99_999
    expect(await ingest(withId(id))).toEqual(codes("duplicate"))
    clock += 1
    expect(await ingest(withId(id))).toEqual(accepted)
    expect(tables.rows("musicbackend").map((row) => row.cursor)).toEqual([1, 2])
  })
})

describe("refusals of a whole batch", () => {
  it.each([
    ["another content type", JSON.stringify({ batch_id: nil, records: [] }), "text/plain"],
    ["text that is no JSON", "{", "application/json"],
    ["an empty body", "", "application/json"]
  ])("answers bad_json to %s", async (_, body, type) => {
    expect(await post(body, { "content-type": type })).toEqual(refused(400, "bad_json"))
  })

  it("answers bad_json to a body over 8 MiB, and reads one of 8 MiB exactly", async () => {
    const text = JSON.stringify(batchOf())
    const padded = (bytes: number) => text + " ".repeat(bytes - Buffer.byteLength(text))
    expect(await post(padded(8_388_609))).toEqual(refused(400, "bad_json"))
    expect(await post(padded(8_388_608))).toEqual(accepted)
  })

  it.each([
    ["an array", []],
    ["no batch id", { records: [] }],
    ["a batch id that is no UUID", { batch_id: "1", records: [] }],
    ["no records", { batch_id: nil }],
    ["records that are no array", { batch_id: nil, records: {} }],
    ["an entry that is no object", { batch_id: nil, records: [1] }],
    ["an entry without key", { batch_id: nil, records: [{ metadata: {}, record: {} }] }],
    ["an entry whose key is no string", { batch_id: nil, records: [{ key: 1, metadata: {}, record: {} }] }],
    ["an entry without metadata", { batch_id: nil, records: [{ key: "k", record: {} }] }],
    ["an entry without record", { batch_id: nil, records: [{ key: "k", metadata: {} }] }]
  ])("answers invalid_batch to %s", async (_, body) => {
    expect(await post(JSON.stringify(body))).toEqual(refused(400, "invalid_batch"))
  })

  it("stores nothing of a batch with one malformed entry", async () => {
    expect(await ingest(entry(), { key })).toEqual(refused(400, "invalid_batch"))
    expect(tables.rows("musicbackend")).toEqual([])
  })
})

describe("routes and controls", () => {
  const get = (path: string, init: RequestInit = {}) =>
    fetch(`${tables.url}${path}`, { ...init, headers: { "user-agent": "music-backend/0.1.0" } })

  it("answers 404 to an unknown path and an empty 405 to a wrong method", async () => {
    const unknown = await get("/api/other")
    expect([unknown.status, await unknown.json()]).toEqual([404, refused(404, "not_found").body])
    const wrong = await get("/api/ingest")
    expect([wrong.status, await wrong.text()]).toEqual([405, ""])
  })

  it("refuses callers without a user agent, like the edge", async () => {
    const reply = await post(JSON.stringify(batchOf()), { "user-agent": "" })
    expect(reply).toEqual({ status: 403, body: expect.stringContaining("<html>") })
  })

  it("lists rows over HTTP without any key", async () => {
    await ingest(entry())
    const text = await (await get("/_sandbox/tables/musicbackend/rows")).text()
    expect(JSON.parse(text)).toEqual({ items: tables.rows("musicbackend") })
    expect(text).not.toContain(key)
    expect((await get("/_sandbox/tables/none/rows")).status).toBe(404)
    expect(tables.seen.length).toBe(1)
  })
})
