/** Leases, pauses and restarts of the workers, whatever they deliver; and retention, which runs beside them. */
import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Anonymous, type Deliveries, StoreUnavailable } from "../../../src/services/Store.ts"
import { NotExecuted, Refused, Unknown } from "../../../src/services/UpstreamFailure.ts"
import { makeSteppedClock } from "../../support/SteppedClock.ts"
import { openStore, sampleLease, sampleReport } from "../store/Stores.ts"
import { type Harness, makeHarness } from "./Harness.ts"

const hour = 3_600_000
const day = 24 * hour
const away = Effect.fail(new StoreUnavailable({ problem: { kind: "unreachable" } }))
const dependency = "tracker"
const hanging = {
  failure: new Unknown({ dependency, reason: "hangs" }),
  takes: Number.POSITIVE_INFINITY
}

const admit = ({ now, store }: Harness, count: number, change: Parameters<typeof sampleReport>[0] = {}) =>
  Effect.forEach(
    Array.from({ length: count }, (_, index) => `rep_${index}`),
    (id) => store.reports.admit(sampleReport({ id, keyDigest: id, createdAt: now(), ...change }), true)
  )

const states = ({ store }: Harness) =>
  Effect.map(store.deliveries.counts, (counts) =>
    Object.fromEntries(counts.map(({ count, state }) => [state, count]))
  )

/** Seconds between calls. */
const pausesOf = (times: ReadonlyArray<number>) =>
  times.slice(1).map((at, index) => (at - (times[index] ?? 0)) / 1_000)

const expectJittered = (pauses: ReadonlyArray<number>, expected: ReadonlyArray<number>) => {
  for (const [index, delay] of expected.entries()) {
    expect(pauses[index]).toBeGreaterThanOrEqual(delay * 0.8)
    expect(pauses[index]).toBeLessThanOrEqual(delay * 1.2)
  }
}

describe("Two processes", () => {
  it.scoped("send each report once, and one at a time together", function* () {
    const world = yield* makeHarness
    const { pass, path, start, tracker } = world
    yield* admit(world, 7)
    tracker.filing.always({ takes: 2_000 })
    yield* start("tracker", { store: yield* openStore(path) })
    yield* start("tracker", { store: yield* openStore(path) })
    yield* pass(17)
    expect(yield* states(world)).toEqual({ delivered: 7 })
    expect([tracker.sent.length, tracker.most]).toEqual([7, 1])
  })

  it.scoped("share a pause, also with one that starts later", function* () {
    const world = yield* makeHarness
    const { pass, path, start, tracker } = world
    const limit = new NotExecuted({ dependency, reason: "rate limit", retryAfterSeconds: 90 })
    tracker.filing.next({ failure: limit })
    yield* start("tracker", { store: yield* openStore(path) })
    yield* admit(world, 2)
    yield* pass(20)
    yield* start("tracker", { store: yield* openStore(path) })
    yield* pass(68)
    expect(tracker.sent.length).toBe(1)
    yield* pass(12)
    expect(yield* states(world)).toEqual({ delivered: 2, waiting: 1 })
  })

  it.scoped("of which one is slow: its late outcome is refused, and what it sent is found", function* () {
    const world = yield* makeHarness
    const { pass, path, start, store, tracker } = world
    yield* admit(world, 1)
    tracker.filing.next({ ...hanging, arrives: true })
    yield* start("tracker", { instead: { deliveries: () => ({ extend: () => away }) } })
    yield* start("tracker", { store: yield* openStore(path) })
    yield* pass(9)
    expect([tracker.interruptedAt, yield* states(world)]).toEqual([0, { leased: 1 }])
    yield* pass(30)
    expect(tracker.interruptedAt).toBeGreaterThan(0)
    expect([tracker.sent.length, yield* states(world)]).toEqual([1, { delivered: 1 }])
    expect(Option.getOrThrow(yield* store.reports.find("rep_0")).issue).toMatchObject({
      value: { number: 1 }
    })
  })
})

