import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { clientTables, type TelemetryRequest } from "../../src/schema/Telemetry.ts"
import type { Plane } from "../../src/services/Plane.ts"
import { Store } from "../../src/services/Store.ts"
import { eventTime, Telemetry } from "../../src/services/usecases/Telemetry.ts"
import { SimulatedIam } from "../world/SimulatedIam.ts"
import { StoreSwitches } from "../world/TestStore.ts"
import {
  inRequest,
  production,
  scenario,
  scenariosWith,
  start,
  type UseCaseOptions
} from "../world/UseCaseLayers.ts"

const id = "01990c6e-5f0a-7c1e-8d3b-2a4f6b8c0d1e"
const day = 86_400_000

interface Batch {
  readonly table?: string
  readonly events?: TelemetryRequest["events"]
  readonly plane?: Plane
  readonly recording?: boolean
}

const accept = ({
  events = [{ id }],
  plane = production,
  recording = true,
  table = "musicclidaemon"
}: Batch = {}) =>
  Effect.flatMap(Telemetry, (all) => all.accept(plane, { table, events })).pipe(inRequest({ recording }))

const lease = { count: 100, bytes: 1_000_000, now: start, leaseUntil: start, owner: "test" }
const spooled = Effect.flatMap(Store, (store) =>
  store.spool.lease({ tables: new Set(clientTables), ...lease })
)
const records = Effect.map(spooled, (entries) => entries.map(({ json }): unknown => JSON.parse(json)))
describe("a batch of telemetry", () => {
  scenario("is committed to the spool before it is acknowledged", function* () {
    const event = { id, type: "playback.track.started", data: { title: "Flut ünd Ebbe" }, metadata: {} }
    yield* accept({ events: [event] })
    // A retry, in which the id has another case, is stored once.
    yield* accept({ events: [{ ...event, id: id.toUpperCase() }] })
    const json = JSON.stringify(event)
    const bytes = Buffer.byteLength(json) + 250
    expect(yield* spooled).toEqual([
      { table: "musicclidaemon", recordId: id, eventAt: start, json, bytes, acceptedAt: start }
    ])
  })

  scenario("is written to the table that it names, with an id for each event without one", function* () {
    yield* accept({ table: "musicfrontendevents", events: [{ n: 1 }, { n: 1 }] })
    const entries = yield* spooled
    expect(entries.map(({ table }) => table)).toEqual(["musicfrontendevents", "musicfrontendevents"])
    expect(new Set(entries.map(({ recordId }) => recordId)).size).toBe(2)
    const time = start.toString(16).padStart(12, "0")
    for (const { recordId } of entries)
      expect(recordId.replaceAll("-", "")).toMatch(new RegExp(`^${time}7[0-9a-f]{19}$`))
    expect(yield* records).toEqual(entries.map(({ recordId }) => ({ n: 1, id: recordId })))
  })

  scenario("keeps an id that is no UUID unchanged, and identifies the event by a new one", function* () {
    const bare = id.replaceAll("-", "")
    const ids = ["1", "1", null, 1, bare, `${id.slice(0, -1)}g`, `${id}\n`]
    yield* accept({ events: ids.map((other) => ({ id: other })) })
    expect(yield* records).toEqual(ids.map((other) => ({ id: other })))
    expect(new Set((yield* spooled).map(({ recordId }) => recordId)).add(id).size).toBe(ids.length + 1)
  })

  scenario("is stored without credentials", function* () {
    yield* accept({ events: [{ id, data: { note: `it said oat_${"s3cret".repeat(8)}` } }] })
    expect(yield* records).toEqual([{ id, data: { note: "it said [redacted]" } }])
  })

  scenario("is refused when its digits make it larger than the table service takes", function* () {
    const digits = { list: Array.from({ length: 13_000 }, () => 1e20) }
    const filled = (bytes: number) => ({
      id,
      text: "x".repeat(bytes - JSON.stringify({ id, text: "" }).length)
    })
    const fields = [{ path: "events.1", problem: "must be at most 270336 bytes as it is stored" }]
    for (const large of [digits, filled(270_337)]) {
      const refused = yield* Effect.flip(accept({ events: [{ id }, large] }))
      expect(refused).toMatchObject({ code: "invalid_input", details: { fields } })
    }
    expect(yield* spooled).toEqual([])
    yield* accept({ events: [filled(270_336)] })
  })

  const event = { id, text: "x".repeat(100) }
  const bounded = scenariosWith({
    settings: { telemetry: { spoolBytes: JSON.stringify(event).length + 250 } }
  })
  bounded("that exceeds the spool's bound is 503; a retry takes no room", function* () {
    yield* accept({ events: [event] })
    const full = { code: "spool_full", retryAfterSeconds: 30 }
    expect(yield* Effect.flip(accept({ events: [{ n: 1 }] }))).toMatchObject(full)
    yield* accept({ events: [event] })
    expect(yield* spooled).toHaveLength(1)
  })

  const small = scenariosWith({ settings: { telemetry: { spoolBytes: 1_000_000 } } })
  small("takes no more room in the database than the bound, however small its events are", function* () {
    const data = Effect.flatMap(Store, ({ usage }) => Effect.map(usage.size, (size) => size.data))
    const before = yield* data
    const events = Array.from({ length: 40 }, () => ({}))
    const full = yield* Effect.flip(Effect.forever(accept({ events })))
    expect(full.code).toBe("spool_full")
    expect((yield* data) - before).toBeLessThanOrEqual(1_000_000)
  })

  const off: UseCaseOptions = { settings: { telemetry: { enabled: false } } }
  const unrecorded: ReadonlyArray<
    readonly [name: string, UseCaseOptions, recording: boolean, tested: boolean]
  > = [
    ["of a caller who opted out", {}, false, false],
    ["with MUSIC_TELEMETRY=off", off, true, false],
    ["of a testing plane", {}, true, true]
  ]
  for (const [name, options, recording, tested] of unrecorded)
    scenariosWith(options)(`${name} is validated, and not recorded`, function* () {
      const { plane } = yield* (yield* SimulatedIam).environment("e2e")
      const given = { recording, ...(tested && { plane }) }
      yield* accept(given)
      for (const table of ["unknown", "MusicCliDaemon", ""]) {
        const { code, details } = yield* Effect.flip(accept({ ...given, table }))
        expect([code, details?.fields?.map(({ path }) => path)]).toEqual(["invalid_input", ["table"]])
        expect(JSON.stringify(details)).not.toContain("unknown")
      }
      expect(yield* spooled).toEqual([])
      expect(yield* (yield* StoreSwitches).seen("spool.offer")).toEqual([])
    })

  scenariosWith({ tables: ["musicclidaemon"] })("is written to a table with a key only", function* () {
    yield* accept({ table: "musicclidaemon" })
    expect((yield* Effect.flip(accept({ table: "musicfrontendevents" }))).code).toBe("invalid_input")
  })
})

