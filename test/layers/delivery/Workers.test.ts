/** Leases, pauses and restarts of the workers, whatever they deliver; and retention, which runs beside them. */
import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import { Effect, Option } from "effect"
import { StoreUnavailable } from "../../../src/services/Store.ts"
import { Unknown } from "../../../src/services/UpstreamFailure.ts"
import type { Around } from "../../world/Around.ts"
import { makeSteppedClock } from "../../world/Time.ts"
import { sampleLease } from "../store/Samples.ts"
import { day, hour, makeHarness } from "./Harness.ts"

const away = Effect.fail(new StoreUnavailable({ kind: "unanswered" }))
const dependency = "tracker"
const hanging = { failure: new Unknown({ dependency, reason: "hangs" }), takes: Number.POSITIVE_INFINITY }

/** Extensions of a lease end so, except for the first, which is right before the send. */
const extending = (end: Effect.Effect<never, StoreUnavailable>): Around => {
  let isFirst = true
  return (call, operation) => {
    if (operation !== "deliveries.extend") return call
    if (!isFirst) return end
    isFirst = false
    return call
  }
}

/** Whether the call records this outcome of a delivery. */
const records = (outcome: string, operation: string, values: ReadonlyArray<unknown>) =>
  operation === "deliveries.update" && Reflect.get(Object(values[1]), "_tag") === outcome

describe("Two processes", () => {
  it.scoped("send each report once, and one at a time together", function* () {
    const { admitSome, pass, start, states, tracker } = yield* makeHarness
    yield* admitSome(7)
    tracker.filing.always({ takes: 2_000 })
    yield* start("tracker", { alone: true })
    yield* start("tracker", { alone: true })
    yield* pass(17)
    expect([tracker.sent.length, tracker.most, yield* states]).toEqual([7, 1, { delivered: 7 }])
  })

  it.scoped("of which one is slow: its late outcome is refused, and what it sent is found", function* () {
    const { admit, filed, pass, start, states, tracker } = yield* makeHarness
    const report = yield* admit()
    tracker.filing.next({ ...hanging, arrives: true })
    yield* start("tracker", { around: extending(away) })
    yield* start("tracker", { alone: true })
    yield* pass(9)
    expect([tracker.interruptedAt, yield* states]).toEqual([0, { leased: 1 }])
    yield* pass(30)
    expect(tracker.interruptedAt).toBeGreaterThan(0)
    expect([tracker.sent.length, yield* states, yield* filed(report)]).toEqual([1, { delivered: 1 }, 1])
  })
})

describe("A lease", () => {
  const rows = [
    ["fails", away, -hour],
    ["does not answer", Effect.never, hour]
  ] as const
  it.scoped.each(rows)("whose database %s ends the work, also on a stepped clock", function* ([, end, by]) {
    const { admit, now, pass, start, tracker } = yield* makeHarness
    const { clock, step } = yield* makeSteppedClock
    yield* admit()
    const from = now()
    tracker.filing.next(hanging)
    yield* Effect.withClock(start("tracker", { around: extending(end) }), clock)
    yield* pass(2)
    step(by)
    yield* pass(6)
    expect(tracker.interruptedAt).toBe(0)
    yield* pass(6)
    // The request keeps two seconds to end.
    expect(tracker.interruptedAt - from).toBeGreaterThan(10_000)
    expect(tracker.interruptedAt - from).toBeLessThanOrEqual(14_000)
  })

  it.scoped.each([-hour, hour])("is extended while the work takes: stepped by %i ms", function* (by) {
    const { admit, pass, start, states, tracker } = yield* makeHarness
    const { clock, step } = yield* makeSteppedClock
    yield* admit()
    let broken = false
    tracker.filing.next({ takes: 60_000 })
    const around: Around = (call, operation) => (broken && operation === "deliveries.extend" ? away : call)
    yield* Effect.withClock(start("tracker", { around }), clock)
    yield* pass(2)
    step(by)
    // A failure of some seconds does not end it.
    broken = true
    yield* pass(7)
    broken = false
    yield* pass(52)
    expect([tracker.sent.length, tracker.interruptedAt, yield* states]).toEqual([1, 0, { delivered: 1 }])
  })

  it.scoped.each([
    ["ends", false],
    ["is taken by a process whose clock is ahead", true]
  ] as const)("that %s before the send is committed sends nothing", function* ([, isTaken]) {
    const { admit, now, pass, start, store, tracker } = yield* makeHarness
    yield* admit()
    const from = now()
    let slow = true
    const around: Around = (call, operation, values) => {
      if (operation === "deliveries.extend") return slow && !isTaken ? away : call
      if (!slow || !records("Sending", operation, values)) return call
      return Effect.zipLeft(call, Effect.sleep(isTaken ? "2 seconds" : "11 seconds"))
    }
    yield* start("tracker", { around })
    yield* pass(1)
    const theirs = sampleLease({ now: now() + hour, leaseUntil: now() + hour + 10_000 })
    if (isTaken) expect(Option.isSome(yield* store.deliveries.lease(theirs))).toBe(true)
    yield* pass(9.9)
    expect(tracker.sent.length).toBe(0)
    slow = false
    yield* pass(isTaken ? 0 : 60)
    for (const { at } of tracker.sent) expect(at).toBeGreaterThanOrEqual(from + 11_000)
    expect(tracker.sent.length).toBe(isTaken ? 0 : 1)
  })
})

