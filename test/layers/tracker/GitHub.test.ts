import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as MetricState from "effect/MetricState"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { faults } from "../../../sandbox/upstreams/Simulator.ts"
import { TrackerFromSettings } from "../../../src/layers/tracker/Tracker.ts"
import { UndiciTransport } from "../../../src/layers/upstream/UndiciTransport.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { Tracker } from "../../../src/services/Tracker.ts"
import { testSettings } from "../../support/Settings.ts"
import { issuesPath, repository, simulatedTracker } from "./Simulated.ts"

const marker = "report-ref: rep_1-0011"
const now = Date.parse("2026-11-21T10:00:00Z")
const hour = 3_600_000

const start = Effect.gen(function* () {
  yield* TestClock.setTime(now)
  const { github, settings } = yield* simulatedTracker()
  const tracker = Context.get(
    yield* Layer.build(
      Layer.provide(TrackerFromSettings, Layer.merge(UndiciTransport, Layer.succeed(Settings, settings)))
    ),
    Tracker
  )
  const add = (body: string, login = "harbor-bot") => github.addIssue(repository, { login, title: "x", body })
  const numbers = (since = now - hour) =>
    Effect.map(tracker.findByMarker(marker, since), (found) => found.map(({ number }) => number))
  /** Closes an issue while the clock passes the second between its two writes. */
  const close = (duplicate: number, original: number) =>
    Effect.gen(function* () {
      const closing = yield* Effect.fork(
        tracker.closeDuplicate({ number: duplicate, url: "" }, { number: original, url: "" })
      )
      while (Option.isNone(yield* Fiber.poll(closing))) {
        yield* Effect.promise(() => new Promise((wake) => setTimeout(wake, 2)))
        if ((yield* TestClock.sleeps()).length > 0) yield* TestClock.adjust("1 second")
      }
      return yield* Fiber.join(closing)
    })
  const lists = () => github.seen.filter(({ method, path }) => method === "GET" && path === issuesPath)
  return { add, close, github, lists, numbers, tracker }
})

/** The metric of the token's end, in seconds. */
const tokenEnd = () =>
  Metric.unsafeSnapshot().flatMap(({ metricKey: { name }, metricState }) =>
    name === "music_tracker_token_expires_timestamp_seconds" && MetricState.isGaugeState(metricState)
      ? [Number(metricState.value)]
      : []
  )

describe("The end of the token", () => {
  it.scoped("is read from every answer, a refusal too", function* () {
    const { github, tracker } = yield* start
    const answerWith = (status: number, end: string) =>
      github.fail({
        method: "POST",
        path: issuesPath,
        fault: {
          kind: "reply",
          reply: {
            status,
            body: { number: 1, html_url: "https://github.com/harbor/music/issues/1" },
            headers: { "github-authentication-token-expiration": end }
          }
        }
      })
    answerWith(201, "2026-12-21 07:27:00 UTC")
    yield* tracker.file({ title: "one", body: marker })
    expect(tokenEnd()).toEqual([Date.parse("2026-12-21T07:27:00Z") / 1_000])
    answerWith(403, "2026-12-24 10:00:00 +0200")
    yield* Effect.flip(tracker.file({ title: "one", body: marker }))
    expect(tokenEnd()).toEqual([Date.parse("2026-12-24T08:00:00Z") / 1_000])
  })
})

