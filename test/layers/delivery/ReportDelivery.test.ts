import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { type Fault, faults } from "../../../sandbox/upstreams/Simulator.ts"
import { startTracker } from "../../../sandbox/upstreams/Tracker.ts"
import { markerOf } from "../../../src/services/IssueDraft.ts"
import {
  Anonymous,
  type Reporter,
  type StoredReport,
  StoreUnavailable,
  Verified
} from "../../../src/services/Store.ts"
import { SearchTooLong } from "../../../src/services/Tracker.ts"
import { issuesPath, repository, simulatedTracker, token } from "../tracker/Simulated.ts"
import { makeHarness } from "./Harness.ts"

const makeWorld = Effect.gen(function* () {
  const harness = yield* makeHarness
  const { github, settings } = yield* simulatedTracker()
  let reports = 0
  const admit = (message = "Playback stops after a seek.", reporter: Reporter = Anonymous()) =>
    Effect.gen(function* () {
      reports += 1
      const digits = String(reports).padStart(32, "0")
      const report: Omit<StoredReport, "issue"> = {
        id: `rep_${digits}`,
        plane: "production",
        reporter,
        content: { message, pr: null, attachments: [], context: null },
        source: "cli",
        requestId: `req_${digits}`,
        createdAt: harness.now(),
        marker: `${digits.slice(0, -8)}deadbeef`
      }
      yield* harness.store.reports.admit({ ...report, keyDigest: report.id, contentDigest: "c" }, true)
      return report
    })
  const delivery = (report: { readonly id: string }) =>
    Effect.map(harness.store.deliveries.find(`report:${report.id}`), Option.getOrThrow)
  const stateOf = (report: { readonly id: string }) => Effect.map(delivery(report), ({ state }) => state)
  const filed = (report: { readonly id: string }) =>
    Effect.map(harness.store.reports.find(report.id), (found) =>
      Option.map(
        Option.flatMap(found, ({ issue }) => issue),
        ({ number }) => number
      )
    )
  const posts = () => github.seen.filter(({ method, path }) => method === "POST" && path === issuesPath)
  const searches = () => github.seen.filter(({ method, path }) => method === "GET" && path === issuesPath)
  const failPost = (fault: Fault, times = 1) =>
    github.fail({ method: "POST", path: issuesPath, times, fault })
  const failSearch = (fault: Fault, times = 1) =>
    github.fail({ method: "GET", path: issuesPath, times, fault })
  const issues = () => github.issues(repository)
  const seconds = (requests: ReadonlyArray<{ readonly at: number }>, from: number) =>
    requests.map(({ at }) => (at - from) / 1000)
  return {
    ...harness,
    github,
    settings,
    admit,
    delivery,
    stateOf,
    filed,
    posts,
    searches,
    issues,
    failPost,
    failSearch,
    seconds
  }
})

const badGateway: Fault = {
  kind: "reply",
  reply: { status: 502, headers: { "content-type": "text/html" }, body: "<html>502</html>" }
}
const badGatewayAfter: Fault = { ...badGateway, kind: "reply-after" }

