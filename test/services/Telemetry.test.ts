import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import { toEnvelope } from "../../src/schema/Envelope.ts"
import { clientTables, type TelemetryRequest } from "../../src/schema/Telemetry.ts"
import type { Plane } from "../../src/services/Plane.ts"
import { Store } from "../../src/services/Store.ts"
import { eventTime, Telemetry } from "../../src/services/Telemetry.ts"
import { SimulatedIam } from "../support/SimulatedIam.ts"
import { StoreSwitches } from "../support/TestStore.ts"
import { inRequest, production, scenario, withUseCases, start } from "../support/UseCaseLayers.ts"

const id = "01990c6e-5f0a-7c1e-8d3b-2a4f6b8c0d1e"

interface Batch {
  readonly table?: string
  readonly events?: TelemetryRequest["events"]
  readonly plane?: Plane
  readonly recording?: boolean
}

const accept = ({
  table = "musicclidaemon",
  events = [{ id }],
  plane = production,
  recording = true
}: Batch = {}) =>
  Effect.flatMap(Telemetry, (telemetry) => telemetry.accept(plane, { table, events })).pipe(
    inRequest({ recording })
  )

const spooled = Effect.flatMap(Store, (store) =>
  store.spool.lease({
    tables: new Set(clientTables),
    count: 100,
    bytes: 1_000_000,
    now: start,
    leaseUntil: start,
    owner: "test"
  })
)

const day = 86_400_000

describe("a batch of telemetry", () => {
  scenario("is committed to the spool before it is acknowledged", function* () {
    const event = { id, type: "playback.track.started", data: { title: "Flut ünd Ebbe" }, metadata: {} }
    yield* accept({ events: [event] })
    const json = JSON.stringify(event)
    deepStrictEqual(yield* spooled, [
      {
        table: "musicclidaemon",
        recordId: id,
        eventAt: start,
        json,
        bytes: new TextEncoder().encode(json).length,
        acceptedAt: start
      }
    ])
  })

  scenario("has its ids in lower case, in the record too; a retry is stored once", function* () {
    yield* accept({ events: [{ id: id.toUpperCase(), n: 1 }] })
    yield* accept({ events: [{ id, n: 1 }] })
    const [entry, ...more] = yield* spooled
    assert.isEmpty(more)
    assert.strictEqual(entry?.recordId, id)
    deepStrictEqual(JSON.parse(entry?.json ?? ""), { id, n: 1 })
  })

  scenario("is written to the table that it names, with an id for each event without one", function* () {
    yield* accept({ table: "musicfrontendevents", events: [{ n: 1 }, { n: 1 }] })
    const entries = yield* spooled
    deepStrictEqual(
      entries.map(({ table }) => table),
      ["musicfrontendevents", "musicfrontendevents"]
    )
    assert.strictEqual(new Set(entries.map(({ recordId }) => recordId)).size, 2)
    for (const { json, recordId } of entries) {
      assert.match(recordId, /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/)
      deepStrictEqual(JSON.parse(json), { n: 1, id: recordId })
    }
  })

  scenario("keeps an id that is no UUID unchanged, and identifies the event by a new one", function* () {
    const ids = [
      "1",
      "1",
      "",
      null,
      1,
      { id },
      "01990c6e5f0a7c1e8d3b2a4f6b8c0d1e",
      `{${id}}`,
      `${id.slice(0, -1)}g`,
      `${id}\n`
    ]
    yield* accept({ events: ids.map((other) => ({ id: other })) })
    const entries = yield* spooled
    deepStrictEqual(
      entries.map(({ json }): unknown => JSON.parse(json)),
      ids.map((other) => ({ id: other }))
    )
    assert.strictEqual(new Set(entries.map(({ recordId }) => recordId)).size, ids.length)
    assert.notInclude(
      entries.map(({ recordId }) => recordId),
      id
    )
  })

  scenario("is stored without credentials", function* () {
    const secret = `oat_${"s3cret".repeat(8)}`
    yield* accept({ events: [{ id, data: { note: `it said ${secret}` } }] })
    deepStrictEqual(JSON.parse((yield* spooled)[0]?.json ?? ""), {
      id,
      data: { note: "it said [redacted]" }
    })
  })

  it.effect("that exceeds the spool's bound is 503, and none of it is stored", () => {
    const event = { id, text: "x".repeat(100) }
    const bytes = JSON.stringify(event).length
    return withUseCases(
      Effect.gen(function* () {
        yield* accept({ events: [event] })
        const failure = yield* Effect.flip(accept({ events: [{ n: 1 }] }))
        assert.strictEqual(failure.code, "spool_full")
        assert.isNumber(failure.retryAfterSeconds)
        assert.strictEqual((yield* spooled).length, 1)
        // A record that is waiting already is a retry: it takes no room.
        yield* accept({ events: [event] })
      }),
      { settings: { telemetry: { spoolBytes: bytes } } }
    )
  })

  scenario("that the database failed to store is 503, never acknowledged", function* () {
    yield* (yield* StoreSwitches).breakDown("spool.offer")
    const failure = yield* Effect.flip(accept())
    assert.strictEqual(failure.code, "dependency_unavailable")
    deepStrictEqual(failure.details, { dependency: "database" })
  })
})

