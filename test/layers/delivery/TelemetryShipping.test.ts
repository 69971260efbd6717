/** Every record of the spool reaches its table once, whatever the table service answers. */
import { randomUUID } from "node:crypto"
import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import { Effect } from "effect"
import type { TableName } from "../../../src/schema/Telemetry.ts"
import type { SpoolEntry } from "../../../src/services/Store.ts"
import { NotExecuted, Unknown } from "../../../src/services/UpstreamFailure.ts"
import { makeSteppedClock } from "../../world/Time.ts"
import { sampleSpoolLease } from "../store/Samples.ts"
import { hour, makeHarness } from "./Harness.ts"

const dependency = "tables"
const outage = { failure: new NotExecuted({ dependency, reason: "answer 503" }) }
const limited = (retryAfterSeconds: number) => ({
  failure: new NotExecuted({ dependency, reason: "answer 429", retryAfterSeconds })
})
const lostAfter = { failure: new Unknown({ dependency, reason: "lost" }), arrives: true }
const hanging = { ...lostAfter, arrives: false, takes: Number.POSITIVE_INFINITY }
/** For tests of many minutes. */
const rarePolling = { telemetryPollInterval: 30_000 }

const makeWorld = Effect.gen(function* () {
  const harness = yield* makeHarness
  const { now, store, tables } = harness
  const entry = (table: TableName = "musicclidaemon", json = "{}"): SpoolEntry => {
    const at = now()
    return { table, recordId: randomUUID(), eventAt: at, json, bytes: json.length, acceptedAt: at }
  }
  const offer = (...entries: ReadonlyArray<SpoolEntry>) =>
    Effect.as(
      store.spool.offer(entries, { limitBytes: 500_000_000 }),
      entries.map(({ recordId }) => recordId).toSorted()
    )
  const offerSome = (count: number, table?: TableName) =>
    Effect.suspend(() => offer(...Array.from({ length: count }, () => entry(table))))
  const offerBroken = Effect.suspend(() => offer(entry("musicclidaemon", "{broken")))
  const counts = (table: TableName = "musicclidaemon") =>
    Effect.map(store.spool.counts, (all) => all.find((row) => row.table === table))
  const sizes = () => tables.batches.map(({ records }) => records.length)
  return { ...harness, entry, offer, offerSome, offerBroken, counts, sizes }
})

