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

describe("names and keys", () => {
  it("creates a key of the contract's form and records it", () => {
    expect(key).toMatch(/^table-musicbackend-[0-9a-f]{32}$/)
    expect(tables.minted).toEqual([key])
  })

  it("accepts a given key for that name only", async () => {
    const fixed = `table-other-${"a".repeat(32)}`
    expect(tables.createTable("other", fixed)).toBe(fixed)
    expect(tables.minted).toContain(fixed)
    expect(await ingest(entry({ key: fixed }))).toEqual(accepted)
    expect(() => tables.createTable("third", fixed)).toThrow()
  })

  it.each(["", "a-b", "a_b", "Table", "x".repeat(51)])("refuses the table name %j", (name) => {
    expect(() => tables.createTable(name)).toThrow()
  })
})

describe("acknowledgement", () => {
  it("returns the batch id and stores the records with rising cursors", async () => {
    const batch = batchOf(entry(), entry({ record: { a: 1 } }))
    expect(await post(JSON.stringify(batch))).toEqual({
      status: 200,
      body: { batch_id: batch.batch_id, status: "ok" }
    })
    expect(tables.rows("musicbackend")).toEqual([
      expect.objectContaining({ cursor: 1, registered_ts_ms: clock, event_ts_ms: clock }),
      expect.objectContaining({ cursor: 2, record: { a: 1 } })
    ])
  })

  it("acknowledges an empty batch", async () => {
    expect(await ingest()).toEqual(accepted)
  })

  it("keeps extra metadata as sent, and ignores extra fields of the batch and the entry", async () => {
    const metadata = { record_id: randomUUID(), event_ts_ms: 5, table_id: "whatever", system: { cores: 2 } }
    const body = { ...batchOf({ ...entry({ metadata }), extra: true }), more: 1 }
    expect(await post(JSON.stringify(body))).toEqual(accepted)
    expect(tables.rows("musicbackend")[0]?.metadata).toEqual(metadata)
  })

  it("allows several tables in one batch: the key selects the table", async () => {
    const other = tables.createTable("other")
    expect(await ingest(entry(), entry({ key: other }))).toEqual(accepted)
    expect([tables.rows("musicbackend").length, tables.rows("other").length]).toEqual([1, 1])
  })

  it("accepts the records that it does not list, also when the status is rejected", async () => {
    const wrong = entry({ key: `table-musicbackend-${"0".repeat(32)}` })
    const reply = await ingest(entry(), wrong, entry())
    expect(reply).toEqual(codes("unauthorized"))
    expect(reply.body).toMatchObject({ rejected: [{ record_id: wrong.metadata.record_id }] })
    expect(tables.rows("musicbackend").length).toBe(2)
  })

  it("accepts other UUID spellings and returns them in the hyphenated lower-case form", async () => {
    const id = randomUUID()
    const spellings = [id.toUpperCase(), id.replaceAll("-", ""), `urn:uuid:${id}`, `{${id}}`]
    const reply = await ingest(withId(id), ...spellings.map(withId))
    expect(reply).toEqual(codes("duplicate", "duplicate", "duplicate", "duplicate"))
  })
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

  it("measures compact JSON, not the white space of the request", async () => {
    const batch = JSON.stringify(batchOf(entry({ record: { a: 1 } })))
    expect(await post(batch.replace('{"a":1}', `{"a":${" ".repeat(300_000)}1}`))).toEqual(accepted)
  })

  it("checks metadata, then the key, then the size, then that it is an object", async () => {
    const key = "table-nowhere-x"
    const huge = "x".repeat(270_336)
    expect(await ingest(entry({ metadata: {}, key, record: huge }))).toEqual(codes("invalid"))
    expect(await ingest(entry({ key, record: huge }))).toEqual(codes("unauthorized"))
    expect(await ingest(entry({ record: huge }))).toEqual(codes("size_exceeded"))
    expect(await ingest(entry({ record: "small" }))).toEqual(codes("invalid"))
  })

  it("lists duplicates after the other rejections", async () => {
    const first = entry()
    expect(await ingest(first, first, entry({ record: 1 }), entry({ key: "nothing" }))).toEqual(
      codes("invalid", "unauthorized", "duplicate")
    )
  })
})

describe("dedupe", () => {
  it("stores the first of two equal ids in one batch and lists the second", async () => {
    const id = randomUUID()
    const reply = await ingest({ ...withId(id), record: { n: 1 } }, { ...withId(id), record: { n: 2 } })
    expect(reply).toEqual(codes("duplicate"))
    expect(tables.rows("musicbackend").map((row) => row.record)).toEqual([{ n: 1 }])
    expect(tables.received()).toEqual({ batches: 1, records: 2, stored: 1, duplicates: 1, rejected: 0 })
  })

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

  it("does not remember a rejected record", async () => {
    const id = randomUUID()
    expect(await ingest({ ...withId(id), record: 1 })).toEqual(codes("invalid"))
    expect(await ingest(withId(id))).toEqual(accepted)
  })

  it("does not use the batch id for it", async () => {
    const batch = batchOf(entry())
    expect(await post(JSON.stringify(batch))).toEqual(accepted)
    expect(await post(JSON.stringify({ ...batch, records: [entry()] }))).toEqual(accepted)
    expect(tables.rows("musicbackend").length).toBe(2)
  })
})

