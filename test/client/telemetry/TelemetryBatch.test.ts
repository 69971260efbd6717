import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import {
  batchLimits,
  nextBatch,
  toPayload,
  type QueuedEvent,
  prepareEvent
} from "../../../client/telemetry/TelemetryBatch.ts"
import type { ClientTable } from "../../../client/Types.ts"

const own = { id: "01990c6e-5f0a-4c1e-8d3b-2a4f6b8c0d1e", occurredAt: "2026-11-21T08:00:00.000Z" }
const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value)).length

const ready = (table: ClientTable, event: unknown): QueuedEvent => {
  const made = prepareEvent(table, event, own)
  if ("_tag" in made) throw made
  return made
}

const table = FastCheck.constantFrom<ClientTable[]>("musicclidaemon", "musicfrontendevents")
const text = FastCheck.oneof(
  FastCheck.string({ unit: "grapheme", maxLength: 40 }),
  FastCheck.integer({ min: 0, max: 20_000 }).map((length) => "é".repeat(length))
)
const event = FastCheck.record({ table, data: text })

describe("Batches of telemetry", () => {
  it("hold one table, 40 events and 64 KiB, and keep every event once and in order", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.array(event, { maxLength: 120 }), (events) => {
        const all = events.map(({ data, table: name }) => ready(name, { type: "x", data }))
        let rest: ReadonlyArray<QueuedEvent> = all
        const sent: Array<QueuedEvent> = []
        while (rest.length > 0) {
          const batch = nextBatch(rest)
          expect(batch.length).toBeGreaterThan(0)
          expect(batch.length).toBeLessThanOrEqual(batchLimits.events)
          expect(new Set(batch.map((one) => one.table)).size).toBe(1)
          expect(bytes(toPayload(batch))).toBeLessThanOrEqual(batchLimits.bytes)
          sent.push(...batch)
          rest = rest.filter((one) => !batch.includes(one))
        }
        for (const name of ["musicclidaemon", "musicfrontendevents"]) {
          const of = (list: ReadonlyArray<QueuedEvent>) => list.filter((one) => one.table === name)
          expect(of(sent)).toEqual(of(all))
        }
      }),
      { numRuns: 60 }
    )
  })

  it("fill up to the last byte, and an event that is one byte too large is refused at once", () => {
    const room = (length: number) => ready("musicclidaemon", { data: "x".repeat(length) })
    const least = bytes(toPayload([room(0)]))
    const fits = room(batchLimits.bytes - least)
    expect(bytes(toPayload([fits]))).toBe(batchLimits.bytes)
    expect(nextBatch([fits, room(0)])).toEqual([fits])
    const over = prepareEvent("musicclidaemon", { data: "x".repeat(batchLimits.bytes - least + 1) }, own)
    expect(over).toMatchObject({ code: "payload_too_large" })
  })
})

describe("An event", () => {
  it("gets an id and the time, unless it has them", () => {
    expect(JSON.parse(ready("musicclidaemon", { type: "x" }).text)).toEqual({
      type: "x",
      id: own.id,
      metadata: { occurred_at: own.occurredAt }
    })
    const given = {
      id: "01990c6e-5f0a-4c1e-8d3b-000000000000",
      metadata: { occurred_at: 5, more: true }
    }
    expect(JSON.parse(ready("musicclidaemon", given).text)).toEqual(given)
  })

  it("is copied when it is recorded", () => {
    const changing = { data: 1 }
    const kept = ready("musicclidaemon", changing)
    changing.data = 2
    expect(JSON.parse(kept.text)).toMatchObject({ data: 1 })
  })

  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  const deep = (levels: number): unknown => (levels === 0 ? 1 : { in: deep(levels - 1) })
  it.each([
    ["a list", []],
    ["a text", "event"],
    ["nothing", null],
    ["a cycle", cycle],
    ["a big integer", { data: 1n }],
    ["half a surrogate pair", { data: "\ud800" }],
    ["such a name", { "\udc00": 1 }],
    ["a forbidden name", { data: JSON.parse('{"__proto__":1}') }],
    ["too deep a nest", { data: deep(70) }],
    ["an id that is no UUID", { id: "7" }]
  ])("that is %s is refused at once", (_, value) => {
    expect(prepareEvent("musicclidaemon", value, own)).toMatchObject({ code: "invalid_input" })
  })
})
