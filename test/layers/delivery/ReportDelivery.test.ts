/** A report is filed once: what each outcome of the tracker leads to, and when. */
import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { markerOf } from "../../../src/services/IssueDraft.ts"
import { Anonymous, type Reporter, Verified } from "../../../src/services/Store.ts"
import { SearchTooLong } from "../../../src/services/Tracker.ts"
import { NotExecuted, Refused, Unknown } from "../../../src/services/UpstreamFailure.ts"
import { sampleLease, sampleReport } from "../store/Stores.ts"
import { makeHarness, type Outcome } from "./Harness.ts"

const day = 86_400_000
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

const makeWorld = Effect.gen(function* () {
  const harness = yield* makeHarness
  const { now, store, tracker } = harness
  let reports = 0
  const admit = (message = "Playback stops after a seek.", reporter: Reporter = Anonymous()) =>
    Effect.gen(function* () {
      reports += 1
      const id = `rep_${String(reports).padStart(32, "0")}`
      const content = { message, pr: null, attachments: [], context: null }
      const report = sampleReport({ id, keyDigest: id, reporter, content, createdAt: now() })
      yield* store.reports.admit(report, true)
      return report
    })
  type Report = Effect.Effect.Success<ReturnType<typeof admit>>
  const find = (id: string) => Effect.map(store.deliveries.find(id), Option.getOrThrow)
  const delivery = ({ id }: Report) => find(`report:${id}`)
  const filed = ({ id }: Report) =>
    Effect.map(store.reports.find(id), (found) =>
      Option.getOrUndefined(
        Option.map(
          Option.flatMap(found, ({ issue }) => issue),
          ({ number }) => number
        )
      )
    )
  /** Seconds since the report was stored. */
  const times = (calls: ReadonlyArray<{ readonly at: number }>, { createdAt }: Report) =>
    calls.map(({ at }) => (at - createdAt) / 1_000)
  const issues = () => tracker.issues.map(({ comments, open }) => `${open ? "open" : "closed"} ${comments}`)
  return { ...harness, admit, find, delivery, filed, times, issues }
})

describe("Reports", () => {
  it.scoped("are filed once each, at least a second apart, at once when they come", function* () {
    const { admit, delivery, filed, levels, pass, start, times, tracker } = yield* makeWorld
    const early = [yield* admit(), yield* admit(), yield* admit()]
    const { checks } = yield* start("tracker")
    yield* pass(4)
    const late = yield* admit("A very private sentence.")
    yield* pass(0)
    for (const [index, report] of [...early, late].entries()) {
      expect(yield* filed(report)).toBe(index + 1)
      expect(yield* delivery(report)).toMatchObject({ state: "delivered", attempts: 1 })
      expect(tracker.issues[index]?.body.endsWith(markerOf(report))).toBe(true)
    }
    expect(times(tracker.sent, late)).toEqual([-4, -3, -2, 0])
    expect(tracker.searches).toEqual([])
    expect(yield* checks).toEqual({ tables: "off", tracker: "ok" })
    expect(levels("ERROR") + levels("WARN")).toBe(0)
  })

  it.scoped(
    "of a flood leave verified reporters and an operator's retries their part of the hour",
    function* () {
      const { admit, delivery, filed, now, pass, setTime, start, store, tracker } = yield* makeWorld
      /** Without each of the worker's looks in between. */
      const passHalfHour = Effect.zipRight(
        Effect.suspend(() => setTime(now() + 1_790_000)),
        pass(10)
      )
      const flood = yield* Effect.replicateEffect(admit(), 7)
      const limits = { hourlyWrites: 6, ordinaryHourlyWrites: 3 }
      const first = yield* start("tracker", { limits })
      yield* pass(6)
      expect(tracker.issues.length).toBe(3)
      // It waits without a lease, so nothing waits behind it.
      for (const report of flood.slice(3)) expect((yield* delivery(report)).state).toBe("waiting")
      const reporter = Verified({ publicId: "c:ana" })
      const verified = yield* admit("The verified one.", reporter)
      yield* pass(2)
      expect(yield* filed(verified)).toBe(4)
      // Another process, in the middle of the hour.
      yield* first.stop
      yield* start("tracker", { limits })
      yield* passHalfHour
      expect(tracker.issues.length).toBe(4)
      const [, , , , retried] = flood
      if (retried === undefined) return expect.fail("seven reports were stored")
      yield* store.deliveries.retry(`report:${retried.id}`, now())
      const second = yield* admit("The second one.", reporter)
      yield* pass(6)
      expect([yield* filed(retried), yield* filed(second)]).toEqual([5, 6])
      // Two of the six writes lie within the hour then, so one more begins.
      yield* passHalfHour
      expect(tracker.issues.length).toBe(7)
      yield* passHalfHour
      expect(tracker.issues.length).toBe(9)
    }
  )
})