describe("Report delivery", () => {
  it.scoped("files waiting and new reports once each, at least a second apart", function* () {
    const { admit, filed, lines, searches, pass, posts, seconds, settings, start, stateOf, issues } =
      yield* makeWorld
    const early = [yield* admit(), yield* admit(), yield* admit()]
    const { checks } = yield* start(settings)
    yield* pass(4)
    const late = yield* admit()
    yield* pass(2)
    expect(issues().length).toBe(4)
    for (const [index, report] of [...early, late].entries()) {
      expect(yield* filed(report)).toEqual(Option.some(index + 1))
      expect(yield* stateOf(report)).toBe("delivered")
      expect(issues()[index]?.body?.endsWith(markerOf(report))).toBe(true)
    }
    const times = seconds(posts(), 0)
    for (const [index, at] of times.slice(1).entries())
      expect(at - (times[index] ?? 0)).toBeGreaterThanOrEqual(1)
    expect(searches().length).toBe(0)
    expect(yield* checks).toEqual({ tables: "off", tracker: "ok" })
    expect(
      lines.flatMap(
        ({ level, text }) => /^\["Report filed",.*\]/.exec(text)?.map((line) => [level, line]) ?? []
      )
    ).toEqual(
      [...early, late].map(({ id }, index) => [
        "INFO",
        JSON.stringify(["Report filed", { report: id, issue: index + 1 }])
      ])
    )
  })

  it.scoped(
    "of a flood leaves verified reporters and an operator's retries their part of the hour",
    function* () {
      const { admit, filed, lines, now, pass, setTime, settings, start, stateOf, issues, store } =
        yield* makeWorld
      /** Without each of the worker's looks in between. */
      const passHalfHour = Effect.zipRight(
        Effect.suspend(() => setTime(now() + 1_790_000)),
        pass(10)
      )
      const flood = yield* Effect.replicateEffect(admit(), 7)
      const bounds = { hourlyWrites: 6, ordinaryHourlyWrites: 3 }
      const first = yield* start(settings, {}, bounds)
      yield* pass(6)
      expect(issues().length).toBe(3)
      // It waits without a lease, so nothing waits behind it.
      expect(yield* Effect.forEach(flood.slice(3), stateOf)).toEqual(Array(4).fill("waiting"))
      const reporter = Verified({ publicId: "c:ana" })
      const verified = yield* admit("The verified one.", reporter)
      yield* pass(2)
      expect(yield* filed(verified)).toEqual(Option.some(4))

      // Another process, in the middle of the hour.
      yield* first.stop
      yield* start(settings, {}, bounds)
      yield* passHalfHour
      expect(issues().length).toBe(4)
      const [, , , , retried, ...others] = flood
      if (retried === undefined) return expect.fail("seven reports were stored")
      yield* store.deliveries.retry(`report:${retried.id}`, now())
      const second = yield* admit("The second one.", reporter)
      yield* pass(6)
      expect([yield* filed(retried), yield* filed(second)]).toEqual([Option.some(5), Option.some(6)])
      expect(yield* Effect.forEach(others, stateOf)).toEqual(["waiting", "waiting"])
      const warnings = lines.filter(({ text }) => text.includes("only deliveries with priority"))
      expect(warnings.length).toBe(1)

      // Two of the six writes lie within the hour then, so one more begins.
      yield* passHalfHour
      expect(issues().length).toBe(7)
      yield* passHalfHour
      expect(issues().length).toBe(9)
    }
  )

  it.scoped("is woken up by a report, without waiting for the next poll", function* () {
    const { admit, filed, pass, settings, start } = yield* makeWorld
    yield* start(settings)
    yield* pass(3)
    const report = yield* admit()
    yield* pass(0)
    expect(Option.isSome(yield* filed(report))).toBe(true)
  })
})

describe("A report of the maximum size", () => {
  it.scoped("fits into an issue at the first attempt", function* () {
    const { admit, filed, issues, pass, posts, settings, start } = yield* makeWorld
    const report = yield* admit("漢@a#1`~".repeat(3_300))
    yield* start(settings)
    yield* pass(1)
    expect(yield* filed(report)).toEqual(Option.some(1))
    expect(posts().length).toBe(1)
    expect(issues()[0]?.body?.endsWith(markerOf(report))).toBe(true)
  })
})