describe("A lease", () => {
  const failures: ReadonlyArray<readonly [string, Deliveries["extend"]]> = [
    ["fails", () => away],
    ["does not answer", () => Effect.never]
  ]
  for (const [name, extend] of failures)
    for (const by of [0, -hour, hour])
      it.scoped(`whose database ${name} ends the work, on a clock stepped by ${by} ms`, function* () {
        const world = yield* makeHarness
        const { now, pass, start, tracker } = world
        const { clock, step } = yield* makeSteppedClock
        yield* admit(world, 1)
        const from = now()
        tracker.filing.next(hanging)
        yield* Effect.withClock(start("tracker", { instead: { deliveries: () => ({ extend }) } }), clock)
        yield* pass(2)
        step(by)
        yield* pass(6)
        expect(tracker.interruptedAt).toBe(0)
        yield* pass(6)
        // The request keeps two seconds to end.
        expect(tracker.interruptedAt - from).toBeGreaterThan(10_000)
        expect(tracker.interruptedAt - from).toBeLessThanOrEqual(14_000)
      })

  it.scoped.each([0, -hour, hour])(
    "is extended for as long as the work takes: stepped by %i ms",
    function* (by) {
      const world = yield* makeHarness
      const { pass, start, tracker } = world
      const { clock, step } = yield* makeSteppedClock
      yield* admit(world, 1)
      let broken = false
      tracker.filing.next({ takes: 60_000 })
      const instead = {
        deliveries: ({ extend }: Deliveries) => ({
          extend: (...values: Parameters<typeof extend>) =>
            Effect.suspend(() => (broken ? away : extend(...values)))
        })
      }
      yield* Effect.withClock(start("tracker", { instead }), clock)
      yield* pass(2)
      step(by)
      // A failure of some seconds does not end it.
      broken = true
      yield* pass(7)
      broken = false
      yield* pass(52)
      expect([tracker.sent.length, tracker.interruptedAt, yield* states(world)]).toEqual([
        1,
        0,
        { delivered: 1 }
      ])
    }
  )

  it.scoped("that another process has taken ends the work", function* () {
    const world = yield* makeHarness
    const { now, pass, start, store, tracker } = world
    yield* admit(world, 1)
    tracker.filing.next(hanging)
    yield* start("tracker")
    yield* pass(1)
    yield* store.deliveries.lease(sampleLease({ now: now() + 11_000, owner: "other" }))
    yield* pass(6)
    expect(tracker.interruptedAt).toBeGreaterThan(0)
    expect(yield* states(world)).toEqual({ leased: 1 })
  })

  const steps = [
    ["ends", 0, false],
    ["is taken by another process on a clock stepped back", -hour, true],
    ["is taken by another process on a clock stepped ahead", hour, true]
  ] as const
  it.scoped.each(steps)("that %s before the send is committed sends nothing", function* ([, by, isTaken]) {
    const world = yield* makeHarness
    const { now, pass, start, store, tracker } = world
    const { clock, step } = yield* makeSteppedClock
    yield* admit(world, 1)
    const from = now()
    let slow = true
    const instead = {
      deliveries: ({ extend, update }: Deliveries): Partial<Deliveries> => ({
        extend: (...values) => Effect.suspend(() => (slow && !isTaken ? away : extend(...values))),
        update: (...values) =>
          values[2]._tag === "Sending" && slow
            ? Effect.zipLeft(update(...values), Effect.sleep(isTaken ? "2 seconds" : "11 seconds"))
            : update(...values)
      })
    }
    yield* Effect.withClock(start("tracker", { instead }), clock)
    yield* pass(1)
    const theirs = sampleLease({ now: now() + hour, leaseUntil: now() + hour + 10_000, owner: "other" })
    step(by)
    if (isTaken) expect(yield* store.deliveries.lease(theirs)).toHaveLength(1)
    yield* pass(9.9)
    expect(tracker.sent.length).toBe(0)
    slow = false
    yield* pass(isTaken ? 0 : 60)
    for (const { at } of tracker.sent) expect(at).toBeGreaterThanOrEqual(from + 11_000)
    expect(tracker.sent.length).toBe(isTaken ? 0 : 1)
  })
})