describe("A worker", () => {
  it.scoped("survives an outage of the database after the answer, and failures of a lease", function* () {
    const { admit, admitSome, lines, now, pass, start, states, tracker } = yield* makeHarness
    yield* admitSome(2)
    let left = 3
    let broken = false
    const times: Array<number> = []
    const around: Around = (call, operation, values) => {
      if (records("Delivered", operation, values) && left-- > 0) return away
      if (!broken) return call
      if (operation !== "deliveries.lease") return call
      times.push(now())
      return times.length % 2 === 0 ? away : Effect.die("a mistake")
    }
    yield* start("tracker", { around })
    yield* pass(6)
    expect([yield* states, tracker.issues().length]).toEqual([{ delivered: 2 }, 2])
    broken = true
    yield* admit()
    yield* pass(40)
    // With a jitter of a fifth.
    for (const [index, delay] of [1, 2, 4, 5, 5].entries()) {
      const pause = ((times[index + 1] ?? 0) - (times[index] ?? 0)) / 1_000
      expect(Math.abs(pause - delay)).toBeLessThanOrEqual(delay * 0.2)
    }
    broken = false
    yield* pass(7)
    expect(yield* states).toEqual({ delivered: 3 })
    const said = lines.filter(({ level, text }) => level !== "DEBUG" && text.includes("database"))
    expect(said.map(({ text }) => text).join()).toMatch(/waiting for the database.*answers again/s)
  })

  it.scoped("continues after a defect of a delivery, and repeats that one after 5 minutes", function* () {
    const { admit, delivery, levels, now, pass, start, states, store, tracker } = yield* makeHarness
    const report = yield* admit()
    yield* admit()
    yield* store.deliveries.discard(`report:${report.id}`, now(), "retried with a search")
    yield* store.deliveries.retry(`report:${report.id}`, now())
    tracker.searching.next({ defect: true })
    yield* start("tracker")
    yield* pass(2)
    expect([yield* states, levels("ERROR")]).toEqual([{ delivered: 1, unknown: 1 }, 1])
    expect((yield* delivery(report)).availableAt - now()).toBeGreaterThan(290_000)
    yield* pass(305)
    expect(yield* states).toEqual({ delivered: 2 })
  })

  it.scoped("says with a delivery that the database failed", function* () {
    const { admit, delivery, pass, start } = yield* makeHarness
    const report = yield* admit()
    const around: Around = (call, operation) => (operation === "destinations.reserveWrite" ? away : call)
    yield* start("tracker", { around })
    yield* pass(2)
    expect((yield* delivery(report)).lastFailure).toEqual(Option.some("The database does not answer"))
  })

  it.scoped("is not stopped by the pause and the write of a clock that was days ahead", function* () {
    const { admit, filed, now, pass, start, store } = yield* makeHarness
    const ahead = now() + 3 * day
    yield* store.destinations.reserveWrite("tracker", { now: ahead, spacing: 1_000, hourly: 450 })
    const failure = { pausedUntil: ahead, stopped: false, failure: "limit" }
    yield* store.destinations.failed("tracker", failure)
    const report = yield* admit()
    yield* start("tracker")
    yield* pass(2)
    expect(yield* filed(report)).toBe(1)
  })

  it.scoped("finds what falls due, and what others made due", function* () {
    const { admit, now, pass, start, states, store, tracker } = yield* makeHarness
    yield* admit()
    const lease = store.deliveries.lease(sampleLease({ now: now(), leaseUntil: now() + 2_000 }))
    const held = Option.getOrThrow(yield* lease)
    const availableAt = now() + 33_700
    yield* store.deliveries.update(held, { _tag: "Waiting", availableAt, failure: "limit" })
    yield* start("tracker", { alone: true })
    yield* pass(33.699)
    expect(tracker.sent.length).toBe(0)
    yield* pass(1)
    expect(yield* states).toEqual({ delivered: 1 })
    // Its own commits only wake a process on SQLite.
    yield* admit()
    yield* pass(2)
    expect(yield* states).toEqual({ delivered: 2 })
  })
})

