/** A report is filed once: what each outcome of the tracker leads to, and when. */
import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import { Effect, Option } from "effect"
import { markerOf } from "../../../src/services/text/IssueDraft.ts"
import { Anonymous, type StoredReport } from "../../../src/services/Store.ts"
import { SearchTooLong } from "../../../src/services/Tracker.ts"
import { NotExecuted, Refused, Unknown } from "../../../src/services/UpstreamFailure.ts"
import type { Around } from "../../world/Around.ts"
import { makeHarness, type Outcome } from "./Harness.ts"

const dependency = "tracker"
const refused = (status: number, code = "no"): Outcome => ({
  failure: new Refused({ dependency, status, code })
})
const lost: Outcome = { failure: new Unknown({ dependency, reason: "answer 502" }) }
const lostAfter: Outcome = { ...lost, arrives: true }
const unreachable: Outcome = { failure: new NotExecuted({ dependency, reason: "refused" }) }
const limited = (retryAfterSeconds: number): Outcome => ({
  failure: new NotExecuted({ dependency, reason: "rate limit", retryAfterSeconds })
})
const hanging: Outcome = { ...lost, takes: Number.POSITIVE_INFINITY }
const tooLong = { failure: new SearchTooLong({ reason: "more than 10,000 issues" }) }

/** Seconds since the report was stored. */
const times = (
  calls: ReadonlyArray<{ readonly at: number }>,
  { createdAt }: Pick<StoredReport, "createdAt">
) => calls.map(({ at }) => (at - createdAt) / 1_000)

describe("Reports", () => {
  it.scoped("are filed once each, at least a second apart, at once when they come", function* () {
    const { admit, admitSome, delivery, filed, levels, pass, start, tracker } = yield* makeHarness
    const early = yield* admitSome(3)
    const { health } = yield* start("tracker")
    yield* pass(4)
    const late = yield* admit()
    yield* pass(0)
    for (const [index, report] of [...early, late].entries()) {
      expect(yield* filed(report)).toBe(index + 1)
      expect(yield* delivery(report)).toMatchObject({ state: "delivered", attempts: 1 })
      expect(tracker.issues()[index]?.body?.endsWith(markerOf(report))).toBe(true)
    }
    expect(times(tracker.sent, late)).toEqual([-4, -3, -2, 0])
    expect([tracker.searches.length, yield* health]).toEqual([0, "ok"])
    expect(levels("ERROR") + levels("WARN")).toBe(0)
  })

  it.scoped("of a flood keep the pace of the hour; verified reporters and retries go first", function* () {
    const { admit, delivery, filed, jump, levels, now, pass, start, store, tracker } = yield* makeHarness
    /** Without each of the worker's looks in between. */
    const passHalfHour = Effect.suspend(() => {
      jump(1_790_000)
      return pass(10)
    })
    const flood = yield* Effect.replicateEffect(admit({ reporter: Anonymous() }), 7)
    const limits = { hourlyWrites: 4 }
    const first = yield* start("tracker", { limits })
    yield* pass(6)
    const [next, , retried] = flood.slice(4)
    if (next === undefined || retried === undefined) return expect.fail("seven reports were stored")
    // Its write is reserved already, and given back by the stop.
    expect(yield* delivery(next)).toMatchObject({ state: "leased", attempts: 0 })
    const verified = yield* admit()
    yield* pass(1)
    yield* store.deliveries.retry(`report:${retried.id}`, now())
    // Another process, in the same hour.
    yield* first.stop
    yield* start("tracker", { limits })
    yield* passHalfHour
    expect([tracker.issues().length, levels("WARN")]).toEqual([4, 2])
    yield* passHalfHour
    expect([yield* filed(verified), yield* filed(retried), yield* filed(next)]).toEqual([5, 6, 7])
  })

  it.scoped("that wait for the pace, and are discarded, are never filed", function* () {
    const { admit, delivery, filed, jump, levels, now, pass, start, store, tracker } = yield* makeHarness
    const [first, second] = [yield* admit(), yield* admit()]
    yield* start("tracker", { limits: { hourlyWrites: 1 } })
    yield* pass(2)
    expect([yield* filed(first), yield* delivery(second)]).toMatchObject([1, { state: "leased" }])
    expect(yield* store.deliveries.discard(`report:${second.id}`, now(), "spam")).toBe(true)
    const third = yield* admit()
    yield* pass(5)
    // The worker goes on with the next one, and the write of the hour is lost.
    expect(yield* delivery(third)).toMatchObject({ state: "leased" })
    for (const _ of [1, 2]) {
      jump(3_590_000)
      yield* pass(20)
    }
    expect([yield* filed(second), yield* filed(third), tracker.sent.length]).toEqual([undefined, 2, 2])
    expect([(yield* delivery(second)).state, levels("ERROR")]).toEqual(["discarded", 0])
  })

  it.scoped("take a write of the hour for each send, and for no search that another follows", function* () {
    const { admit, filed, pass, start, tracker } = yield* makeHarness
    const report = yield* admit()
    tracker.filing.next(lost, unreachable, lost)
    /** The number of sends before each. */
    const reserved: Array<number> = []
    const around: Around = (call, operation) => {
      if (operation === "destinations.reserveWrite") reserved.push(tracker.sent.length)
      return call
    }
    yield* start("tracker", { around })
    yield* pass(150)
    expect([yield* filed(report), reserved]).toEqual([1, [0, 1, 2, 3]])
    expect(times(tracker.searches, report).length).toBe(7)
  })
})