it("The time of an event is the client's own from 30 days ago to 1 day ahead, else that of receipt", () => {
  const metadata = (occurred_at: unknown) => ({ metadata: { occurred_at } })
  for (const [claimed, time] of [
    [start - 5_000.5, start - 5_001],
    ["2026-11-21T10:00:00.123456+02:00", Date.parse("2026-11-21T08:00:00.123Z")],
    ["2026-11-21t09:00:00z", Date.parse("2026-11-21T09:00:00Z")],
    [start - 30 * day, start - 30 * day],
    [start - 30 * day - 1, start],
    [start + day, start + day],
    [start + day + 1, start]
  ] as const)
    expect([claimed, eventTime(metadata(claimed), start)]).toEqual([claimed, time])
  const texts = `|yesterday|2026-11-21|2026-11-21T09:00:00|2026-11-21 09:00:00Z|Sat, 21 Nov 2026 09:00:00 GMT
    |2026-13-21T09:00:00Z|2026-11-21T25:00:00Z|${start - 5_000}`
  const odd = [...texts.split(/\s*\|/), null, Number.NaN, Number.POSITIVE_INFINITY, {}, [start]]
  const without = [
    {},
    { occurred_at: start - 1 },
    ...[null, "text", [], 7].map((given) => ({ metadata: given }))
  ]
  for (const event of [...odd.map(metadata), ...without])
    expect([event, eventTime(event, start)]).toEqual([event, start])
})