describe("Telemetry", () => {
  it.scoped("ships every record to its own table, once, and counts it", function* () {
    const { counts, offerSome, pass, start, tables } = yield* makeWorld
    const before = yield* offerSome(3, "musicfrontendevents")
    const { health } = yield* start("tables")
    const after = yield* offerSome(2)
    yield* pass(3)
    expect([tables.stored("musicfrontendevents"), tables.stored()]).toEqual([before, after])
    expect(yield* counts("musicfrontendevents")).toMatchObject({ accepted: 3, delivered: 3, waiting: 0 })
    expect(yield* health).toBe("ok")
  })

  it.scoped("goes in batches of at most 200 records and about a megabyte, one by one", function* () {
    const { entry, offer, offerSome, pass, sizes, start, tables } = yield* makeWorld
    yield* offerSome(450)
    tables.script.always({ takes: 5 })
    yield* start("tables")
    yield* pass(1)
    expect(sizes()).toEqual([200, 200, 50])
    expect(tables.batches.map(({ at }) => at - (tables.batches[0]?.at ?? 0))).toEqual([0, 5, 10])
    const json = JSON.stringify({ text: "x".repeat(200_000) })
    yield* offer(...Array.from({ length: 12 }, () => entry("musicclidaemon", json)))
    yield* pass(2)
    expect(sizes().slice(3)).toEqual([5, 5, 2])
  })

  it.scoped("finds the invalid record of a batch, and delivers the others", function* () {
    const { counts, levels, lines, offerBroken, offerSome, pass, start, tables } = yield* makeWorld
    const first = yield* offerSome(9)
    const [bad = ""] = yield* offerBroken
    const second = yield* offerSome(10)
    yield* start("tables")
    yield* pass(3)
    expect(tables.stored()).toEqual([...first, ...second].toSorted())
    expect(yield* counts()).toMatchObject({ delivered: 19, refused: 1, waiting: 0 })
    expect([levels("ERROR"), tables.copies()]).toEqual([1, 0])
    expect(lines.some(({ text }) => text.includes(bad))).toBe(true)
  })

  it.scoped("of one batch is settled by the results of its records", function* () {
    const { counts, entry, levels, offer, offerSome, pass, start, tables } = yield* makeWorld
    tables.retired.add("musicclidaemon")
    yield* offerSome(1)
    yield* offer(entry("musicfrontendevents", JSON.stringify({ text: "x".repeat(300_000) })))
    yield* offerSome(2, "musicfrontendevents")
    yield* start("tables")
    yield* pass(3)
    expect(yield* counts("musicfrontendevents")).toMatchObject({ delivered: 2, refused: 1, waiting: 0 })
    expect(yield* counts()).toMatchObject({ delivered: 0, refused: 0, waiting: 1 })
    expect(levels("ERROR")).toBe(2)
  })

  it.scoped("of a table whose key is unknown is kept and tried again; the others are shipped", function* () {
    const { counts, levels, offerSome, pass, sizes, start, tables } = yield* makeWorld
    tables.retired.add("musicclidaemon")
    const { health } = yield* start("tables", { limits: rarePolling })
    yield* start("tables", { limits: rarePolling, alone: true })
    const kept: Array<string> = []
    for (let round = 0; round < 3; round += 1) {
      kept.push(...(yield* offerSome(2)))
      yield* offerSome(1, "musicfrontendevents")
      yield* pass(3)
    }
    expect(yield* counts()).toMatchObject({ refused: 0, delivered: 0, waiting: 6 })
    expect([tables.stored("musicfrontendevents").length, yield* health]).toEqual([3, "degraded"])
    // One batch every five minutes, of all processes together.
    const before = sizes().length
    yield* pass(610)
    expect([sizes().slice(before), levels("ERROR")]).toEqual([[6, 6], 1])
    tables.retired.clear()
    yield* pass(330)
    expect([tables.stored(), yield* health, levels("ERROR")]).toEqual([kept.toSorted(), "ok", 1])
    // A start, which may have another key, tries at once.
    tables.retired.add("musicclidaemon")
    kept.push(...(yield* offerSome(1)))
    yield* pass(3)
    tables.retired.clear()
    yield* pass(30)
    expect(tables.stored().length).toBe(6)
    yield* start("tables", { limits: rarePolling, alone: true })
    yield* pass(3)
    expect(tables.stored()).toEqual(kept.toSorted())
  })

  it.scoped("is kept through an outage, with attempts at growing intervals of at most 30 s", function* () {
    const { counts, levels, offerSome, pass, start, tables } = yield* makeWorld
    const ids = yield* offerSome(3)
    tables.script.always(outage)
    yield* start("tables")
    yield* pass(180)
    const times = tables.batches.map(({ at }) => at / 1_000)
    const gaps = times.slice(1).map((at, index) => at - (times[index] ?? 0))
    expect(gaps.length).toBeGreaterThan(6)
    expect(gaps[0]).toBeLessThanOrEqual(3)
    expect(gaps.at(-1)).toBeGreaterThan(20)
    expect(Math.max(...gaps)).toBeLessThanOrEqual(37)
    expect(yield* counts()).toMatchObject({ waiting: 3 })
    expect(levels("WARN")).toBe(1)
    tables.script.always({})
    yield* pass(40)
    expect(tables.stored()).toEqual(ids)
  })

  it.scoped("waits as the service asks, in all processes and across restarts", function* () {
    const { offerSome, pass, start, tables } = yield* makeWorld
    const one = yield* start("tables", { limits: rarePolling })
    yield* start("tables", { limits: rarePolling })
    tables.script.next(limited(60))
    yield* offerSome(1)
    yield* pass(5)
    yield* offerSome(300)
    yield* pass(20)
    yield* one.stop
    yield* start("tables", { limits: rarePolling })
    yield* pass(30)
    expect(tables.batches.length).toBe(1)
    yield* pass(12)
    const [asked = 0, next = 0] = tables.batches.map(({ at }) => at)
    expect(next - asked).toBeGreaterThanOrEqual(60_000)
    expect(next - asked).toBeLessThanOrEqual(62_000)
    expect([tables.stored().length, tables.copies()]).toEqual([301, 0])
  })

  it.scoped("stays when it is off", function* () {
    const { offerSome, pass, start, tables } = yield* makeWorld
    yield* offerSome(1)
    const { health } = yield* start("tables", { settings: { telemetry: { enabled: false } } })
    yield* pass(60)
    expect([tables.batches, yield* health]).toEqual([[], "off"])
  })
})