describe("After an outcome", () => {
  interface Row {
    readonly name: string
    readonly filing: ReadonlyArray<Outcome>
    readonly searching?: ReadonlyArray<Outcome>
    readonly lag?: number
    /** After a second. */
    readonly first: object
    /** Seconds from the report to each send and to each search. */
    readonly sent: ReadonlyArray<number>
    readonly searched: ReadonlyArray<number>
    readonly state: string
  }
  const unknown = { state: "unknown", attempts: 1, searches: 0 }
  const rows: ReadonlyArray<Row> = [
    {
      name: "that came after the issue was made, a search finds it",
      filing: [lostAfter],
      first: unknown,
      sent: [0],
      searched: [5],
      state: "delivered"
    },
    {
      name: "without an issue, three clean searches lead to a second attempt",
      filing: [lost],
      first: unknown,
      sent: [0, 40],
      searched: [5, 15, 40],
      state: "delivered"
    },
    {
      name: "that the list shows late, a later search finds the issue",
      filing: [lostAfter],
      lag: 20_000,
      first: unknown,
      sent: [0],
      searched: [5, 15, 40],
      state: "delivered"
    },
    {
      name: "of a limit, all waits for as long as the tracker asks, and one search comes first",
      filing: [limited(90)],
      first: { state: "waiting", attempts: 1, lastFailure: Option.some("rate limit") },
      sent: [0, 90],
      searched: [90],
      state: "delivered"
    },
    {
      name: "about the length, a shorter attempt follows",
      filing: [refused(422, "too_long")],
      first: { state: "delivered" },
      sent: [0, 1],
      searched: [0],
      state: "delivered"
    },
    {
      name: "about the length twice, it is final",
      filing: [refused(422, "too_long"), refused(422, "too_long")],
      first: { state: "failed", lastFailure: Option.some("refused: 422 too_long") },
      sent: [0, 1],
      searched: [0],
      state: "failed"
    },
    ...[400, 422, 451].map((status) => ({
      name: `of ${status}, it is final`,
      filing: [refused(status)],
      first: { state: "failed", lastFailure: Option.some(`refused: ${status} no`) },
      sent: [0],
      searched: [],
      state: "failed"
    })),
    ...[301, 307, 401, 403, 404, 410].map((status) => ({
      name: `of ${status}, which refuses the settings, the next attempt comes after 5 minutes`,
      filing: [refused(status)],
      first: { state: "waiting" },
      sent: [0, 300],
      searched: [300],
      state: "delivered"
    }))
  ]
  it.scoped.each(rows)("$name", function* ({ filing, first, lag = 0, searched, sent, state }) {
    const { admit, delivery, filed, issues, levels, pass, start, times, tracker } = yield* makeWorld
    // The next report shows whether this one stops the others.
    const report = yield* admit("long ".repeat(3_000))
    tracker.filing.next(...filing)
    tracker.lag = lag
    const { checks } = yield* start("tracker")
    yield* pass(1.5)
    expect(yield* delivery(report)).toMatchObject(first)
    const stops = sent[1] === 300
    expect(yield* checks).toEqual({ tables: "off", tracker: stops ? "degraded" : "ok" })
    yield* pass(310)
    expect(times(tracker.sent, report)).toEqual(sent)
    expect(times(tracker.searches, report)).toEqual(searched)
    expect((yield* delivery(report)).state).toBe(state)
    expect(yield* checks).toEqual({ tables: "off", tracker: "ok" })
    expect(levels("ERROR")).toBe(state === "failed" || stops ? 1 : 0)
    const isFiled = state === "delivered"
    expect([yield* filed(report), issues()]).toEqual(isFiled ? [1, ["open 0"]] : [undefined, []])
    const [one = 0, other = 0] = tracker.sent.map(({ draft }) => draft.body.length)
    expect(one).toBeGreaterThan(14_000)
    if (sent[1] === 1) expect(other).toBeLessThan(8_000)
    const next = yield* admit()
    yield* pass(2)
    expect(yield* filed(next)).toBe(isFiled ? 2 : 1)
  })

  it.scoped(
    "that is unknown, it stays so while searches fail, and is searched from the send on",
    function* () {
      const { admit, delivery, filed, pass, start, tracker } = yield* makeWorld
      const report = yield* admit()
      tracker.filing.next(lostAfter)
      tracker.searching.next(lost, lost, lost, lost)
      yield* start("tracker")
      yield* pass(20)
      expect(tracker.searches.length).toBeGreaterThanOrEqual(3)
      expect(tracker.searches[0]?.since).toBe(report.createdAt - 300_000)
      expect(yield* delivery(report)).toMatchObject({ state: "unknown", searches: 0 })
      yield* pass(60)
      expect(yield* filed(report)).toBe(1)
      expect(tracker.sent.length).toBe(1)
    }
  )

  it.scoped.each([
    ["never arrives", lost, "unknown", 40, 80],
    ["never leaves", unreachable, "waiting", 1, 200]
  ] as const)("that %s, attempts become rarer", function* ([, outcome, state, first, last]) {
    const { admit, delivery, pass, start, times, tracker } = yield* makeWorld
    const report = yield* admit()
    tracker.filing.always(outcome)
    yield* start("tracker")
    yield* pass(1_800)
    const at = times(tracker.sent, report)
    const pauses = at.slice(1).map((time, index) => time - (at[index] ?? 0))
    expect(pauses[0]).toBeGreaterThanOrEqual(first * 0.8)
    expect(pauses[0]).toBeLessThanOrEqual(first * 1.2 + 1)
    expect(Math.max(...pauses)).toBeGreaterThan(last)
    expect(Math.max(...pauses)).toBeLessThanOrEqual(721)
    expect((yield* delivery(report)).state).toBe(state)
  })

  it.scoped("that refuses writes, the destination stays stopped although searches succeed", function* () {
    const { admit, filed, levels, pass, start, tracker } = yield* makeWorld
    const report = yield* admit()
    tracker.filing.always(refused(403))
    const { checks } = yield* start("tracker")
    yield* pass(1_000)
    expect(tracker.sent.length).toBe(4)
    expect(tracker.searches.length).toBe(3)
    expect(levels("ERROR")).toBe(1)
    expect(yield* checks).toEqual({ tables: "off", tracker: "degraded" })
    expect(yield* filed(report)).toBeUndefined()
  })

  it.scoped("that refuses the settings, a start ends the pause, also after a refused search", function* () {
    const { admit, filed, pass, start, tracker } = yield* makeWorld
    const report = yield* admit()
    tracker.filing.next(refused(401))
    const before = yield* start("tracker")
    yield* pass(20)
    yield* before.stop
    // It was sent, so it is searched first, and that is refused, too.
    tracker.searching.next(refused(401))
    const between = yield* start("tracker")
    yield* pass(20)
    yield* between.stop
    expect(yield* filed(report)).toBeUndefined()
    yield* start("tracker")
    yield* pass(10)
    expect(yield* filed(report)).toBe(1)
  })

  it.scoped(
    "that refuses the settings, an operator's retry ends the pause within 30 s; not that of a limit",
    function* () {
      const { admit, filed, now, pass, start, store, tracker } = yield* makeWorld
      const report = yield* admit()
      const retry = Effect.suspend(() =>
        Effect.zipRight(
          store.deliveries.retry(`report:${report.id}`, now()),
          store.destinations.resumeTracker(now())
        )
      )
      tracker.filing.next(limited(90), refused(401))
      yield* start("tracker")
      yield* pass(5)
      yield* retry
      yield* pass(60)
      expect(tracker.sent.length).toBe(1)
      yield* pass(60)
      expect(tracker.sent.length).toBe(2)
      yield* retry
      yield* pass(31)
      expect(yield* filed(report)).toBe(1)
    }
  )
})

