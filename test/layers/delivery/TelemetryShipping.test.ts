import { randomUUID } from "node:crypto"
import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { makeTelemetryExpiry } from "../../../src/layers/delivery/TelemetryExpiry.ts"
import { faults } from "../../../sandbox/upstreams/Simulator.ts"
import { startTables } from "../../../sandbox/upstreams/Tables.ts"
import type { TableName } from "../../../src/schema/Telemetry.ts"
import { type SpoolEntry, Store, type TelemetrySpool } from "../../../src/services/Store.ts"
import { type SettingsOverrides, testSettings } from "../../support/Settings.ts"
import { makeSteppedClock } from "../../support/SteppedClock.ts"
import { type Harness, makeHarness } from "./Harness.ts"
import { sampleSpoolLease } from "../store/Stores.ts"
import { simulated } from "../upstream/Simulated.ts"

/** For tests of many minutes. */
const rarePolling = { telemetryPollInterval: 30_000 }

const entry = (
  harness: Harness,
  table: TableName = "musicclidaemon",
  json = JSON.stringify({ type: "playback.track.started" })
): SpoolEntry => ({
  table,
  recordId: randomUUID(),
  eventAt: harness.now(),
  json,
  bytes: Buffer.byteLength(json),
  acceptedAt: harness.now()
})

/** A table service with two tables, its settings, and functions that put records into the spool. */
const makeWorld = (overrides: SettingsOverrides = {}) =>
  Effect.gen(function* () {
    const harness = yield* makeHarness
    const service = yield* simulated((now) => startTables({ now }))
    const keys = new Map<TableName, Redacted.Redacted>([
      ["musicclidaemon", Redacted.make(service.createTable("musicclidaemon"))],
      ["musicbackend", Redacted.make(service.createTable("musicbackend"))]
    ])
    const settings = testSettings({ tables: Option.some({ url: service.url, keys }), ...overrides })
    const offer = (entries: ReadonlyArray<SpoolEntry>) =>
      harness.store.spool.offer(entries, { limitBytes: 500_000_000 })
    const offerSome = (count: number, table?: TableName) =>
      Effect.gen(function* () {
        const entries = Array.from({ length: count }, () => entry(harness, table))
        yield* offer(entries)
        return entries.map(({ recordId }) => recordId)
      })
    const counts = (table: TableName) =>
      Effect.map(harness.store.spool.counts, (all) => all.find((row) => row.table === table))
    const stored = (table: TableName) =>
      service
        .rows(table)
        .map(({ record_id }) => record_id)
        .sort()
    return { ...harness, harness, service, settings, offer, offerSome, counts, stored }
  })