describe("An unknown outcome", () => {
  it.scoped.each([
    ["a 502 after the issue was made", badGatewayAfter],
    ["a lost connection after the issue was made", { kind: "drop-after" }]
  ] as ReadonlyArray<readonly [string, Fault]>)(
    "leads to a search 5 seconds after the send, which finds the issue: %s",
    function* ([, fault]) {
      const { admit, delivery, failPost, filed, searches, pass, posts, seconds, settings, start, issues } =
        yield* makeWorld
      const report = yield* admit()
      failPost(fault)
      yield* start(settings)
      yield* pass(1)
      expect(yield* delivery(report)).toMatchObject({ state: "unknown", searches: 0, attempts: 1 })
      yield* pass(9)
      expect(yield* filed(report)).toEqual(Option.some(1))
      expect(issues().length).toBe(1)
      expect(posts().length).toBe(1)
      expect(seconds(searches(), report.createdAt)).toEqual([5])
      const query = searches()[0]?.query
      expect(Object.fromEntries(query ?? [])).toEqual({
        state: "all",
        sort: "created",
        direction: "desc",
        per_page: "100",
        since: new Date(report.createdAt - 300_000).toISOString()
      })
    }
  )

  it.scoped(
    "leads to a second attempt only after three clean searches, 5, 15 and 40 seconds after the send",
    function* () {
      const {
        admit,
        delivery,
        failPost,
        filed,
        searches,
        pass,
        posts,
        seconds,
        settings,
        start,
        issues,
        store
      } = yield* makeWorld
      const report = yield* admit()
      failPost(badGateway)
      yield* start(settings)
      yield* pass(20)
      expect(yield* delivery(report)).toMatchObject({ state: "unknown", searches: 2 })
      expect(posts().length).toBe(1)
      yield* pass(25)
      expect(yield* filed(report)).toEqual(Option.some(1))
      expect(issues().length).toBe(1)
      expect(seconds(searches(), report.createdAt)).toEqual([5, 15, 40])
      expect(seconds(posts(), report.createdAt)).toEqual([0, 40])
      const [first, second] = posts().map(({ body }) => body.toString())
      expect(first).toBe(second)
      // An hour later duplicates are searched for.
      const { availableAt } = Option.getOrThrow(yield* store.deliveries.find(`sweep:${report.id}`))
      expect(Math.floor((availableAt - report.createdAt) / 1_000)).toBe(40 + 3_600)
    }
  )

  it.scoped("is resolved by a later search when the list lags", function* () {
    const { admit, failPost, filed, github, searches, pass, posts, settings, start } = yield* makeWorld
    const report = yield* admit()
    github.setListLag(20)
    failPost(badGatewayAfter)
    yield* start(settings)
    yield* pass(45)
    expect(yield* filed(report)).toEqual(Option.some(1))
    expect(searches().length).toBe(3)
    expect(posts().length).toBe(1)
  })

  it.scoped("stays unknown while the search fails: nothing is sent", function* () {
    const { admit, delivery, failSearch, failPost, filed, searches, pass, posts, settings, start, issues } =
      yield* makeWorld
    const report = yield* admit()
    failPost(badGatewayAfter)
    failSearch(badGateway, 4)
    yield* start(settings)
    yield* pass(20)
    expect(searches().length).toBeGreaterThanOrEqual(3)
    expect(yield* delivery(report)).toMatchObject({ state: "unknown", searches: 0 })
    yield* pass(60)
    expect(yield* filed(report)).toEqual(Option.some(1))
    expect(posts().length).toBe(1)
    expect(issues().length).toBe(1)
  })

  it.scoped(
    "ends in one open issue even when the list hides the first issue for longer than all searches",
    function* () {
      const { admit, failPost, filed, github, pass, settings, start, store, issues } = yield* makeWorld
      const report = yield* admit()
      github.setListLag(120)
      failPost(badGatewayAfter)
      const process = yield* start(settings, {}, { sweepDelay: 150_000 })
      yield* pass(45)
      expect(issues().length).toBe(2)
      expect(yield* filed(report)).toEqual(Option.some(2))
      // The search for duplicates outlives the process.
      yield* process.stop
      expect(Option.isSome(yield* store.deliveries.find(`sweep:${report.id}`))).toBe(true)
      yield* start(settings, {}, { sweepDelay: 150_000 })
      yield* pass(140)
      expect(issues().map(({ state }) => state)).toEqual(["open", "open"])
      yield* pass(15)
      expect(issues().map(({ state }) => state)).toEqual(["open", "closed"])
      expect(issues()[1]?.comments.map(({ body }) => body)).toEqual([expect.stringContaining("#1")])
      expect(yield* filed(report)).toEqual(Option.some(1))
    }
  )

  it.scoped("with two issues in the list keeps the first and closes the second", function* () {
    const { admit, failPost, filed, github, pass, settings, start, issues } = yield* makeWorld
    const report = yield* admit()
    failPost(badGatewayAfter)
    yield* start(settings)
    const [issue] = issues()
    github.addIssue(repository, {
      login: "harbor-bot",
      title: issue?.title ?? "",
      body: issue?.body ?? ""
    })
    yield* pass(10)
    expect(yield* filed(report)).toEqual(Option.some(1))
    expect(issues().map(({ state }) => state)).toEqual(["open", "closed"])
  })
})