describe("the table", () => {
  const refused = (table: string) =>
    Effect.gen(function* () {
      const failure = yield* Effect.flip(accept({ table }))
      assert.strictEqual(failure.code, "invalid_input", table)
      deepStrictEqual(
        failure.details?.fields?.map(({ path }) => path),
        ["table"]
      )
      assert.notInclude(JSON.stringify(toEnvelope(failure)), `"${table}"`)
    })

  scenario(
    "must be a client table: neither the backend's own nor an unknown one",
    function* () {
      for (const table of ["musicbackend", "unknown", "", "MUSICCLIDAEMON", "toString"]) yield* refused(table)
      assert.isEmpty(yield* spooled)
    },
    { tables: [...clientTables, "musicbackend"] }
  )

  scenario(
    "must have a key",
    function* () {
      yield* accept({ table: "musicclidaemon" })
      yield* refused("musicfrontendevents")
    },
    { tables: ["musicclidaemon"] }
  )
})

describe("nothing is recorded", () => {
  const stillValidated = (batch: Batch) =>
    Effect.gen(function* () {
      yield* accept(batch)
      assert.isEmpty(yield* spooled)
      assert.strictEqual((yield* Effect.flip(accept({ ...batch, table: "unknown" }))).code, "invalid_input")
      assert.isEmpty(yield* (yield* StoreSwitches).seen("spool.offer"))
    })

  it.effect("for a caller who opted out, but the request is validated", () =>
    withUseCases(stillValidated({ recording: false }))
  )

  it.effect("with MUSIC_TELEMETRY=off, but the request is validated", () =>
    withUseCases(stillValidated({}), { settings: { telemetry: { enabled: false } } })
  )

  scenario("in a testing plane, but the request is validated", function* () {
    const { plane } = yield* (yield* SimulatedIam).environment("e2e")
    yield* stillValidated({ plane })
  })
})

describe("the time of an event", () => {
  const at = (occurred_at: unknown) => eventTime({ metadata: { occurred_at } }, start)

  it("is the client's own, in RFC 3339 or epoch milliseconds", () => {
    assert.strictEqual(at(start - 5_000), start - 5_000)
    assert.strictEqual(at("2026-11-21T09:00:00Z"), Date.parse("2026-11-21T09:00:00Z"))
    assert.strictEqual(at("2026-11-21T10:00:00.123456+02:00"), Date.parse("2026-11-21T08:00:00.123Z"))
    assert.strictEqual(at("2026-11-21t09:00:00z"), Date.parse("2026-11-21T09:00:00Z"))
  })

  it("is accepted from 30 days ago to 1 day ahead, inclusive", () => {
    assert.strictEqual(at(start - 30 * day), start - 30 * day)
    assert.strictEqual(at(start - 30 * day - 1), start)
    assert.strictEqual(at(start + day), start + day)
    assert.strictEqual(at(start + day + 1), start)
  })

  it("is the time of receipt when the event has no plausible time", () => {
    assert.strictEqual(eventTime({}, start), start)
    assert.strictEqual(eventTime({ occurred_at: start - 1 }, start), start)
    for (const metadata of [null, "text", [], 7]) assert.strictEqual(eventTime({ metadata }, start), start)
    for (const odd of [
      null,
      "",
      "yesterday",
      "2026-11-21",
      "2026-11-21T09:00:00",
      "2026-11-21 09:00:00Z",
      "Sat, 21 Nov 2026 09:00:00 GMT",
      "2026-13-21T09:00:00Z",
      "2026-11-21T25:00:00Z",
      String(start - 5_000),
      Number.NaN,
      Number.POSITIVE_INFINITY,
      {},
      [start]
    ]) {
      assert.strictEqual(at(odd), start, JSON.stringify(odd))
    }
  })

  it("is always a whole number within the bounds", () => {
    const claim = FastCheck.oneof(
      FastCheck.anything(),
      FastCheck.double(),
      FastCheck.double({ min: start - 40 * day, max: start + 10 * day, noNaN: true }),
      FastCheck.date({ noInvalidDate: true }).map((date) => date.toISOString()),
      FastCheck.string()
    )
    FastCheck.assert(
      FastCheck.property(claim, (claimed) => {
        const time = at(claimed)
        assert.isTrue(Number.isInteger(time))
        assert.isTrue(time >= start - 30 * day && time <= start + day)
      })
    )
  })

  it("is the same instant for every spelling", () => {
    const instant = FastCheck.integer({ min: start - 30 * day, max: start + day })
    FastCheck.assert(
      FastCheck.property(instant, (time) => {
        assert.strictEqual(at(time), time)
        assert.strictEqual(at(new Date(time).toISOString()), time)
      })
    )
  })
})