describe("The end of a process that ships", () => {
  it.scoped("waits for the answer to what it sent, so that nothing is stored twice", function* () {
    const { counts, offerSome, pass, start, tables } = yield* makeWorld
    yield* offerSome(3)
    tables.script.next({ takes: 1_500 })
    const process = yield* start("tables")
    yield* process.stop
    expect(yield* counts()).toMatchObject({ delivered: 3, waiting: 0 })
    // By now the service has forgotten the ids.
    yield* pass(301)
    yield* start("tables")
    yield* pass(3)
    expect([tables.batches.length, tables.copies()]).toEqual([1, 0])
  })

  it.scoped("sends nothing further, and releases what is not settled", function* () {
    const { counts, offerBroken, offerSome, pass, start, tables } = yield* makeWorld
    yield* offerSome(1)
    yield* offerBroken
    tables.script.next({ takes: 1_000 })
    const process = yield* start("tables")
    yield* process.stop
    // The batch was refused: the next process finds the bad record.
    expect(tables.batches.length).toBe(1)
    expect(yield* counts()).toMatchObject({ delivered: 0, refused: 0, waiting: 2 })
    yield* start("tables")
    yield* pass(3)
    expect(yield* counts()).toMatchObject({ delivered: 1, refused: 1, waiting: 0 })
  })

  it.scoped("by a kill is repaired when the lease ends, within 15 s", function* () {
    const { counts, now, offerSome, pass, start, tables } = yield* makeWorld
    const ids = yield* offerSome(3)
    tables.script.next({ ...hanging, arrives: true })
    const from = now()
    const process = yield* start("tables")
    yield* process.kill
    yield* start("tables")
    yield* pass(5)
    expect(tables.batches.length).toBe(1)
    yield* pass(15 - (now() - from) / 1_000)
    expect(tables.stored()).toEqual(ids)
    expect(yield* counts()).toMatchObject({ duplicates: 3, waiting: 0 })
  })
})

describe("The lease of telemetry", () => {
  it.scoped.each([-hour, hour])("ends a request in time, on a clock stepped by %i ms", function* (by) {
    const { counts, offerSome, pass, start, tables } = yield* makeWorld
    const { clock, step } = yield* makeSteppedClock
    tables.script.next({ ...hanging, arrives: true })
    yield* offerSome(3)
    yield* Effect.withClock(start("tables"), clock)
    step(by)
    yield* pass(7)
    expect(tables.batches.length).toBe(1)
    yield* pass(8)
    expect(tables.batches.length).toBe(2)
    expect(yield* counts()).toMatchObject({ duplicates: 3, waiting: 0 })
  })
})

describe("Expired telemetry", () => {
  it.scoped("is dropped after 24 hours; delivered ids are remembered as long", function* () {
    const { counts, entry, now, offer, pass, start, store, tables } = yield* makeWorld
    const { spool } = store
    const delivered = (hours: number) =>
      Effect.gen(function* () {
        const one = entry("musicfrontendevents")
        const at = now() - hours * hour
        yield* offer(one)
        yield* spool.lease(sampleSpoolLease({ now: at }))
        const settled = { owner: "worker", now: at, delivered: [one.recordId], duplicates: [], refused: [] }
        return yield* Effect.as(spool.settle(settled), one)
      })
    const late = yield* delivered(23)
    const forgotten = yield* delivered(25)
    const aged = (minutes: number) => ({ ...entry(), acceptedAt: now() - minutes * 60_000 })
    yield* offer(aged(1_435), aged(1_425), aged(0))
    tables.script.next(limited(3_600))
    yield* start("tables", { limits: rarePolling })
    for (const [seconds, waiting, expired] of [
      [590, 3, 0],
      [20, 2, 1],
      [600, 1, 2]
    ] as const) {
      yield* pass(seconds)
      expect(yield* counts()).toMatchObject({ waiting, expired })
    }
    yield* offer(late, forgotten)
    expect(yield* counts("musicfrontendevents")).toMatchObject({ waiting: 1, duplicates: 1 })
  })

  it.scoped("is nothing in a round before which the clock was stepped by more than a day", function* () {
    const { counts, entry, offer, offerSome, pass, start, tables } = yield* makeWorld
    const { clock, step } = yield* makeSteppedClock
    const kept = entry("musicfrontendevents")
    yield* offer(kept)
    const limits = { telemetryPollInterval: 200_000 }
    yield* Effect.withClock(start("tables", { limits }), clock)
    yield* pass(5)
    expect(tables.stored("musicfrontendevents")).toEqual([kept.recordId])
    tables.retired.add("musicclidaemon")
    yield* offerSome(2)
    for (const by of [72 * hour, -72 * hour]) {
      step(by)
      yield* pass(600)
    }
    yield* pass(3_000)
    expect(yield* counts()).toMatchObject({ waiting: 2, expired: 0 })
    yield* offer(kept)
    expect(yield* counts("musicfrontendevents")).toMatchObject({ delivered: 1, duplicates: 1, waiting: 0 })
  })
})