describe("An issue of another account that carries the marker", () => {
  it.scoped(
    "counts as the report's issue after the token changed accounts: nothing is sent again",
    function* () {
      const world = yield* makeWorld
      const { admit, delivery, expectHanging, failPost, filed, github, issues, lines, pass, posts } = world
      const { settings, start, store, until } = world
      const report = yield* admit()
      failPost({ kind: "hang-after" })
      yield* expectHanging(1)
      const process = yield* start(settings)
      yield* until(() => issues().length === 1)
      yield* process.stop
      yield* expectHanging(0)
      const other = Redacted.make(github.addToken("harbor-bot-2", "write"))
      yield* start({
        ...settings,
        tracker: Option.map(settings.tracker, (target) => ({ ...target, token: other }))
      })
      yield* pass(20)
      expect(yield* delivery(report)).toMatchObject({ state: "unknown", searches: 2 })
      yield* pass(50)
      expect(issues().length).toBe(1)
      expect(posts().length).toBe(1)
      expect(yield* filed(report)).toEqual(Option.some(1))
      const warnings = lines.filter(({ level, text }) => level === "WARN" && text.includes("account"))
      expect(warnings.map(({ text }) => text)).toEqual([expect.stringContaining('"issue":1}')])
      // The search for duplicates follows, in case another one appears.
      expect(Option.isSome(yield* store.deliveries.find(`sweep:${report.id}`))).toBe(true)
    }
  )

  it.scoped(
    "does not count while an issue of the own account may still be hidden, even when it is older",
    function* () {
      const { admit, failPost, filed, github, issues, pass, posts, settings, start } = yield* makeWorld
      github.addIssue(repository, { login: "somebody", title: "mine" })
      yield* pass(30)
      github.setListLag(20)
      const report = yield* admit()
      failPost(badGatewayAfter)
      yield* start(settings, {}, { sweepDelay: 100_000 })
      const [theirs] = issues()
      if (theirs !== undefined) theirs.body = issues()[1]?.body ?? ""
      yield* pass(20)
      expect(yield* filed(report)).toEqual(Option.none())
      yield* pass(30)
      expect(yield* filed(report)).toEqual(Option.some(2))
      expect(posts().length).toBe(1)
      yield* pass(150)
      expect(issues().map(({ comments, state }) => [state, comments.length])).toEqual([
        ["open", 0],
        ["open", 0]
      ])
    }
  )

  it.scoped(
    "is never closed or commented on, and no issue of the own account is closed for it",
    function* () {
      const { admit, failPost, filed, github, issues, lines, pass, settings, start, store } = yield* makeWorld
      github.addIssue(repository, { login: "somebody", title: "older" })
      const report = yield* admit()
      failPost(badGateway)
      yield* start(settings, {}, { sweepDelay: 100_000 })
      yield* pass(45)
      expect(yield* filed(report)).toEqual(Option.some(2))
      const [older, ours] = issues()
      if (older === undefined || ours === undefined) return expect.fail("nothing was filed")
      older.body = ours.body
      github.addIssue(repository, { login: "somebody", title: "newer", body: ours.body ?? "" })
      github.addIssue(repository, { login: "Harbor-Bot", title: "copy", body: ours.body ?? "" })
      yield* pass(120)
      expect(issues().map(({ comments, state }) => [state, comments.length])).toEqual([
        ["open", 0],
        ["open", 0],
        ["open", 0],
        ["closed", 1]
      ])
      expect(yield* filed(report)).toEqual(Option.some(2))
      const sweep = Option.getOrThrow(yield* store.deliveries.find(`sweep:${report.id}`))
      expect(sweep.state).toBe("delivered")
      const warnings = lines.filter(({ text }) => text.includes("other accounts"))
      expect(warnings.map(({ text }) => text)).toEqual([expect.stringContaining('"issues":[1,3]')])
    }
  )
})