describe("A search for a marker", () => {
  it.scoped(
    "finds issues with the marker on its own line, lowest number first, closed ones too",
    function* () {
      const { add, github, numbers, tracker } = yield* start
      add(`quoted: ${marker}`)
      add(`first\r\n\r\n${marker}\r\n`)
      add(`${marker}9`)
      add(`${marker}\nan edit below`)
      const found = yield* tracker.findByMarker(marker, now)
      expect(found.map(({ number }) => number)).toEqual([2, 4])
      const issue = github.issues(repository).find(({ number }) => number === 2)
      if (issue !== undefined) issue.state = "closed"
      expect(yield* numbers()).toEqual([2, 4])
      expect(found[0]?.url).toMatch(/^https?:\/\/.+\/harbor\/music\/issues\/2$/)
    }
  )

  it.scoped("skips pull requests, and distinguishes issues of other accounts from our own", function* () {
    const { add, github, lists, numbers, tracker } = yield* start
    github.addPullRequest(repository, { login: "harbor-bot", body: marker })
    add("something else")
    expect(yield* numbers()).toEqual([])
    add(marker, "somebody")
    add(marker, "Harbor-Bot")
    const found = yield* tracker.findByMarker(marker, now)
    expect(found.map(({ number, own }) => [number, own])).toEqual([
      [3, false],
      [4, true]
    ])
    expect(lists().some(({ query }) => query.has("creator"))).toBe(false)
  })

  it.scoped("reads every page back to `since`, and no further", function* () {
    const { add, lists, numbers } = yield* start
    add(marker)
    for (let index = 0; index < 130; index += 1) add("older")
    yield* TestClock.adjust("2 hours")
    add(marker)
    for (let index = 0; index < 240; index += 1) add("newer")
    expect(yield* numbers(now + hour)).toEqual([132])
    expect(lists().length).toBe(3)
    expect(yield* numbers(now)).toEqual([1, 132])
    expect(lists().length).toBe(7)
  })

  it.scoped("fails as a whole when a page fails, is truncated or is no list", function* () {
    const { add, github, numbers } = yield* start
    add(marker)
    for (let index = 0; index < 150; index += 1) add("other")
    const failures = [
      faults.status(502, "<html>"),
      faults.notJson(),
      faults.status(200, { message: "no list" }),
      faults.status(200, [{ number: 1 }]),
      faults.status(304, undefined),
      { kind: "drop" }
    ] as const
    expect(yield* numbers()).toEqual([1])
    for (const fault of failures) {
      // The first page is correct.
      github.fail({ path: issuesPath, fault: faults.delay(0) })
      github.fail({ path: issuesPath, fault })
      expect((yield* Effect.flip(numbers()))._tag).toBe("Unknown")
    }
    github.fail({ path: issuesPath, fault: faults.status(401, { message: "Bad credentials" }) })
    expect(yield* Effect.flip(numbers())).toMatchObject({ _tag: "Refused", code: "bad_credentials" })
    expect(yield* numbers()).toEqual([1])
  })

  it.scoped("reads at most 100 pages, and fails for a longer list", function* () {
    const { add, github, lists, numbers } = yield* start
    add(marker)
    const page = [
      {
        number: 2,
        html_url: "https://github.com/harbor/music/issues/2",
        created_at: new Date(now).toISOString()
      }
    ]
    const more = faults.status(200, page, { link: `<${github.url}${issuesPath}?page=1>; rel="next"` })
    github.fail({ path: issuesPath, fault: more, times: 99 })
    expect(yield* numbers()).toEqual([1])
    expect(lists().length).toBe(100)
    github.fail({ path: issuesPath, fault: more, times: 100 })
    expect(yield* Effect.flip(numbers())).toMatchObject({ _tag: "SearchTooLong" })
    expect(lists().length).toBe(200)
  })

  it.scoped("never leaves the host, even when a page links elsewhere", function* () {
    const { github, lists, numbers } = yield* start
    const link = `<https://elsewhere.example/issues?page=2>; rel="next", <${github.url}/x>; rel="last"`
    const issue = {
      number: 1,
      html_url: "https://github.com/harbor/music/issues/1",
      created_at: new Date(now).toISOString(),
      body: null
    }
    github.fail({ path: issuesPath, fault: faults.status(200, [issue], { link }) })
    expect(yield* numbers()).toEqual([])
    expect(lists().map(({ query }) => query.get("page"))).toEqual([null, "2"])
  })

  it.scoped("fails while the token's owner cannot be read", function* () {
    const { add, github, numbers } = yield* start
    add(marker)
    github.fail({ path: "/user", fault: faults.status(503, {}) })
    github.fail({ path: "/user", fault: faults.status(401, {}) })
    expect((yield* Effect.flip(numbers()))._tag).toBe("Unknown")
    expect((yield* Effect.flip(numbers()))._tag).toBe("Refused")
    expect(yield* numbers()).toEqual([1])
  })
})

describe("A moved repository", () => {
  it.scoped("accepts issues through a 307, and is reported when a search receives a 301", function* () {
    const { github, numbers, tracker } = yield* start
    github.move(repository, "harbor/tunes")
    const issue = yield* tracker.file({ title: "[report] x", body: marker })
    expect(issue.number).toBe(1)
    expect(github.issues("harbor/tunes").length).toBe(1)
    expect(yield* Effect.flip(numbers())).toMatchObject({ _tag: "Refused", status: 301, code: "moved" })
    expect(Option.getOrElse(yield* tracker.trouble, () => "")).toContain("moved")
  })
})

describe("A duplicate that refuses comments", () => {
  const comments = `${issuesPath}/2/comments`

  it.scoped("is closed nevertheless, and the refusal is returned", function* () {
    const { add, close, github } = yield* start
    add(marker)
    add(marker)
    github.fail({ path: comments, fault: faults.status(403, { message: "locked" }) })
    expect(Option.map(yield* close(2, 1), ({ code }) => code)).toEqual(Option.some("permission"))
    expect(github.issues(repository)[1]).toMatchObject({
      state: "closed",
      stateReason: "not_planned",
      comments: []
    })
  })

  it.scoped.each([
    [401, { message: "Bad credentials" }, "Refused"],
    [403, { message: "You have exceeded a secondary rate limit." }, "NotExecuted"],
    [502, "<html>", "Unknown"]
  ] as const)("stays open for another reason: %i", function* ([status, body, tag]) {
    const { add, close, github } = yield* start
    add(marker)
    add(marker)
    github.fail({ path: comments, fault: faults.status(status, body) })
    expect((yield* Effect.flip(close(2, 1)))._tag).toBe(tag)
    expect(github.issues(repository)[1]?.state).toBe("open")
  })
})

describe("Without a token", () => {
  it.scoped("the tracker is off, without a problem", () =>
    Effect.gen(function* () {
      const tracker = yield* Tracker
      expect(tracker.enabled).toBe(false)
      expect(Option.isNone(yield* tracker.trouble)).toBe(true)
      expect((yield* Effect.flip(tracker.file({ title: "x", body: "x" })))._tag).toBe("NotExecuted")
    }).pipe(
      Effect.provide(
        Layer.provide(
          TrackerFromSettings,
          Layer.merge(UndiciTransport, Layer.succeed(Settings, testSettings()))
        )
      )
    )
  )
})