describe("An issue of another account with the marker", () => {
  it.scoped("counts as the report's after all searches; the search for duplicates follows", function* () {
    const { admit, delivery, filed, find, levels, pass, start, tracker } = yield* makeWorld
    const report = yield* admit()
    tracker.filing.next(lost)
    yield* start("tracker")
    tracker.add(markerOf(report), false)
    yield* pass(20)
    expect(yield* delivery(report)).toMatchObject({ state: "unknown", searches: 2 })
    yield* pass(50)
    expect([yield* filed(report), tracker.sent.length, levels("WARN")]).toEqual([1, 1, 2])
    const sweep = yield* find(`sweep:${report.id}`)
    expect([sweep.state, sweep.availableAt]).toEqual(["waiting", report.createdAt + 40_000 + 3_600_000])
  })

  it.scoped("yields to one of the own account, which the list shows later", function* () {
    const { admit, filed, issues, pass, start, tracker } = yield* makeWorld
    const report = yield* admit()
    tracker.add(markerOf(report), false)
    tracker.filing.next(lostAfter)
    tracker.lag = 20_000
    yield* start("tracker")
    yield* pass(20)
    expect(yield* filed(report)).toBeUndefined()
    yield* pass(30)
    expect([yield* filed(report), tracker.sent.length]).toEqual([2, 1])
    expect(issues()).toEqual(["open 0", "open 0"])
  })
})