describe("After an outcome", () => {
  const unknown = { state: "unknown", attempts: 1, searches: 0 }
  const waiting = { state: "waiting", attempts: 1, lastFailure: Option.some("rate limit") }
  const failed = (failure: string) => ({ state: "failed", lastFailure: Option.some(`refused: ${failure}`) })
  const long = refused(422, "too_long")
  /** The state after a second, and seconds from the report to each send and to each search. */
  type Row = readonly [name: string, ReadonlyArray<Outcome>, first: object, sent: string, searched: string]
  const rows: ReadonlyArray<Row> = [
    ["that came after the issue was made, a search finds it", [lostAfter], unknown, "0", "5"],
    ["without an issue, a second one follows three searches", [lost], unknown, "0,40", "5,15,40"],
    ["of a limit, all wait as long as asked", [limited(90)], waiting, "0,90", ""],
    ["about the length, a shorter attempt follows", [long], { state: "delivered" }, "0,1", ""],
    ["about the length twice, it is final", [long, long], failed("422 too_long"), "0,1", ""],
    ...[400, 422].map(
      (status): Row => [`of ${status}, it is final`, [refused(status)], failed(`${status} no`), "0", ""]
    ),
    // It refuses the settings.
    ...[301, 401, 404].map(
      (status): Row => [`of ${status}, 5 minutes pass`, [refused(status)], { state: "waiting" }, "0,300", ""]
    )
  ]
  it.scoped.each(rows)("%s", function* ([, filing, first, sent, searched]) {
    const { admit, delivery, filed, issues, lines, pass, start, tracker } = yield* makeHarness
    const content = { message: "long ".repeat(3_000), pr: null, attachments: [], context: null }
    const report = yield* admit({ content })
    tracker.filing.next(...filing)
    const { health } = yield* start("tracker")
    yield* pass(1.5)
    expect(yield* delivery(report)).toMatchObject(first)
    const stops = sent === "0,300"
    expect(yield* health).toBe(stops ? "degraded" : "ok")
    yield* pass(stops ? 310 : 95)
    const seen = [tracker.sent, tracker.searches].map((calls) => times(calls, report).map(Math.floor).join())
    expect(seen).toEqual([sent, searched])
    const isFailed = "state" in first && first.state === "failed"
    const state = [(yield* delivery(report)).state, yield* health, yield* filed(report), issues().join()]
    expect(state).toEqual(isFailed ? ["failed", "ok", undefined, ""] : ["delivered", "ok", 1, "open 0"])
    const errors = lines.flatMap(({ level, text }) => (level === "ERROR" ? [text] : []))
    const says = stops
      ? '"advice":"correct MUSIC_GITHUB_TOKEN'
      : `"report":"${report.id}","failure":"refused: 4`
    expect(errors).toEqual(isFailed || stops ? [expect.stringContaining(says)] : [])
    expect(lines.filter(({ text }) => text.includes("unhandled"))).toEqual([])
    const [one = 0, other = 0] = tracker.sent.map(({ body }) => body.length)
    if (sent === "0,1") expect(one - other).toBeGreaterThan(6_000)
    // It stops no other report.
    const next = yield* admit()
    yield* pass(2)
    expect(yield* filed(next)).toBe(isFailed ? 1 : 2)
  })

  it.scoped("that is unknown, it stays so while searches fail, from the send on", function* () {
    const { admit, delivery, filed, pass, start, tracker } = yield* makeHarness
    const report = yield* admit()
    tracker.filing.next(lostAfter)
    tracker.searching.next(lost, lost, lost, lost)
    yield* start("tracker")
    yield* pass(20)
    expect(tracker.searches.length).toBeGreaterThanOrEqual(3)
    expect(tracker.searches[0]?.since).toBe(report.createdAt - 300_000)
    expect(yield* delivery(report)).toMatchObject({ state: "unknown", searches: 0 })
    yield* pass(60)
    expect([yield* filed(report), tracker.sent.length]).toEqual([1, 1])
  })

  it.scoped.each([
    ["are lost", lost],
    ["are refused", refused(422)],
    ["are limited for longer than any backoff", limited(750)]
  ] as const)("whose searches %s stops no other report", function* ([, outcome]) {
    const { admit, delivery, filed, pass, start, tracker } = yield* makeHarness
    const report = yield* admit()
    tracker.filing.next(lost)
    tracker.searching.always(outcome)
    yield* start("tracker")
    yield* pass(10)
    const others = [yield* admit(), yield* admit()]
    yield* pass(1_600)
    expect(yield* Effect.forEach(others, filed)).toEqual([1, 2])
    expect(yield* delivery(report)).toMatchObject({ state: "unknown", attempts: 1 })
    const failed = tracker.searches.length
    expect(failed).toBeLessThan(20)
    tracker.searching.always({})
    yield* pass(800)
    expect([yield* filed(report), tracker.sent.length]).toEqual([3, 4])
  })

  it.scoped("that is lost again and again, a search finds the issue of the first send", function* () {
    const { admit, filed, issues, pass, start, tracker } = yield* makeHarness
    const report = yield* admit()
    // The list shows it after more than the tolerance for clocks, when the last send is newer.
    tracker.setListLag(500)
    tracker.filing.always(lost)
    tracker.filing.next(lostAfter)
    yield* start("tracker")
    yield* pass(500)
    const sends = tracker.sent.length
    expect(sends).toBeGreaterThan(3)
    tracker.filing.always({})
    yield* pass(400)
    expect([yield* filed(report), tracker.sent.length, issues()]).toEqual([1, sends, ["open 0"]])
  })

  it.scoped("that is unknown, an operator's retry searches at once and sends no sooner", function* () {
    const { admit, now, pass, start, store, tracker } = yield* makeHarness
    const report = yield* admit()
    tracker.filing.next(lost)
    yield* start("tracker")
    yield* pass(2)
    yield* store.deliveries.retry(`report:${report.id}`, now())
    yield* pass(50)
    expect([tracker.sent, tracker.searches].map((calls) => times(calls, report).join())).toEqual([
      "0,40",
      "2,15,40"
    ])
  })

  it.scoped.each([
    ["never arrives", lost, "unknown", 40, 80],
    ["never leaves", unreachable, "waiting", 1, 200]
  ] as const)("that %s, attempts become rarer", function* ([, outcome, state, first, last]) {
    const { admit, delivery, pass, start, tracker } = yield* makeHarness
    const report = yield* admit()
    tracker.filing.always(outcome)
    yield* start("tracker")
    yield* pass(900)
    const at = times(tracker.sent, report)
    const pauses = at.slice(1).map((time, index) => time - (at[index] ?? 0))
    expect(pauses[0]).toBeGreaterThanOrEqual(first * 0.8)
    expect(pauses[0]).toBeLessThanOrEqual(first * 1.2 + 1)
    expect(Math.max(...pauses)).toBeGreaterThan(last)
    expect(Math.max(...pauses)).toBeLessThanOrEqual(721)
    expect((yield* delivery(report)).state).toBe(state)
  })

  it.scoped("that refuses the settings, a start ends the pause, also after a refused search", function* () {
    const { admit, filed, levels, pass, start, tracker } = yield* makeHarness
    const report = yield* admit()
    tracker.filing.next(refused(401), lostAfter)
    tracker.searching.next(refused(401))
    for (const sends of [1, 2]) {
      const { stop } = yield* start("tracker")
      yield* pass(20)
      yield* stop
      expect(tracker.sent.length).toBe(sends)
    }
    expect(yield* filed(report)).toBeUndefined()
    // A start says again that the settings are refused: its new token may be wrong, too.
    expect(levels("ERROR")).toBe(2)
    yield* start("tracker")
    yield* pass(10)
    expect(yield* filed(report)).toBe(1)
  })

  it.scoped("of a search beyond its limit, its own delivery fails and no other", function* () {
    const { admit, delivery, filed, levels, now, pass, start, store, tracker } = yield* makeHarness
    const report = yield* admit()
    tracker.filing.next(lostAfter)
    tracker.searching.next(tooLong, tooLong)
    const { health } = yield* start("tracker")
    yield* pass(7)
    const { lastFailure, state } = yield* delivery(report)
    expect([state, levels("ERROR"), yield* health]).toEqual(["failed", 1, "ok"])
    expect(Option.getOrThrow(lastFailure)).toMatch(/10,000 issues.*may be filed.*report-ref/)
    const next = yield* admit()
    yield* pass(2)
    expect(yield* filed(next)).toBe(2)
    // A retry searches again before it sends.
    yield* store.deliveries.retry(`report:${report.id}`, now())
    yield* pass(2)
    expect([(yield* delivery(report)).state, tracker.sent.length]).toEqual(["failed", 2])
  })
})