describe("Telemetry shipping", () => {
  it.scoped("ships every record to its own table, once, and remembers its id", function* () {
    const { counts, offerSome, pass, service, settings, start, stored } = yield* makeWorld()
    const before = yield* offerSome(3, "musicbackend")
    const { checks } = yield* start(settings)
    const after = yield* offerSome(2, "musicclidaemon")
    yield* pass(3)
    expect(stored("musicbackend")).toEqual([...before].sort())
    expect(stored("musicclidaemon")).toEqual([...after].sort())
    expect(yield* counts("musicbackend")).toMatchObject({ accepted: 3, delivered: 3, waiting: 0 })
    expect(service.received()).toMatchObject({ records: 5, duplicates: 0 })
    expect(yield* checks).toEqual({ tables: "ok", tracker: "off" })
  })

  it.scoped("sends at most 200 records at a time, and a backlog without pauses", function* () {
    const { offerSome, pass, service, settings, start } = yield* makeWorld()
    yield* offerSome(450)
    yield* start(settings)
    yield* pass(0)
    const sizes = service.seen.map(({ body }) => JSON.parse(body.toString()).records.length)
    expect(sizes).toEqual([200, 200, 50])
  })

  it.scoped("sends about a megabyte at a time", function* () {
    const { harness, offer, pass, service, settings, start } = yield* makeWorld()
    const json = JSON.stringify({ text: "x".repeat(200_000) })
    yield* offer(Array.from({ length: 12 }, () => entry(harness, "musicclidaemon", json)))
    yield* start(settings)
    yield* pass(2)
    expect(service.received().stored).toBe(12)
    expect(service.seen.length).toBe(3)
    for (const { body } of service.seen) expect(body.length).toBeLessThan(1_100_000)
  })

  it.scoped("isolates an invalid record of a batch, and delivers the others", function* () {
    const { counts, harness, lines, offer, offerSome, pass, service, settings, start, stored } =
      yield* makeWorld()
    const first = yield* offerSome(9)
    const bad = entry(harness, "musicclidaemon", "{broken")
    yield* offer([bad])
    const second = yield* offerSome(10)
    yield* start(settings)
    yield* pass(3)
    expect(stored("musicclidaemon")).toEqual([...first, ...second].sort())
    expect(yield* counts("musicclidaemon")).toMatchObject({ delivered: 19, refused: 1, waiting: 0 })
    const errors = lines.filter(({ level }) => level === "ERROR")
    expect(errors.length).toBe(1)
    expect(errors[0]?.text).toContain(bad.recordId)
    expect(service.received().duplicates).toBe(0)
  })

  it.scoped("counts records that the service already has as duplicates", function* () {
    const { counts, offerSome, pass, service, settings, start, stored } = yield* makeWorld()
    const ids = yield* offerSome(2)
    service.fail({ path: "/api/ingest", fault: { kind: "drop-after" } })
    yield* start(settings)
    yield* pass(5)
    expect(stored("musicclidaemon")).toEqual([...ids].sort())
    expect(yield* counts("musicclidaemon")).toMatchObject({ delivered: 0, duplicates: 2, waiting: 0 })
    const batches = service.seen.map(({ body }) => JSON.parse(body.toString()))
    expect(batches.length).toBe(2)
    expect(batches[0].batch_id).not.toBe(batches[1].batch_id)
    expect(batches[0].records).toEqual(batches[1].records)
  })

  it.scoped("keeps the records of a table whose key is unknown, and ships the others", function* () {
    const { counts, lines, offerSome, pass, service, settings, start, stored } = yield* makeWorld()
    service.retire("musicclidaemon")
    const { checks } = yield* start(settings, {}, rarePolling)
    const kept: Array<string> = []
    for (let round = 0; round < 3; round += 1) {
      kept.push(...(yield* offerSome(2, "musicclidaemon")))
      yield* offerSome(1, "musicbackend")
      yield* pass(3)
    }
    expect(yield* counts("musicclidaemon")).toMatchObject({ refused: 0, delivered: 0, waiting: 6 })
    expect(stored("musicbackend").length).toBe(3)
    expect(yield* checks).toEqual({ tables: "degraded", tracker: "off" })

    // One record at each probe, every five minutes.
    const before = service.seen.length
    yield* pass(610)
    const tries = service.seen.slice(before).map(({ body }) => JSON.parse(body.toString()).records.length)
    expect(tries).toEqual([1, 1])
    expect(lines.filter(({ level }) => level === "ERROR").length).toBe(1)

    service.restore("musicclidaemon")
    yield* pass(300)
    expect(stored("musicclidaemon")).toEqual(kept.sort())
    expect(yield* checks).toEqual({ tables: "ok", tracker: "off" })
    expect(lines.filter(({ text }) => text.includes("accepts records again")).length).toBe(1)
    expect(lines.filter(({ level }) => level === "ERROR").length).toBe(1)
  })

  it.scoped("settles records with different results in one response", function* () {
    const { counts, harness, lines, offer, offerSome, pass, service, settings, start, store } =
      yield* makeWorld()
    service.retire("musicclidaemon")
    const huge = JSON.stringify({ text: "x".repeat(300_000) })
    const tooBig = entry(harness, "musicbackend", huge)
    yield* offerSome(1, "musicclidaemon")
    yield* offer([tooBig])
    yield* offerSome(2, "musicbackend")
    yield* start(settings)
    yield* pass(3)
    expect(yield* counts("musicbackend")).toMatchObject({ delivered: 2, refused: 1, waiting: 0 })
    expect(yield* counts("musicclidaemon")).toMatchObject({ delivered: 0, refused: 0, waiting: 1 })
    const errors = lines.filter(({ level }) => level === "ERROR").map(({ text }) => text)
    expect(errors.length).toBe(2)
    expect(errors.join()).toContain("size_exceeded")
    // It has left the spool, so the same id is accepted again.
    expect((yield* store.spool.counts).length).toBe(2)
  })

  it.scoped(
    "keeps everything through an outage and retries at growing intervals of at most 30 seconds",
    function* () {
      const { counts, lines, offerSome, pass, service, settings, start, stored } = yield* makeWorld()
      const ids = yield* offerSome(3)
      service.failIngest("before", Number.POSITIVE_INFINITY)
      yield* start(settings)
      yield* pass(180)
      const times = service.seen.map(({ at }) => at)
      const gaps = times.slice(1).map((at, index) => (at - (times[index] ?? 0)) / 1000)
      expect(gaps.length).toBeGreaterThan(6)
      expect(Math.max(...gaps)).toBeLessThanOrEqual(37)
      expect(gaps[0]).toBeLessThanOrEqual(3)
      expect(gaps.at(-1)).toBeGreaterThan(20)
      expect(yield* counts("musicclidaemon")).toMatchObject({ waiting: 3 })
      expect(lines.filter(({ text }) => text.includes("The table service is not available")).length).toBe(1)
      service.clearFaults()
      yield* pass(40)
      expect(stored("musicclidaemon")).toEqual([...ids].sort())
      expect(lines.some(({ text }) => text.includes("available again"))).toBe(true)
    }
  )

  it.scoped("counts a refused batch as the end of an outage", function* () {
    const { harness, offer, pass, service, settings, start } = yield* makeWorld()
    yield* offer([entry(harness, "musicclidaemon", "{broken")])
    service.fail({ fault: faults.status(503, {}) })
    yield* start(settings)
    yield* pass(0)
    expect((yield* harness.store.destinations.find("tables")).failures).toBe(1)
    yield* pass(3)
    expect((yield* harness.store.destinations.find("tables")).failures).toBe(0)
  })

  it.scoped("shares a requested pause between processes and across restarts", function* () {
    const { lines, offerSome, pass, service, settings, start } = yield* makeWorld()
    const one = yield* start(settings, {}, rarePolling)
    yield* start(settings, {}, rarePolling)
    service.fail({ fault: faults.status(429, {}, { "retry-after": "60" }) })
    yield* offerSome(1)
    yield* pass(5)
    expect(service.seen.length).toBe(1)
    const askedAt = service.seen[0]?.at ?? 0
    yield* offerSome(300)
    yield* pass(20)
    yield* one.stop
    yield* start(settings, {}, rarePolling)
    yield* offerSome(1)
    yield* pass(32)
    expect(service.seen.length).toBe(1)
    yield* pass(10)
    expect((service.seen[1]?.at ?? 0) - askedAt).toBeGreaterThanOrEqual(60_000)
    expect((service.seen[1]?.at ?? 0) - askedAt).toBeLessThanOrEqual(62_000)
    expect(service.received()).toMatchObject({ stored: 302, duplicates: 0 })
    expect(lines.filter(({ text }) => text.includes("The table service is not available")).length).toBe(1)
    expect(lines.filter(({ text }) => text.includes("available again")).length).toBe(1)
  })

  it.scoped("counts a failure of several processes at the same time as one", function* () {
    const { offerSome, pass, service, settings, start, store, until } = yield* makeWorld()
    // All three have leased and sent before any is answered.
    service.fail({ times: 3, fault: faults.status(503, {}) })
    let waiting = 0
    const { lease } = store.spool
    Object.assign(store.spool, {
      lease: (request: Parameters<typeof lease>[0]) =>
        Effect.tap(lease(request), ({ length }) => {
          if (length === 0) return Effect.void
          waiting += 1
          return Effect.promise(async () => {
            while (waiting < 3) await new Promise((wake) => setTimeout(wake, 1))
          })
        })
    })
    yield* offerSome(600)
    for (let process = 0; process < 3; process += 1) yield* start(settings)
    yield* until(() => service.seen.length === 3)
    yield* pass(2)
    expect(service.received()).toMatchObject({ stored: 600, duplicates: 0 })
  })

  it.scoped("has one request in flight at any load", function* () {
    const { offerSome, pass, service, settings, start } = yield* makeWorld()
    let running = 0
    let most = 0
    service.fail({ times: Number.POSITIVE_INFINITY, fault: faults.delay(5) })
    yield* start(settings)
    const watch = setInterval(() => {
      running = service.seen.filter(({ status }) => status === undefined).length
      most = Math.max(most, running)
    }, 1)
    for (let round = 0; round < 4; round += 1) {
      yield* offerSome(250)
      yield* pass(1)
    }
    clearInterval(watch)
    yield* pass(3)
    expect(service.received()).toMatchObject({ stored: 1000, duplicates: 0 })
    expect(most).toBeLessThanOrEqual(1)
  })

  it.scoped.each([
    [30, 5],
    [8, 2]
  ] as const)(
    "waits at a stop for an answer no longer than a share of the grace period: of %i s it takes %i",
    function* ([grace, seconds]) {
      const { expectHanging, harness, offerSome, service, settings, start, until } = yield* makeWorld({
        shutdownGraceSeconds: grace
      })
      yield* offerSome(1)
      service.fail({ fault: { kind: "hang" } })
      yield* expectHanging(1)
      const process = yield* start(settings)
      yield* until(() => service.seen.length === 1)
      const before = harness.now()
      yield* process.stop
      expect((harness.now() - before) / 1000).toBe(seconds)
    }
  )

  it.scoped(
    "waits at a stop for the answer to what it sent, so that nothing is stored a second time",
    function* () {
      const { counts, expectHanging, offerSome, pass, service, settings, start, stored, until } =
        yield* makeWorld()
      const ids = yield* offerSome(3)
      service.fail({ fault: faults.delay(40) })
      yield* expectHanging(1)
      const process = yield* start(settings)
      yield* until(() => service.seen.length === 1)
      yield* process.close
      yield* until(() => service.received().stored === 3)
      yield* expectHanging(0)
      expect(yield* counts("musicclidaemon")).toMatchObject({ delivered: 3, waiting: 0 })
      // By now the service has forgotten the ids.
      yield* pass(301)
      yield* start(settings)
      yield* pass(3)
      expect(stored("musicclidaemon")).toEqual([...ids].sort())
      expect(service.received()).toMatchObject({ stored: 3, duplicates: 0 })
    }
  )

  it.scoped("sends nothing further while it stops, and releases unsettled records", function* () {
    const { counts, expectHanging, harness, offer, offerSome, service, settings, start, until } =
      yield* makeWorld()
    yield* offerSome(1)
    yield* offer([entry(harness, "musicclidaemon", "{broken")])
    service.fail({ fault: faults.delay(40) })
    yield* expectHanging(1)
    const process = yield* start(settings)
    yield* until(() => service.seen.length === 1)
    yield* process.close
    yield* expectHanging(0)
    // The batch was refused: the next process isolates the bad record.
    expect(service.seen.length).toBe(1)
    expect(yield* counts("musicclidaemon")).toMatchObject({ delivered: 0, refused: 0, waiting: 2 })
    yield* start(settings)
    yield* harness.pass(3)
    expect(yield* counts("musicclidaemon")).toMatchObject({ delivered: 1, refused: 1, waiting: 0 })
  })

  it.scoped("ships the records of a killed process when their lease ends", function* () {
    const { expectHanging, offerSome, pass, service, settings, start, stored, until } = yield* makeWorld()
    const ids = yield* offerSome(3)
    service.fail({ fault: { kind: "hang-after" } })
    yield* expectHanging(1)
    const process = yield* start(settings)
    yield* until(() => service.seen.length === 1)
    yield* process.kill
    yield* expectHanging(0)
    yield* start(settings)
    yield* pass(5)
    expect(service.seen.length).toBe(1)
    // Within fifteen seconds of its death, of which the kill took five.
    yield* pass(4)
    expect(service.received()).toMatchObject({ stored: 3, duplicates: 3 })
    expect(stored("musicclidaemon")).toEqual([...ids].sort())
  })

  it.scoped("remembers delivered ids for 24 hours", function* () {
    const { harness, offer, pass, service, settings, start } = yield* makeWorld()
    const { spool } = harness.store
    const delivered = (hours: number) =>
      Effect.gen(function* () {
        const one = entry(harness)
        const now = harness.now() - hours * 3_600_000
        yield* offer([one])
        yield* spool.lease(sampleSpoolLease({ now }))
        yield* spool.settle({
          owner: "worker",
          now,
          delivered: [one.recordId],
          duplicates: [],
          refused: []
        })
        return one
      })
    const late = yield* delivered(23)
    const forgotten = yield* delivered(25)
    yield* start(settings, {}, rarePolling)
    yield* pass(610)
    yield* offer([late, forgotten])
    yield* pass(40)
    expect(service.rows("musicclidaemon").map(({ record_id }) => record_id)).toEqual([forgotten.recordId])
  })

  it.scoped("drops records older than the spool's limit", function* () {
    const { counts, harness, offer, pass, service, settings, start } = yield* makeWorld({
      telemetry: { spoolHours: 2 }
    })
    const aged = (minutes: number) => ({ ...entry(harness), acceptedAt: harness.now() - minutes * 60_000 })
    yield* offer([aged(121), aged(115), aged(0)])
    service.fail({ fault: faults.status(429, {}, { "retry-after": "3600" }) })
    yield* start(settings)
    yield* pass(590)
    expect(yield* counts("musicclidaemon")).toMatchObject({ waiting: 3, expired: 0 })
    yield* pass(20)
    expect(yield* counts("musicclidaemon")).toMatchObject({ waiting: 2, expired: 1 })
    yield* pass(600)
    expect(yield* counts("musicclidaemon")).toMatchObject({ waiting: 1, expired: 2 })
  })

  it.scoped("drops no record and no id while the clock is temporarily days ahead", function* () {
    const { counts, offer, offerSome, pass, service, settings, start, stored, harness } = yield* makeWorld()
    const { clock, step } = yield* makeSteppedClock
    const kept = entry(harness, "musicbackend")
    yield* offer([kept])
    yield* Effect.withClock(start(settings, {}, { telemetryPollInterval: 200_000 }), clock)
    yield* pass(5)
    expect(stored("musicbackend")).toEqual([kept.recordId])
    service.retire("musicclidaemon")
    yield* offerSome(2)
    yield* pass(300)
    step(72 * 3_600_000)
    yield* pass(600)
    expect(yield* counts("musicclidaemon")).toMatchObject({ waiting: 2, expired: 0 })
    step(-72 * 3_600_000)
    yield* pass(3_000)
    expect(yield* counts("musicclidaemon")).toMatchObject({ waiting: 2, expired: 0 })
    yield* offer([kept])
    expect(yield* counts("musicbackend")).toMatchObject({ delivered: 1, duplicates: 1, waiting: 0 })
  })

  it.scoped.each([-3_600_000, 3_600_000])(
    "keeps the time limit of a request when the clock is stepped by %i ms during it",
    function* (by) {
      const { expectHanging, harness, lines, offerSome, pass, service, settings, start, until } =
        yield* makeWorld()
      const { clock, step } = yield* makeSteppedClock
      const { lease } = harness.store.spool
      let leases = 0
      Object.assign(harness.store.spool, {
        lease: (request: Parameters<typeof lease>[0]) =>
          Effect.tap(lease(request), (entries) =>
            Effect.sync(() => {
              if (entries.length === 0) return
              leases += 1
              if (leases === 1) step(by)
            })
          )
      })
      service.fail({ times: 1, fault: { kind: "hang-after" } })
      yield* expectHanging(1)
      yield* offerSome(3)
      yield* Effect.withClock(start(settings), clock)
      yield* until(() => service.seen.length === 1)
      yield* pass(9)
      expect(lines.filter(({ level }) => level === "WARN")).toEqual([])
      // The call ends after 10 s.
      yield* pass(2)
      yield* expectHanging(0)
      yield* pass(4)
      expect(service.seen.length).toBe(2)
      expect(service.received()).toMatchObject({ stored: 3, duplicates: 3 })
    }
  )

  it.scoped("limits the number of remembered ids even while the clock is not trusted", function* () {
    const { harness, pass } = yield* makeWorld()
    const asked: Array<Parameters<TelemetrySpool["expire"]>[0]> = []
    const spool: TelemetrySpool = {
      ...harness.store.spool,
      expire: (bounds) => Effect.sync(() => void asked.push(bounds))
    }
    const expire = yield* makeTelemetryExpiry(24).pipe(
      Effect.provideService(Store, { ...harness.store, spool })
    )
    const from = harness.now()
    yield* Effect.forkScoped(expire)
    yield* pass(601)
    expect(asked.map(({ deliveredAtMost }) => deliveredAtMost)).toEqual([1_000_000, 1_000_000])
    expect(asked.map(({ deliveredBefore }) => deliveredBefore > 0)).toEqual([false, true])
    expect(asked[1]?.deliveredBefore).toBe(from - 24 * 3_600_000)
  })

  it.scoped("sends nothing when telemetry is off", function* () {
    const { offerSome, pass, service, settings, start } = yield* makeWorld({
      telemetry: { enabled: false }
    })
    yield* offerSome(1)
    const { checks } = yield* start(settings)
    yield* pass(60)
    expect(service.seen.length).toBe(0)
    expect(yield* checks).toEqual({ tables: "off", tracker: "off" })
  })

  it.scoped("ships when the database takes more than a second for every lease", function* () {
    const { harness, offer, offerSome, pass, service, settings, start, stored } = yield* makeWorld()
    const lease = harness.store.spool.lease
    Object.assign(harness.store.spool, {
      lease: (request: Parameters<typeof lease>[0]) => Effect.zipLeft(lease(request), Effect.sleep(1_200))
    })
    const ids = yield* offerSome(3)
    yield* start(settings)
    yield* pass(5)
    expect(stored("musicclidaemon")).toEqual([...ids].sort())
    // A batch with a bad record too, though the lease then allows one request only.
    yield* offer([entry(harness, "musicclidaemon", "{broken")])
    ids.push(...(yield* offerSome(3)))
    yield* pass(15)
    expect(stored("musicclidaemon")).toEqual([...ids].sort())
    expect(service.received().duplicates).toBe(0)
  })

  it.scoped("ends a request before another process may take over its lease", function* () {
    const { counts, expectHanging, harness, offerSome, pass, service, settings, start, until } =
      yield* makeWorld()
    const lease = harness.store.spool.lease
    const from = harness.now()
    let leased = 0
    let endedAt = 0
    Object.assign(harness.store.spool, {
      lease: (request: Parameters<typeof lease>[0]) => {
        leased += 1
        return leased === 1 ? Effect.zipLeft(lease(request), Effect.sleep(2_500)) : lease(request)
      },
      release: () =>
        Effect.sync(() => {
          endedAt = harness.now()
        })
    })
    yield* offerSome(1)
    service.fail({ fault: { kind: "hang" } })
    yield* expectHanging(1)
    yield* start(settings)
    yield* pass(2.5)
    yield* until(() => service.seen.length === 1)
    yield* pass(6)
    expect(endedAt).toBe(0)
    yield* pass(2.5)
    yield* expectHanging(0)
    expect(endedAt - from).toBeLessThan(11_000)
    yield* pass(10)
    expect(yield* counts("musicclidaemon")).toMatchObject({ delivered: 1 })
  })

  it.scoped("warns when the database is too slow to send anything under a lease", function* () {
    const { harness, lines, offerSome, pass, service, settings, start, stored } = yield* makeWorld()
    const lease = harness.store.spool.lease
    let slow = true
    Object.assign(harness.store.spool, {
      lease: (request: Parameters<typeof lease>[0]) =>
        slow ? Effect.zipLeft(lease(request), Effect.sleep(9_000)) : lease(request)
    })
    const warnings = () => lines.filter(({ level, text }) => level === "WARN" && text.includes("lease"))
    const ids = yield* offerSome(2)
    yield* start(settings)
    yield* pass(40)
    expect(service.seen.length).toBe(0)
    expect(warnings().length).toBe(1)
    slow = false
    yield* pass(20)
    expect(stored("musicclidaemon")).toEqual([...ids].sort())
    expect(warnings().length).toBe(1)
  })
})