describe("A worker", () => {
  it.scoped("survives an outage of the database after the answer, and while it leases", function* () {
    const world = yield* makeHarness
    const { pass, start, tracker } = world
    yield* admit(world, 2)
    let left = 3
    let broken = false
    const times: Array<number> = []
    const instead = {
      deliveries: ({ lease, nextDueAt, update }: Deliveries): Partial<Deliveries> => ({
        lease: (request) =>
          Effect.suspend(() => {
            if (broken) times.push(world.now())
            return broken ? away : lease(request)
          }),
        nextDueAt: (...values) => Effect.suspend(() => (broken ? away : nextDueAt(...values))),
        update: (...values) =>
          Effect.suspend(() => (values[2]._tag === "Delivered" && left-- > 0 ? away : update(...values)))
      })
    }
    yield* start("tracker", { instead })
    yield* pass(6)
    expect([yield* states(world), tracker.issues.length]).toEqual([{ delivered: 2 }, 2])
    broken = true
    yield* world.store.reports.admit(sampleReport({ id: "rep_late", keyDigest: "late" }), true)
    yield* pass(40)
    expectJittered(pausesOf(times), [1, 2, 4, 5, 5])
    broken = false
    yield* pass(7)
    expect(yield* states(world)).toEqual({ delivered: 3 })
  })

  it.scoped("that breaks restarts after 1 to 30 s, and after 1 s when it had run for a minute", function* () {
    const world = yield* makeHarness
    const { now, pass, start } = world
    const times: Array<number> = []
    let works = false
    const instead = {
      deliveries: ({ lease }: Deliveries): Partial<Deliveries> => ({
        lease: (request) =>
          Effect.suspend(() => {
            if (!works) times.push(now())
            return works ? lease(request) : Effect.die("a mistake")
          })
      })
    }
    yield* start("tracker", { instead })
    yield* pass(100)
    expectJittered(pausesOf(times), [1, 2, 4, 8, 16, 30])
    works = true
    yield* pass(100)
    works = false
    const before = times.length
    yield* pass(20)
    expectJittered(pausesOf(times.slice(before)), [1, 2, 4])
  })

  it.scoped("continues after a defect of a delivery, and repeats that one after 5 minutes", function* () {
    const world = yield* makeHarness
    const { levels, now, pass, start, store, tracker } = world
    yield* admit(world, 2)
    yield* store.deliveries.discard("report:rep_0", now(), "retried with a search")
    yield* store.deliveries.retry("report:rep_0", now())
    tracker.searching.next({ defect: true })
    yield* start("tracker")
    yield* pass(2)
    expect(yield* states(world)).toEqual({ delivered: 1, unknown: 1 })
    const { availableAt } = Option.getOrThrow(yield* store.deliveries.find("report:rep_0"))
    expect(availableAt - now()).toBeGreaterThan(290_000)
    expect(levels("ERROR")).toBe(1)
    yield* pass(305)
    expect(yield* states(world)).toEqual({ delivered: 2 })
  })

  it.scoped(
    "sleeps until something falls due, and finds within 30 s what another process made due",
    function* () {
      const world = yield* makeHarness
      const { now, pass, path, start, store, tracker } = world
      yield* admit(world, 1)
      const [held] = yield* store.deliveries.lease(sampleLease({ now: now(), leaseUntil: now() + 2_000 }))
      if (held === undefined) return expect.fail("nothing was due")
      const availableAt = now() + 33_700
      yield* store.deliveries.update(held.id, held.fence, { _tag: "Waiting", availableAt, failure: "limit" })
      let leases = 0
      const own = yield* openStore(path)
      const instead = {
        deliveries: ({ lease }: Deliveries): Partial<Deliveries> => ({
          lease: (request) => {
            leases += 1
            return lease(request)
          }
        })
      }
      yield* start("tracker", { store: own, instead })
      yield* pass(33.699)
      expect(tracker.sent.length).toBe(0)
      expect(leases).toBeLessThanOrEqual(8)
      yield* pass(0.001)
      expect(yield* states(world)).toEqual({ delivered: 1 })
      // Its own commits only wake a process on SQLite.
      yield* store.reports.admit(sampleReport({ id: "rep_late", keyDigest: "late", createdAt: now() }), true)
      yield* pass(30)
      expect(yield* states(world)).toEqual({ delivered: 2 })
    }
  )

  it.scoped(
    "in a pause of ordinary ones begins others at once, and leases four times a second at most",
    function* () {
      const world = yield* makeHarness
      const { now, pass, start, store, tracker } = world
      const limits = { ordinaryHourlyWrites: 1 }
      let leases = 0
      const instead = {
        deliveries: ({ lease }: Deliveries): Partial<Deliveries> => ({
          lease: (request) => {
            leases += 1
            return lease(request)
          }
        })
      }
      yield* store.destinations.reserveWrite("tracker", { now: now(), spacing: 1_000, hourly: 450 })
      yield* start("tracker", { limits, instead })
      yield* pass(2)
      leases = 0
      for (let index = 0; index < 50; index += 1) {
        const id = `flood_${index}`
        const report = sampleReport({ id, keyDigest: id, reporter: Anonymous(), createdAt: now() })
        yield* store.reports.admit(report, true)
        yield* pass(0.02)
      }
      expect(leases).toBeGreaterThan(0)
      expect(leases).toBeLessThanOrEqual(5)
      yield* pass(20)
      expect(leases).toBeLessThanOrEqual(12)
      yield* admit(world, 1)
      yield* pass(0.5)
      expect([tracker.sent.length, yield* states(world)]).toEqual([1, { delivered: 1, waiting: 50 }])
    }
  )

  it.scoped("begins nothing in a pause that another process caused during its lease", function* () {
    const world = yield* makeHarness
    const { now, pass, start, store, tracker } = world
    yield* admit(world, 1)
    const pause = Effect.suspend(() =>
      store.destinations.failed("tracker", {
        now: now(),
        pausedUntil: now() + 20_000,
        stopped: false,
        failure: "rate limit"
      })
    )
    let leases = 0
    const instead = {
      deliveries: ({ lease }: Deliveries): Partial<Deliveries> => ({
        lease: (request) => {
          leases += 1
          return leases === 1 ? Effect.zipLeft(lease(request), pause) : lease(request)
        }
      })
    }
    yield* start("tracker", { instead })
    yield* pass(19)
    expect([tracker.sent.length, yield* states(world)]).toEqual([0, { waiting: 1 }])
    expect(Option.getOrThrow(yield* store.deliveries.find("report:rep_0")).attempts).toBe(0)
    yield* pass(2)
    expect(yield* states(world)).toEqual({ delivered: 1 })
  })

  it.scoped(
    "writes to the tracker once a second, 450 times in an hour, and 350 without priority",
    function* () {
      const world = yield* makeHarness
      const { pass, start, store } = world
      const paces: Array<object> = []
      yield* admit(world, 1, { reporter: Anonymous() })
      yield* start("tracker", {
        instead: {
          destinations: ({ reserveWrite, writesFullUntil }) => ({
            reserveWrite: (name, { hourly, now, spacing }) => {
              paces.push({ hourly, spacing })
              return reserveWrite(name, { hourly, now, spacing })
            },
            writesFullUntil: (name, pace) => {
              paces.push({ hourly: pace.hourly })
              return writesFullUntil(name, pace)
            }
          })
        }
      })
      yield* pass(1)
      expect(new Set(paces.map((pace) => JSON.stringify(pace)))).toEqual(
        new Set(['{"hourly":350}', '{"hourly":450,"spacing":1000}'])
      )
      expect((yield* store.destinations.find("tracker")).failures).toBe(0)
    }
  )

  it.scoped("warns of a stopped tracker once in all processes, and tells its recovery once", function* () {
    const world = yield* makeHarness
    const { levels, pass, path, start, tracker } = world
    yield* admit(world, 3)
    const refused = { failure: new Refused({ dependency, status: 401, code: "bad_credentials" }) }
    tracker.filing.next(refused, refused)
    for (let process = 0; process < 2; process += 1)
      yield* start("tracker", { store: yield* openStore(path) })
    yield* pass(640)
    expect([levels("ERROR"), levels("WARN"), yield* states(world)]).toEqual([
      1,
      0,
      { delivered: 3, waiting: 1 }
    ])
    expect(world.lines.filter(({ text }) => text.includes("available again")).length).toBe(1)
  })
})