describe("A definite answer", () => {
  it.scoped.each([401, 301])(
    "of %i stops the destination, keeps every report, and ends after the repair",
    function* (status) {
      const { admit, filed, github, lines, pass, posts, settings, start, stateOf, issues } = yield* makeWorld
      const reports = [yield* admit(), yield* admit()]
      github.fail({ times: Number.POSITIVE_INFINITY, fault: faults.status(status, { message: "no" }) })
      const { checks } = yield* start(settings)
      yield* pass(290)
      expect(posts().length).toBe(1)
      yield* pass(400)
      for (const report of reports) expect(yield* stateOf(report)).toBe("waiting")
      expect(lines.filter(({ level }) => level === "ERROR").length).toBe(1)
      expect(yield* checks).toEqual({ tables: "off", tracker: "degraded" })
      github.clearFaults()
      yield* pass(310)
      for (const report of reports) expect(Option.isSome(yield* filed(report))).toBe(true)
      expect(issues().length).toBe(2)
      expect(yield* checks).toEqual({ tables: "off", tracker: "ok" })
      expect(lines.some(({ text }) => text.includes("available again"))).toBe(true)
    }
  )

  it.scoped("of 401 ends when a process starts, whose settings may be others", function* () {
    const { admit, failPost, failSearch, filed, pass, settings, start } = yield* makeWorld
    const report = yield* admit()
    failPost(faults.status(401, { message: "no" }))
    const before = yield* start(settings)
    yield* pass(20)
    yield* before.stop
    // It was sent, so it is searched first, and that is refused, too.
    failSearch(faults.status(401, { message: "no" }))
    const between = yield* start(settings)
    yield* pass(20)
    yield* between.stop
    expect(Option.isNone(yield* filed(report))).toBe(true)
    yield* start(settings)
    yield* pass(10)
    expect(Option.isSome(yield* filed(report))).toBe(true)
  })

  it.scoped("of 401 ends within 30 seconds of an operator's retry; a limit does not", function* () {
    const { admit, failPost, filed, now, pass, posts, settings, start, store } = yield* makeWorld
    const report = yield* admit()
    const retry = Effect.suspend(() =>
      Effect.zipRight(
        store.deliveries.retry(`report:${report.id}`, now()),
        store.destinations.resumeTracker(now())
      )
    )
    failPost(faults.status(403, { message: "no" }, { "retry-after": "90" }))
    yield* start(settings)
    yield* pass(5)
    yield* retry
    yield* pass(60)
    expect(posts().length).toBe(1)
    failPost(faults.status(401, { message: "no" }))
    yield* pass(60)
    expect(posts().length).toBe(2)
    yield* retry
    yield* pass(31)
    expect(Option.isSome(yield* filed(report))).toBe(true)
  })

  it.scoped("that refuses writes is logged once, even though searches succeed", function* () {
    const { admit, failPost, filed, lines, searches, pass, posts, settings, start } = yield* makeWorld
    const report = yield* admit()
    failPost(faults.status(403, { message: "Resource not accessible" }), Number.POSITIVE_INFINITY)
    const { checks } = yield* start(settings)
    yield* pass(1000)
    expect(posts().length).toBeGreaterThanOrEqual(3)
    expect(searches().length).toBe(posts().length - 1)
    expect(lines.filter(({ level }) => level === "ERROR").length).toBe(1)
    expect(lines.filter(({ text }) => text.includes("available again"))).toEqual([])
    expect(yield* checks).toEqual({ tables: "off", tracker: "degraded" })
    expect(Option.isNone(yield* filed(report))).toBe(true)
  })

  it.scoped("that never arrives increases the intervals between attempts", function* () {
    const { admit, failPost, pass, posts, seconds, settings, start, stateOf } = yield* makeWorld
    const report = yield* admit()
    failPost(badGateway, Number.POSITIVE_INFINITY)
    yield* start(settings)
    yield* pass(500)
    const times = seconds(posts(), report.createdAt)
    const pauses = times.slice(1).map((at, index) => at - (times[index] ?? 0))
    expect(pauses.slice(0, 3)).toEqual([40, 40, 40])
    expect(pauses.at(-1)).toBeGreaterThan(80)
    expect(pauses).toEqual(pauses.toSorted((one, other) => one - other))
    expect(yield* stateOf(report)).toBe("unknown")
  })

  it.scoped("of a limit pauses all requests for as long as GitHub requests", function* () {
    const { admit, failPost, filed, github, lines, pass, posts, settings, start, issues } = yield* makeWorld
    const reports = [yield* admit(), yield* admit()]
    failPost(faults.status(403, { message: "no" }, { "retry-after": "90" }))
    const { checks } = yield* start(settings)
    yield* pass(88)
    expect(github.seen.length).toBe(1)
    expect(yield* checks).toEqual({ tables: "off", tracker: "ok" })
    yield* pass(6)
    for (const report of reports) expect(Option.isSome(yield* filed(report))).toBe(true)
    expect(posts().length).toBe(3)
    expect(issues().length).toBe(2)
    expect(lines.filter(({ level }) => level === "ERROR")).toEqual([])
  })

  it.scoped("about the length causes one shorter attempt", function* () {
    const { admit, failPost, filed, pass, posts, settings, start } = yield* makeWorld
    const report = yield* admit("long ".repeat(3000))
    failPost(
      faults.status(422, { message: "Validation Failed", errors: [{ field: "body", code: "custom" }] })
    )
    yield* start(settings)
    yield* pass(3)
    expect(yield* filed(report)).toEqual(Option.some(1))
    const [first = 0, second = 0] = posts().map(({ body }) => body.length)
    expect(first).toBeGreaterThan(15_000)
    expect(second).toBeLessThan(8_000)
    expect(posts()[1]?.body.toString()).toContain(markerOf(report))
  })

  it.scoped("about the length twice is final, and the next report is filed", function* () {
    const { admit, delivery, failPost, filed, lines, pass, posts, settings, start } = yield* makeWorld
    const report = yield* admit()
    const next = yield* admit()
    failPost(
      faults.status(422, { message: "Validation Failed", errors: [{ field: "title", code: "custom" }] }),
      2
    )
    yield* start(settings)
    yield* pass(6)
    expect(yield* delivery(report)).toMatchObject({
      state: "failed",
      lastFailure: Option.some("refused: 422 too_long")
    })
    expect(Option.isSome(yield* filed(next))).toBe(true)
    expect(posts().length).toBe(3)
    expect(lines.filter(({ level }) => level === "ERROR").length).toBe(1)
  })

  it.scoped("without a connection is retried at growing intervals, without a search", function* () {
    const { admit, filed, now, pass, settings, start, stateOf, issues } = yield* makeWorld
    const report = yield* admit()
    const closed = yield* Effect.promise(() => startTracker({ now, repositories: [], tokens: [] }))
    yield* Effect.promise(closed.close)
    const gone = {
      ...settings,
      tracker: Option.map(settings.tracker, (target) => ({ ...target, url: closed.url }))
    }
    const process = yield* start(gone)
    yield* pass(60)
    expect(yield* stateOf(report)).toBe("waiting")
    yield* process.stop
    yield* start(settings)
    yield* pass(300)
    expect(yield* filed(report)).toEqual(Option.some(1))
    expect(issues().length).toBe(1)
  })
})