describe("Retention", () => {
  /** The bounds of each removal, in days, and what is removed of each kind. */
  const watch = (results: Readonly<Record<string, () => Effect.Effect<number, StoreUnavailable>>> = {}) => {
    const seen: Array<readonly [string, number]> = []
    const around: Around = (call, operation, [before]) => {
      const [noun, name = ""] = operation.split(".")
      // Telemetry has a round of its own.
      if (noun !== "retention" || name === "telemetry" || name === "deliveredIds") return call
      seen.push([name, Number(before) / day])
      return results[name]?.() ?? Effect.succeed(0)
    }
    return { seen, around }
  }

  it.scoped("follows the settings in days, once an hour; a failure of one kind stops no other", function* () {
    const { now, pass, start } = yield* makeHarness
    let left = 3
    const { around, seen } = watch({
      deliveries: () => away,
      webhooks: () => Effect.die("a mistake"),
      refusals: () => Effect.sync(() => Math.max(0, --left))
    })
    const retention = { reportsDays: 0, anonymousReportsDays: 7 }
    yield* start("neither", { around, settings: { retention } })
    yield* pass(1_800)
    const ages = () => seen.map(([name, before]) => [name, Math.floor(now() / day - before)])
    const reports = { deliveries: 30, webhooks: 46, anonymousReports: 7 }
    const rest = { recipients: 90, loginOutcomes: 1, refusals: 30 }
    const [first, last] = [Object.entries({ ...reports, ...rest }), ["sessionDigests", 0]]
    expect(ages()).toEqual([...first, ["refusals", 30], ["refusals", 30], last])
    seen.length = 0
    yield* pass(3_600)
    expect(ages()).toEqual([...first, last])
  })

  it.scoped("removes nothing in a round before which the clock was stepped by more than a day", function* () {
    const { now, pass, start } = yield* makeHarness
    const { clock, step } = yield* makeSteppedClock
    const { around, seen } = watch()
    const settings = { retention: { reportsDays: 30, anonymousReportsDays: 0 } }
    yield* Effect.withClock(start("neither", { around, settings }), clock)
    step(23 * hour)
    yield* pass(1_800)
    expect(seen.some(([name]) => name === "reports")).toBe(true)
    for (const by of [2 * day, -2 * day]) {
      seen.length = 0
      step(by)
      yield* pass(3_600)
      expect(seen).toEqual([])
    }
    yield* pass(3_600)
    for (const [, before] of seen) expect(before).toBeLessThan(now() / day + 1)
    expect(seen.length).toBeGreaterThan(0)
  })
})