describe("Retention", () => {
  const nouns = [
    "deliveries",
    "webhooks",
    "reports",
    "anonymousReports",
    "recipients",
    "loginOutcomes",
    "sessionDigests",
    "refusals"
  ] as const
  /** The bounds of each removal, in days, and what is removed of each kind. */
  const watch = (
    results: Partial<Record<(typeof nouns)[number], () => Effect.Effect<number, StoreUnavailable>>>
  ) => {
    const seen: Array<readonly [string, number]> = []
    const retention = () =>
      Object.fromEntries(
        nouns.map((name) => [
          name,
          (before: number) =>
            Effect.suspend(() => {
              seen.push([name, before / day])
              return results[name]?.() ?? Effect.succeed(0)
            })
        ])
      )
    return { seen, instead: { retention } }
  }
  const forEver = {
    reportsDays: 0,
    anonymousReportsDays: 0,
    webhooksDays: 0,
    deliveriesDays: 0,
    recipientsDays: 0
  }

  it.scoped(
    "follows the settings in days, 0 is for ever; login outcomes stay a day, refusals 30",
    function* () {
      const { now, pass, start } = yield* makeHarness
      const { instead, seen } = watch({})
      const retention = { ...forEver, anonymousReportsDays: 7, webhooksDays: 50, deliveriesDays: 33 }
      yield* start("neither", { instead, settings: { retention } })
      yield* pass(1_800)
      expect(seen.map(([name, before]) => [name, Math.floor(now() / day - before)])).toEqual([
        ["deliveries", 33],
        ["webhooks", 50],
        ["anonymousReports", 7],
        ["loginOutcomes", 1],
        ["sessionDigests", 0],
        ["refusals", 30]
      ])
    }
  )

  it.scoped("goes on with the other kinds when one fails, in small batches, once an hour", function* () {
    const { pass, start } = yield* makeHarness
    let left = 3
    const { instead, seen } = watch({
      deliveries: () => away,
      webhooks: () => Effect.die("a mistake"),
      refusals: () => Effect.sync(() => Math.max(0, --left))
    })
    const retention = { ...forEver, reportsDays: 1, recipientsDays: 1, webhooksDays: 1, deliveriesDays: 1 }
    yield* start("neither", { instead, settings: { retention } })
    const names = ["deliveries", "webhooks", "reports", "recipients", "loginOutcomes", "sessionDigests"]
    yield* pass(1_800)
    expect(seen.map(([name]) => name)).toEqual([...names, "refusals", "refusals", "refusals"])
    yield* pass(3_600)
    expect(seen.slice(9).map(([name]) => name)).toEqual([...names, "refusals"])
  })

  it.scoped("removes nothing while the clock is temporarily years ahead", function* () {
    const { now, pass, start } = yield* makeHarness
    const { clock, step } = yield* makeSteppedClock
    const { instead, seen } = watch({})
    const settings = { retention: { ...forEver, reportsDays: 30 } }
    yield* Effect.withClock(start("neither", { instead, settings }), clock)
    step(2_000 * day)
    yield* pass(300)
    step(-2_000 * day)
    yield* pass(7_200)
    expect(seen.length).toBeGreaterThan(0)
    for (const [, before] of seen) expect(before).toBeLessThan(now() / day + 1)
  })
})