describe("The end of a process", () => {
  it.scoped("waits for a request in flight", function* () {
    const { admit, expectHanging, failPost, filed, posts, settings, start, until } = yield* makeWorld
    const report = yield* admit()
    failPost(faults.delay(30))
    yield* expectHanging(1)
    const process = yield* start(settings)
    yield* until(() => posts().length === 1)
    yield* process.close
    expect(yield* filed(report)).toEqual(Option.some(1))
  })

  it.scoped.each(["hang", "hang-after"] as const)(
    "by a kill is detected when the lease ends, and the issue is filed exactly once: %s",
    function* (kind) {
      const {
        admit,
        expectHanging,
        failPost,
        filed,
        searches,
        pass,
        posts,
        seconds,
        settings,
        start,
        stateOf,
        until,
        issues
      } = yield* makeWorld
      const report = yield* admit()
      failPost({ kind })
      yield* expectHanging(1)
      const process = yield* start(settings)
      yield* until(() => posts().length === 1)
      yield* process.kill
      yield* expectHanging(0)
      expect(yield* stateOf(report)).toBe("leased")
      yield* start(settings)
      yield* pass(9)
      expect(yield* stateOf(report)).toBe("unknown")
      expect(searches().length).toBe(0)
      yield* pass(60)
      // Five, fifteen and forty seconds after the end of the lease, because the dead process may have sent until then.
      expect(seconds(searches(), report.createdAt)).toEqual(kind === "hang" ? [15, 25, 50] : [15])
      expect(yield* filed(report)).toEqual(Option.some(1))
      expect(issues().length).toBe(1)
      expect(posts().length).toBe(kind === "hang" ? 2 : 1)
    }
  )
})

describe("A search through more issues than its limit", () => {
  /** An endless list: each page has a new issue and a link to the next page. */
  const endless: Fault = {
    kind: "reply",
    reply: {
      status: 200,
      headers: {
        "content-type": "application/json",
        link: `<https://api.example${issuesPath}?page=2>; rel="next"`
      },
      body: JSON.stringify([
        {
          number: 1,
          html_url: "https://github.com/harbor/music/issues/1",
          created_at: "2027-01-01T00:00:00Z"
        }
      ])
    }
  }

  it.scoped("fails its own delivery, which is not sent again, and delays no other", function* () {
    const { admit, delivery, failPost, filed, failSearch, lines, searches, pass, posts, settings, start } =
      yield* makeWorld
    const lost = yield* admit()
    failPost(badGatewayAfter)
    const { checks } = yield* start(settings)
    yield* pass(1)
    failSearch(endless, Number.POSITIVE_INFINITY)
    yield* pass(6)
    const { lastFailure, state } = yield* delivery(lost)
    expect(state).toBe("failed")
    expect(Option.getOrElse(lastFailure, () => "")).toMatch(/10,000 issues.*may be filed.*report-ref/)
    expect(searches().length).toBe(100)
    expect(lines.filter(({ level }) => level === "ERROR").length).toBe(1)
    expect(yield* checks).toEqual({ tables: "off", tracker: "ok" })

    const next = yield* admit()
    yield* pass(2)
    expect(Option.isSome(yield* filed(next))).toBe(true)
    expect(posts().length).toBe(2)
  })

  const tooLong = Effect.fail(new SearchTooLong({ reason: "more than 10,000 issues" }))

  it.scoped("is repeated by an operator's retry, also when no send is known", function* () {
    const { admit, delivery, forget, now, pass, posts, records, settings, start, store } = yield* makeWorld
    const report = yield* admit()
    // The delivery was removed: an earlier one may have filed the report.
    const id = `report:${report.id}`
    yield* forget(id)
    expect(yield* records.enqueue(report.id, now())).toBe(true)
    yield* start(settings, { findByMarker: () => tooLong })
    yield* pass(2)
    expect((yield* delivery(report)).state).toBe("failed")
    expect(yield* store.deliveries.retry(id, now())).toBe(true)
    yield* pass(2)
    expect((yield* delivery(report)).state).toBe("failed")
    expect(posts().length).toBe(0)
  })

  it.scoped("for duplicates fails only its own delivery", function* () {
    const { admit, failPost, filed, lines, pass, settings, start, store } = yield* makeWorld
    const report = yield* admit()
    failPost(badGateway)
    let few = true
    const findByMarker = () => Effect.suspend(() => (few ? Effect.succeed([]) : tooLong))
    const { checks } = yield* start(settings, { findByMarker }, { sweepDelay: 100_000 })
    yield* pass(45)
    expect(yield* filed(report)).toEqual(Option.some(1))
    few = false
    yield* pass(110)
    const sweep = Option.getOrThrow(yield* store.deliveries.find(`sweep:${report.id}`))
    expect(sweep.state).toBe("failed")
    expect(Option.getOrElse(sweep.lastFailure, () => "")).toMatch(/10,000 issues/)
    expect(lines.filter(({ level }) => level === "ERROR").length).toBe(1)
    expect(yield* checks).toEqual({ tables: "off", tracker: "ok" })
    const next = yield* admit()
    yield* pass(2)
    expect(Option.isSome(yield* filed(next))).toBe(true)
  })
})