describe("The end of a process", () => {
  it.scoped("waits for a request in flight, and a while only", function* () {
    const { admit, delivery, filed, pass, start, tracker } = yield* makeWorld
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

  it.scoped("during a search leaves the delivery as it was", function* () {
    const { admit, delivery, pass, start, tracker } = yield* makeWorld
    const report = yield* admit()
    tracker.filing.next(lost)
    const { stop } = yield* start("tracker")
    yield* pass(1)
    const before = yield* delivery(report)
    tracker.searching.next(hanging)
    yield* pass(5)
    yield* stop
    expect(tracker.searches.length).toBe(1)
    expect(yield* delivery(report)).toEqual({ ...before, fence: 2 })
  })

  it.scoped.each([
    ["before the request arrived", hanging, 0, [15, 25, 50], 0],
    ["after it", { ...hanging, arrives: true }, 0, [15], 0],
    ["before it, on a clock a day ahead", hanging, day, [16, 26, 51], 1_000],
    ["after it, on a clock a day ahead", { ...hanging, arrives: true }, day, [16], 1_000]
  ] as const)(
    "by a kill %s, the issue is filed exactly once",
    function* ([, outcome, ahead, searched, before]) {
      const { admit, delivery, filed, issues, now, pass, setTime, start, times, tracker } = yield* makeWorld
      const report = yield* admit()
      yield* setTime(now() + before + ahead)
      tracker.filing.next(outcome)
      const process = yield* start("tracker")
      yield* process.kill
      yield* setTime(now() - ahead)
      expect((yield* delivery(report)).state).toBe("leased")
      if (ahead > 0) for (const issue of tracker.issues) Object.assign(issue, { at: now() })
      tracker.sent.splice(0)
      yield* start("tracker")
      yield* pass(70)
      expect(times(tracker.searches, report).length).toBe(searched.length)
      // The dead process may have sent until its lease ended.
      if (ahead === 0) expect(times(tracker.searches, report)).toEqual(searched)
      expect([yield* filed(report), issues()]).toEqual([1, ["open 0"]])
      expect(tracker.sent.length).toBe(outcome.arrives === true ? 0 : 1)
    }
  )
})

describe("A search through more issues than its limit", () => {
  it.scoped("fails its own delivery, which is not sent again, and delays no other", function* () {
    const { admit, delivery, filed, levels, now, pass, start, store, tracker } = yield* makeWorld
    const report = yield* admit()
    tracker.filing.next(lostAfter)
    tracker.searching.next(tooLong, tooLong)
    const { checks } = yield* start("tracker")
    yield* pass(7)
    const { lastFailure, state } = yield* delivery(report)
    expect(state).toBe("failed")
    expect(Option.getOrElse(lastFailure, () => "")).toMatch(/10,000 issues.*may be filed.*report-ref/)
    expect(levels("ERROR")).toBe(1)
    expect(yield* checks).toEqual({ tables: "off", tracker: "ok" })
    const next = yield* admit()
    yield* pass(2)
    expect(yield* filed(next)).toBe(2)
    // A retry searches again before it sends.
    yield* store.deliveries.retry(`report:${report.id}`, now())
    yield* pass(2)
    expect((yield* delivery(report)).state).toBe("failed")
    expect(tracker.sent.length).toBe(2)
  })
})

describe("A removed delivery that is enqueued again", () => {
  it.scoped.each([
    ["finds the issue that an earlier one filed", lostAfter, 1],
    ["is sent after one search without a hit", lost, 2]
  ] as const)("%s", function* ([, outcome, sends]) {
    const { admit, filed, forget, issues, now, pass, queries, setTime, start, store, tracker } =
      yield* makeWorld
    const report = yield* admit()
    const id = `report:${report.id}`
    tracker.filing.next(outcome)
    const { stop } = yield* start("tracker")
    yield* pass(1)
    yield* stop
    expect(yield* store.deliveries.discard(id, now(), "not wanted")).toBe(true)
    yield* setTime(now() + 31 * day)
    yield* forget(id)
    expect(yield* queries.enqueue(report.id, now())).toBe(true)
    yield* start("tracker")
    yield* pass(60)
    expect([yield* filed(report), issues()]).toEqual([1, ["open 0"]])
    expect([tracker.sent.length, tracker.searches.length]).toEqual([sends, 1])
  })
})

describe("The search for duplicates", () => {
  const twice = Effect.gen(function* () {
    const world = yield* makeWorld
    const { admit, filed, find, pass, start, tracker } = world
    const report = yield* admit()
    tracker.filing.next(lost)
    const process = yield* start("tracker", { limits: { sweepDelay: 100_000 } })
    yield* pass(45)
    expect(yield* filed(report)).toBe(1)
    const sweep = find(`sweep:${report.id}`)
    const copy = (isOurs = true) => tracker.add(markerOf(report), isOurs)
    return { ...world, process, report, sweep, copy }
  })

  it.scoped("leaves one open issue when the list hid the first one, also after a restart", function* () {
    const { admit, filed, issues, pass, start, tracker } = yield* makeWorld
    const report = yield* admit()
    tracker.lag = 120_000
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

  it.scoped("is made at once when the list shows two issues, and once more later", function* () {
    const { admit, filed, issues, pass, start, tracker } = yield* makeWorld
    const report = yield* admit()
    tracker.filing.next(lostAfter)
    yield* start("tracker", { limits: { sweepDelay: 100_000 } })
    tracker.add(markerOf(report))
    yield* pass(10)
    expect([yield* filed(report), issues()]).toEqual([1, ["open 0", "closed 1"]])
    tracker.add(markerOf(report))
    yield* pass(110)
    expect(issues()).toEqual(["open 0", "closed 1", "closed 1"])
  })

  it.scoped("leaves issues of other accounts, and an older one of them names no original", function* () {
    const { copy, filed, issues, levels, pass, report, sweep } = yield* twice
    copy(false)
    copy()
    yield* pass(120)
    expect(issues()).toEqual(["open 0", "open 0", "closed 1"])
    expect([yield* filed(report), (yield* sweep).state]).toEqual([1, "delivered"])
    expect(levels("WARN")).toBeGreaterThan(1)
  })

  const outcomes: ReadonlyArray<
    readonly [
      string,
      (number: number, attempt: number) => Outcome & { uncommented?: Refused },
      string,
      ReadonlyArray<string>,
      string
    ]
  > = [
    [
      "a lost closing is repeated",
      (number, attempt) => (number === 3 && attempt === 1 ? lost : {}),
      "delivered",
      ["open 0", "closed 1", "closed 1"],
      "ok"
    ],
    [
      "a comment that is refused closes all the same",
      (number) =>
        number === 2 ? { uncommented: new Refused({ dependency, status: 403, code: "locked" }) } : {},
      "delivered",
      ["open 0", "closed 0", "closed 1"],
      "ok"
    ],
    [
      "a closing refused with 403 closes the others, and is listed",
      (number) => (number === 2 ? refused(403) : {}),
      "failed",
      ["open 0", "open 0", "closed 1"],
      "ok"
    ],
    [
      "a closing refused with 301 closes the others, and is listed",
      (number) => (number === 2 ? refused(301) : {}),
      "failed",
      ["open 0", "open 0", "closed 1"],
      "ok"
    ],
    [
      "a refused token stops the destination",
      () => refused(401),
      "waiting",
      ["open 0", "open 0", "open 0"],
      "degraded"
    ]
  ]
  it.scoped.each(outcomes)("%s", function* ([, closing, state, expected, health]) {
    const { copy, issues, now, pass, process, report, store, sweep, tracker } = yield* twice
    copy()
    copy()
    let attempt = 0
    tracker.closing = (number) => {
      if (number === 3) attempt += 1
      const { failure, uncommented } = closing(number, attempt)
      return {
        ...(failure === undefined ? {} : { failure }),
        ...(uncommented === undefined ? {} : { uncommented })
      }
    }
    yield* pass(115)
    expect([(yield* sweep).state, issues()]).toEqual([state, expected])
    expect(yield* process.checks).toEqual({ tables: "off", tracker: health })
    if (state === "delivered") return
    if (state === "failed")
      expect(Option.getOrElse((yield* sweep).lastFailure, () => "")).toMatch(/#2.*(403|301)/)
    // After the repair, by an operator's retry or by itself.
    tracker.closing = () => ({})
    yield* store.deliveries.retry(`sweep:${report.id}`, now())
    yield* pass(320)
    expect([(yield* sweep).state, issues()]).toEqual(["delivered", ["open 0", "closed 1", "closed 1"]])
  })

  const searches: ReadonlyArray<readonly [string, object, string, string]> = [
    ["through too many issues fails only its own delivery", tooLong, "failed", "ok"],
    ["that is refused with 422 too", refused(422), "failed", "ok"],
    ["that is refused with 404 stops the destination", refused(404), "waiting", "degraded"]
  ]
  it.scoped.each(searches)("%s", function* ([, outcome, state, health]) {
    const { levels, pass, process, sweep, tracker } = yield* twice
    tracker.searching.next(outcome as Outcome)
    yield* pass(115)
    expect((yield* sweep).state).toBe(state)
    expect(levels("ERROR")).toBe(1)
    expect(yield* process.checks).toEqual({ tables: "off", tracker: health })
    yield* pass(320)
    expect((yield* sweep).state).toBe(state === "failed" ? "failed" : "delivered")
  })

  it.scoped("that finds no issue warns and ends", function* () {
    const { levels, pass, sweep, tracker } = yield* twice
    tracker.lag = 100_000_000
    const before = levels("WARN")
    yield* pass(120)
    expect((yield* sweep).state).toBe("delivered")
    expect(levels("WARN")).toBe(before + 1)
  })

  it.scoped("planned by a fast clock runs at most once an hour until its due time", function* () {
    const { admit, now, pass, start, store, tracker } = yield* makeWorld
    const { id } = yield* admit()
    const at = now() + day
    const [leased] = yield* store.deliveries.lease(sampleLease({ now: at }))
    if (leased === undefined) return expect.fail("nothing was leased")
    const issue = { number: 57, url: "https://github.com/harbor/music/issues/57" }
    yield* store.deliveries.update(leased.id, leased.fence, {
      _tag: "Delivered",
      at,
      issue: Option.some(issue),
      sweepAt: Option.some(at + 3_600_000)
    })
    yield* start("tracker")
    yield* pass(60)
    expect(tracker.searches.length).toBe(1)
    expect(Option.isSome(yield* store.reports.find(id))).toBe(true)
  })
})

it.scoped("Logs never contain a person's text or the secret part of a marker", function* () {
  const { admit, lines, pass, start, tracker } = yield* makeWorld
  const { marker } = yield* admit("A very private sentence.")
  tracker.filing.next(lost, refused(401), refused(422))
  tracker.searching.next(lost, unreachable)
  yield* start("tracker")
  yield* pass(700)
  const log = lines.map(({ text }) => text).join("\n")
  expect(lines.length).toBeGreaterThan(3)
  expect(log).not.toContain(marker)
  expect(log).not.toContain("private sentence")
})
