import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import { Context, Effect, Layer, Logger, LogLevel, Option, Redacted } from "effect"
import { type Fault, faults, headerOf, type Reply } from "../../../sandbox/upstreams/Simulator.ts"
import { startTables, type TablesSimulator } from "../../../sandbox/upstreams/Tables.ts"
import { parts } from "../../../src/Backend.ts"
import { version } from "../../../src/schema/Release.ts"
import type { TableName } from "../../../src/schema/Telemetry.ts"
import { Settings, type SettingsValues } from "../../../src/services/Settings.ts"
import { type TableRecord, Tables } from "../../../src/services/Tables.ts"
import { testSettings } from "../../world/Settings.ts"
import { simulated } from "../upstream/Simulated.ts"

const ids = Array.from({ length: 4 }, (_, index) => `01990c6e-5f0a-7c1e-8d3b-00000000000${index}`)
const record = (index: number, table: TableName = "musicfrontendevents"): TableRecord => ({
  table,
  recordId: ids[index] ?? "",
  eventAt: 1_758_700_800_123 + index,
  json: JSON.stringify({ type: "http.completed", data: { index } })
})

const tablesOf = (tables: SettingsValues["tables"]) =>
  Layer.build(
    parts.tables.pipe(
      Layer.provide(parts.transport),
      Layer.provide(Layer.succeed(Settings, testSettings({ tables })))
    )
  ).pipe(Effect.map((context) => Context.get(context, Tables)))

/** The simulator with two tables, and the port over HTTP. */
const start = Effect.gen(function* () {
  const service = yield* simulated((now) => startTables({ now }))
  const names: ReadonlyArray<TableName> = ["musicclidaemon", "musicfrontendevents"]
  const keys = new Map(names.map((name) => [name, Redacted.make(service.createTable(name))]))
  return { service, tables: yield* tablesOf(Option.some({ url: service.url, keys })) }
})

const bodyOf = (service: TablesSimulator, index = 0) => {
  const body: unknown = JSON.parse(service.seen[index]?.body.toString() ?? "")
  return body as {
    batch_id: string
    records: ReadonlyArray<{ key: string; metadata: Record<string, unknown>; record: unknown }>
  }
}

describe("A batch for the table service", () => {
  it.scoped("contains each record under the key of its own table, and is acknowledged", function* () {
    const { service, tables } = yield* start
    expect([...tables.open].sort()).toEqual(["musicclidaemon", "musicfrontendevents"])
    const result = yield* tables.write([record(0), record(1, "musicclidaemon")])
    expect(result).toEqual({ duplicates: [], refused: [] })
    const request = service.seen[0]
    expect([request?.method, request?.path]).toEqual(["POST", "/api/ingest"])
    if (request !== undefined) {
      expect(headerOf(request, "user-agent")).toBe(`music-backend/${version}`)
      expect(headerOf(request, "authorization")).toBeUndefined()
    }
    const { records } = bodyOf(service)
    expect(records.map(({ key }) => key.split("-")[1])).toEqual(["musicfrontendevents", "musicclidaemon"])
    expect(records[1]?.metadata).toEqual({
      record_id: ids[1],
      table_id: "musicclidaemon",
      event_ts_ms: 1_758_700_800_124
    })
    expect(service.rows("musicfrontendevents").map((row) => row.record)).toEqual([
      { type: "http.completed", data: { index: 0 } }
    ])
    expect(service.rows("musicclidaemon").length).toBe(1)
    // Each transmission has an id of its own.
    yield* tables.write([record(0)])
    expect(bodyOf(service, 0).batch_id).toMatch(/^[0-9a-f-]{36}$/)
    expect(bodyOf(service, 1).batch_id).not.toBe(bodyOf(service, 0).batch_id)
  })

  it.scoped("is refused as a whole because of one record that is not named", function* () {
    const { tables } = yield* start
    const failure = yield* Effect.flip(tables.write([{ ...record(0), recordId: "not-a-uuid" }, record(1)]))
    expect(failure).toMatchObject({ _tag: "Refused", code: "invalid" })
  })
})

const acknowledging = (changed: object) => ({
  kind: "alter" as const,
  alter: (own: Reply): Reply => ({ ...own, body: { ...Object(own.body), ...changed } })
})

it.scoped("An acknowledgement that contradicts itself settles nothing", function* () {
  const { service, tables } = yield* start
  for (const changed of [
    { status: "rejected" },
    { status: "rejected", rejected: [] },
    { status: "ok", code: "batch_too_large" },
    { status: "ok", rejected: [{ record_id: ids[0], code: "invalid" }] }
  ]) {
    service.fail({ fault: acknowledging(changed) })
    const failure = yield* Effect.flip(tables.write([record(0)]))
    expect([changed, failure._tag]).toEqual([changed, "Unknown"])
  }
})

it.scoped("A code in another form is text of the service, and is not passed on", function* () {
  const { service, tables } = yield* start
  for (const code of ["invalid\u0000", "\u001b[2J", "x".repeat(65), "the key table-a-b is retired", ""]) {
    const rejected = [{ record_id: ids[0], code }]
    service.fail({ fault: acknowledging({ status: "rejected", rejected }) })
    const refused = [{ recordId: ids[0], code: "unknown" }]
    expect(yield* tables.write([record(0), record(1)])).toEqual({ duplicates: [], refused })
    service.fail({ fault: acknowledging({ status: "rejected", code }) })
    expect(yield* Effect.flip(tables.write([record(0)]))).toMatchObject({ _tag: "Refused", code: "unknown" })
  }
})

it.scoped("Without an acknowledgement the records are kept, and no key is shown", function* () {
  const error = (code: string) => ({ error: { code, message: "x" } })
  const { service, tables } = yield* start
  const lines: Array<string> = []
  const logger = Logger.make((entry) => lines.push(JSON.stringify(entry)))
  const answers: ReadonlyArray<readonly [fault: Fault, pause?: number]> = [
    [faults.status(500, error("ingest_unavailable"))],
    [faults.status(503, error("x"), { "retry-after": "9" }), 9],
    [faults.status(429, "slow down", { "retry-after": "20" }), 20],
    [faults.status(400, error("something_else"))],
    [faults.html(403)],
    [faults.notJson()],
    [faults.status(202, { batch_id: ids[0], status: "ok" })],
    [faults.status(200, { batch_id: ids[0], status: "ok" })],
    [{ kind: "drop-after" }]
  ]
  for (const [fault, pause] of answers) {
    service.fail({ fault })
    const failure = yield* Effect.flip(tables.write([record(0)])).pipe(
      Effect.provide(Logger.replace(Logger.defaultLogger, logger)),
      Logger.withMinimumLogLevel(LogLevel.All)
    )
    expect([fault, failure._tag, failure.retryAfterSeconds]).toEqual([fault, "Unknown", pause])
    lines.push(JSON.stringify(failure) + String(failure))
  }
  expect(service.minted).toHaveLength(2)
  for (const key of service.minted) expect(lines.join("")).not.toContain(key)
})