describe("A removed delivery", () => {
  const day = 86_400
  const weeksLater = Effect.gen(function* () {
    const world = yield* makeWorld
    const report = yield* world.admit()
    world.failPost(badGatewayAfter)
    const { stop } = yield* world.start(world.settings)
    yield* world.pass(1)
    expect(yield* world.stateOf(report)).toBe("unknown")
    yield* stop
    const id = `report:${report.id}`
    expect(yield* world.store.deliveries.discard(id, world.now(), "not wanted")).toBe(true)
    yield* world.pass(31 * day)
    return { ...world, report, id }
  })

  it.scoped("that is enqueued again finds the issue that an earlier delivery filed", function* () {
    const { filed, forget, id, issues, now, pass, posts, records, report, settings, start, store } =
      yield* weeksLater
    yield* forget(id)
    expect(yield* store.deliveries.find(id)).toEqual(Option.none())
    expect(yield* records.enqueue(report.id, now())).toBe(true)
    yield* start(settings)
    yield* pass(60)
    expect(yield* filed(report)).toEqual(Option.some(1))
    expect(issues().length).toBe(1)
    expect(posts().length).toBe(1)
  })

  it.scoped("that is enqueued again is sent after one search without a hit", function* () {
    const { filed, forget, id, issues, searches, now, pass, records, report, settings, start } =
      yield* weeksLater
    const [issue] = issues()
    if (issue !== undefined) issue.body = "about something else"
    yield* forget(id)
    yield* records.enqueue(report.id, now())
    yield* start(settings)
    yield* pass(3)
    expect(yield* filed(report)).toEqual(Option.some(2))
    expect(searches().length).toBe(1)
  })
})

describe("The search for duplicates", () => {
  const twice = Effect.gen(function* () {
    const world = yield* makeWorld
    const report = yield* world.admit()
    world.failPost(badGateway)
    const process = yield* world.start(world.settings, {}, { sweepDelay: 100_000 })
    yield* world.pass(45)
    expect(yield* world.filed(report)).toEqual(Option.some(1))
    const sweep = Effect.map(world.store.deliveries.find(`sweep:${report.id}`), Option.getOrThrow)
    return { ...world, process, report, sweep }
  })

  it.scoped("retries a failed closing, and comments once", function* () {
    const { github, issues, pass, report, sweep } = yield* twice
    for (const number of [2, 3])
      github.addIssue(repository, { login: "harbor-bot", title: `copy ${number}`, body: markerOf(report) })
    github.fail({ method: "PATCH", path: `${issuesPath}/3`, times: 1, fault: badGateway })
    yield* pass(120)
    expect(issues().map(({ state }) => state)).toEqual(["open", "closed", "closed"])
    expect(issues()[1]?.comments.length).toBe(1)
    expect((yield* sweep).state).toBe("delivered")
  })

  it.scoped("closes a duplicate that refuses comments", function* () {
    const { github, issues, pass, process, report, sweep } = yield* twice
    github.addIssue(repository, { login: "harbor-bot", title: "copy", body: markerOf(report) })
    github.fail({
      method: "POST",
      path: `${issuesPath}/2/comments`,
      times: Number.POSITIVE_INFINITY,
      fault: faults.status(403, { message: "Unable to create comment because issue is locked." })
    })
    yield* pass(110)
    expect(issues().map(({ comments, state }) => [state, comments.length])).toEqual([
      ["open", 0],
      ["closed", 0]
    ])
    expect((yield* sweep).state).toBe("delivered")
    expect(yield* process.checks).toEqual({ tables: "off", tracker: "ok" })
  })

  it.scoped.each([403, 301])(
    "whose closing is refused with %i closes the others, and is listed as failed",
    function* (status) {
      const { admit, delivery, filed, github, issues, lines, now, pass, process, report, store, sweep } =
        yield* twice
      for (const number of [2, 3])
        github.addIssue(repository, {
          login: "harbor-bot",
          title: `copy ${number}`,
          body: markerOf(report)
        })
      github.fail({
        path: /\/2(\/comments)?$/,
        times: Number.POSITIVE_INFINITY,
        fault: faults.status(status, { message: "no" })
      })
      yield* pass(100)
      const next = yield* admit()
      yield* pass(10)
      expect(Option.isSome(yield* filed(next))).toBe(true)
      expect(yield* process.checks).toEqual({ tables: "off", tracker: "ok" })
      expect(issues().map(({ state }) => state)).toEqual(["open", "open", "closed", "open"])
      const { lastFailure, state } = yield* sweep
      expect(state).toBe("failed")
      expect(Option.getOrElse(lastFailure, () => "")).toMatch(new RegExp(`#2.*${status}`))
      expect(lines.filter(({ level }) => level === "ERROR").length).toBe(1)

      // An operator retries it after the repair.
      github.clearFaults()
      expect(yield* store.deliveries.retry(`sweep:${report.id}`, now())).toBe(true)
      yield* pass(10)
      expect(issues().map(({ state: open }) => open)).toEqual(["open", "closed", "closed", "open"])
      expect((yield* sweep).state).toBe("delivered")
      expect((yield* delivery(next)).state).toBe("delivered")
    }
  )

  it.scoped.each([
    ["a closing", 401, /\/comments$/],
    ["a search", 404, new RegExp(`${issuesPath}$`)]
  ] as const)("stops the destination when %s is refused with %i", function* ([, status, path]) {
    const { github, issues, pass, process, report, sweep } = yield* twice
    github.addIssue(repository, { login: "harbor-bot", title: "copy", body: markerOf(report) })
    github.fail({
      path,
      times: Number.POSITIVE_INFINITY,
      fault: faults.status(status, { message: "no" })
    })
    yield* pass(110)
    expect(yield* process.checks).toEqual({ tables: "off", tracker: "degraded" })
    expect((yield* sweep).state).toBe("waiting")
    github.clearFaults()
    yield* pass(320)
    expect((yield* sweep).state).toBe("delivered")
    expect(issues().map(({ state }) => state)).toEqual(["open", "closed"])
  })

  it.scoped("that finds no issue logs a warning and ends", function* () {
    const { github, issues, lines, pass, sweep } = yield* twice
    github.setListLag(100_000)
    const [issue] = issues()
    if (issue !== undefined) issue.body = "edited"
    yield* pass(120)
    expect((yield* sweep).state).toBe("delivered")
    expect(
      lines.filter(({ level, text }) => level === "WARN" && text.includes("does not list the issue")).length
    ).toBe(1)
  })
})