describe("refusals of a whole batch", () => {
  it.each([
    ["another content type", JSON.stringify({ batch_id: nil, records: [] }), "text/plain"],
    ["text that is no JSON", "{", "application/json"],
    ["an empty body", "", "application/json"],
    ["a lone surrogate", '{"batch_id":"\\ud800"}', "application/json"],
    ["nesting beyond the parser", "[".repeat(200), "application/json"]
  ])("answers bad_json to %s", async (_, body, type) => {
    expect(await post(body, { "content-type": type })).toEqual(refused(400, "bad_json"))
  })

  it("answers bad_json to a body over 8 MiB, and reads one of 8 MiB exactly", async () => {
    const text = JSON.stringify(batchOf())
    const padded = (bytes: number) => text + " ".repeat(bytes - Buffer.byteLength(text))
    expect(await post(padded(8_388_609))).toEqual(refused(400, "bad_json"))
    expect(await post(padded(8_388_608))).toEqual(accepted)
  })

  it("answers batch_too_large when the compact text is over 8 MiB", async () => {
    const batch = JSON.stringify({ ...batchOf(), more: [] })
    const grown = batch.replace("[]}", `[${"1e15,".repeat(500_000)}1]}`)
    expect(Buffer.byteLength(grown)).toBeLessThan(8_388_608)
    expect(await post(grown)).toEqual(refused(400, "batch_too_large"))
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

  it("answers 500 before or after staging; after staging a prompt retry is a duplicate", async () => {
    const unavailable = refused(500, "ingest_unavailable")
    tables.failIngest("before")
    expect(await ingest(entry())).toEqual(unavailable)
    expect(tables.rows("musicbackend")).toEqual([])
    const record = entry()
    tables.failIngest("after")
    expect(await ingest(record)).toEqual(unavailable)
    expect(await ingest(record)).toEqual(codes("duplicate"))
    expect(tables.rows("musicbackend").length).toBe(1)
  })

  it("closes without an acknowledgement after staging", async () => {
    const record = entry()
    tables.fail({ fault: { kind: "drop-after" } })
    await expect(ingest(record)).rejects.toThrow()
    expect(await ingest(record)).toEqual(codes("duplicate"))
  })
})

describe("keys over time", () => {
  it("refuses a rotated key at once and accepts the new one", async () => {
    const next = tables.rotateKey("musicbackend")
    expect(tables.minted).toEqual([key, next])
    expect(await ingest(entry())).toEqual(codes("unauthorized"))
    expect(await ingest(entry({ key: next }))).toEqual(accepted)
  })

  it("stops writes to a retired table, keeps its rows, and accepts the same key once restored", async () => {
    await ingest(entry())
    tables.retire("musicbackend")
    expect(await ingest(entry())).toEqual(codes("unauthorized"))
    expect(tables.rows("musicbackend").length).toBe(1)
    tables.restore("musicbackend")
    expect(await ingest(entry())).toEqual(accepted)
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

describe("fault controls over HTTP", () => {
  const control = (method: string, body?: unknown) =>
    fetch(`${tables.url}/_sandbox/faults`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })

  it("injects a fault into the named route the given number of times", async () => {
    const reply = { status: 503, headers: { "Retry-After": "7" }, body: { error: { code: "edge" } } }
    const rule = { method: "POST", path: "/api/ingest", times: 2, fault: { kind: "reply", reply } }
    expect((await control("POST", rule)).status).toBe(204)
    expect((await ingest(entry())).status).toBe(503)
    expect((await ingest(entry())).status).toBe(503)
    expect(await ingest(entry())).toEqual(accepted)
  })

  it("injects a fault until it is cleared", async () => {
    await control("POST", { times: "always", fault: { kind: "drop" } })
    await expect(ingest(entry())).rejects.toThrow()
    await expect(ingest(entry())).rejects.toThrow()
    expect((await control("DELETE")).status).toBe(204)
    expect(await ingest(entry())).toEqual(accepted)
  })

  it.each([
    [{}],
    [[]],
    [{ fault: { kind: "unknown" } }],
    [{ fault: { kind: "delay" } }],
    [{ fault: { kind: "reply", reply: { status: 99 } } }],
    [{ fault: { kind: "reply", reply: { status: 200, headers: { a: 1 } } } }],
    [{ times: 0, fault: { kind: "drop" } }],
    [{ path: 1, fault: { kind: "drop" } }],
    [{ method: 1, fault: { kind: "drop" } }]
  ])("refuses the rule %j and changes nothing", async (rule) => {
    const reply = await control("POST", rule)
    expect([reply.status, await reply.json()]).toEqual([400, refused(400, "invalid_control").body])
    expect(await ingest(entry())).toEqual(accepted)
  })
})