describe("The end of a process", () => {
  it.scoped("waits for a request in flight, and a while only", function* () {
    const { admit, delivery, filed, pass, start, tracker } = yield* makeHarness
    const report = yield* admit()
    tracker.filing.next({ takes: 1_500 }, hanging)
    const first = yield* start("tracker")
    yield* first.stop
    expect(yield* filed(report)).toBe(1)
    const second = yield* admit()
    const next = yield* start("tracker")
    yield* pass(1)
    yield* next.stop
    expect(yield* delivery(second)).toMatchObject({ state: "unknown", attempts: 1, searches: 0 })
  })

  it.scoped.each([
    ["before the request arrived", hanging, [10, 15, 40], 1],
    ["after it", { ...hanging, arrives: true }, [10], 0]
  ] as const)("by a kill %s, the issue is filed exactly once", function* ([, outcome, searched, sends]) {
    const { admit, delivery, filed, issues, pass, start, tracker } = yield* makeHarness
    const report = yield* admit()
    tracker.filing.next(outcome)
    const process = yield* start("tracker")
    yield* process.kill
    expect((yield* delivery(report)).state).toBe("leased")
    tracker.sent.splice(0)
    yield* start("tracker")
    yield* pass(70)
    // Its lease ends first.
    expect([times(tracker.searches, report), tracker.sent.length]).toEqual([searched, sends])
    expect([yield* filed(report), issues()]).toEqual([1, ["open 0"]])
  })
})