describe("A report delivery's lease", () => {
  it.scoped("that ends before the send is committed sends nothing", function* () {
    const { admit, delivery, filed, searches, now, pass, posts, settings, start, store } = yield* makeWorld
    const report = yield* admit()
    const from = now()
    const { extend, update } = store.deliveries
    let slow = true
    Object.assign(store.deliveries, {
      extend: (...values: Parameters<typeof extend>) =>
        Effect.suspend(() =>
          slow ? Effect.fail(new StoreUnavailable({ problem: { kind: "unreachable" } })) : extend(...values)
        ),
      update: (...values: Parameters<typeof update>) =>
        Effect.suspend(() => {
          if (values[2]._tag !== "Sending" || !slow) return update(...values)
          return Effect.zipRight(Effect.sleep("11 seconds"), update(...values))
        })
    })
    yield* start(settings)
    yield* pass(10.9)
    expect(posts().length).toBe(0)
    slow = false
    yield* pass(5)
    expect(yield* filed(report)).toEqual(Option.some(1))
    expect(posts().length).toBe(1)
    expect(posts()[0]?.at).toBeGreaterThanOrEqual(from + 11_000)
    // The request belongs to another lease, which searched first.
    expect(yield* delivery(report)).toMatchObject({ attempts: 2, fence: 2 })
    expect(searches().length).toBe(1)
  })

  it.scoped("survives a short outage of the database after the answer", function* () {
    const { admit, filed, pass, settings, start, store, issues } = yield* makeWorld
    const report = yield* admit()
    const { update } = store.deliveries
    let away = 3
    Object.assign(store.deliveries, {
      update: (...values: Parameters<typeof update>) =>
        Effect.suspend(() =>
          values[2]._tag === "Delivered" && away-- > 0
            ? Effect.fail(new StoreUnavailable({ problem: { kind: "unreachable" } }))
            : update(...values)
        )
    })
    yield* start(settings)
    yield* pass(5)
    expect(yield* filed(report)).toEqual(Option.some(1))
    expect(issues().length).toBe(1)
  })
})

describe("Logs of report delivery", () => {
  it.scoped("never contain the token or a person's text", function* () {
    const { admit, failSearch, failPost, github, lines, pass, settings, start } = yield* makeWorld
    yield* admit("A very private sentence.")
    failPost(badGateway)
    failPost(faults.status(401, { message: "Bad credentials" }))
    failPost(faults.status(422, { message: "no" }))
    failSearch(badGateway)
    failSearch({ kind: "drop" })
    yield* start(settings)
    yield* pass(700)
    const log = lines.map(({ text }) => text).join("\n")
    expect(github.seen.length).toBeGreaterThan(4)
    expect(lines.length).toBeGreaterThan(3)
    expect(log).not.toContain(token)
    expect(log).not.toContain("private sentence")
    expect(log).not.toContain("deadbeef")
  })
})