describe("The search for duplicates", () => {
  const twice = Effect.gen(function* () {
    const world = yield* makeHarness
    const { admit, filed, find, pass, start, tracker } = world
    const report = yield* admit()
    tracker.filing.next(lost)
    const { health } = yield* start("tracker", { limits: { sweepDelay: 100_000 } })
    yield* pass(45)
    expect(yield* filed(report)).toBe(1)
    const sweep = find(`sweep:${report.id}`)
    const copy = () => tracker.add(markerOf(report))
    return { ...world, health, report, sweep, copy }
  })

  it.scoped("leaves one open issue when the list hid the first one, also after a restart", function* () {
    const { admit, filed, issues, pass, start, tracker } = yield* makeHarness
    const report = yield* admit()
    tracker.setListLag(120)
    tracker.filing.next(lostAfter)
    const limits = { sweepDelay: 150_000 }
    const process = yield* start("tracker", { limits })
    yield* pass(45)
    expect([yield* filed(report), issues()]).toEqual([2, ["open 0", "open 0"]])
    yield* process.stop
    yield* start("tracker", { limits })
    yield* pass(140)
    expect(issues()).toEqual(["open 0", "open 0"])
    yield* pass(15)
    expect([yield* filed(report), issues()]).toEqual([1, ["open 0", "closed 1"]])
  })

  const [locked, denied] = [refused(403), refused(401)]
  /** How closing issues 2 and 3 ends, the first time; the state of the search, the issues and the health. */
  type Row = readonly [
    name: string,
    Readonly<Record<number, Outcome>>,
    state: string,
    issues: string,
    health: string
  ]
  const outcomes: ReadonlyArray<Row> = [
    ["a lost closing is repeated", { 3: lost }, "delivered", "open 0,closed 1,closed 1", "ok"],
    ["a refused closing (403) is listed", { 2: locked }, "failed", "open 0,open 0,open 0", "ok"],
    ["a refused token stops", { 2: denied, 3: denied }, "waiting", "open 0,open 0,open 0", "degraded"]
  ]
  it.scoped.each(outcomes)("%s", function* ([, closings, state, expected, expectedHealth]) {
    const { copy, health, issues, now, pass, report, store, sweep, tracker } = yield* twice
    copy()
    copy()
    const seen = new Set<number>()
    tracker.closing = (number) => {
      const isFirst = !seen.has(number)
      seen.add(number)
      return isFirst ? closings[number]?.failure : undefined
    }
    yield* pass(115)
    const { lastFailure, ...found } = yield* sweep
    expect([found.state, issues().join(), yield* health]).toEqual([state, expected, expectedHealth])
    if (state === "delivered") return
    if (state === "failed") expect(Option.getOrThrow(lastFailure)).toMatch(/#2.*403/)
    // After the repair, by an operator's retry or by itself.
    tracker.closing = () => undefined
    yield* store.deliveries.retry(`sweep:${report.id}`, now())
    yield* pass(state === "failed" ? 20 : 320)
    expect([(yield* sweep).state, issues()]).toEqual(["delivered", ["open 0", "closed 1", "closed 1"]])
  })

  it.scoped.each([
    ["through too many issues fails only its own delivery", tooLong, "failed", "ok"],
    ["that is refused with 422 fails only its own delivery", refused(422), "failed", "ok"],
    ["that is refused with 404 stops the destination", refused(404), "waiting", "degraded"]
  ] as const)("%s", function* ([, outcome, state, expected]) {
    const { health, levels, pass, sweep, tracker } = yield* twice
    tracker.searching.next(outcome)
    yield* pass(115)
    expect([(yield* sweep).state, levels("ERROR"), yield* health]).toEqual([state, 1, expected])
    yield* pass(state === "failed" ? 20 : 320)
    expect((yield* sweep).state).toBe(state === "failed" ? "failed" : "delivered")
  })
})
