import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import * as MetricState from "effect/MetricState"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { faults } from "../../../sandbox/upstreams/Simulator.ts"
import { issuesPath, repository, simulatedTracker, trackerOf } from "./Simulated.ts"

const marker = "report-ref: rep_1-0011"
const now = Date.parse("2026-11-21T10:00:00Z")
const hour = 3_600_000

const start = Effect.gen(function* () {
  yield* TestClock.setTime(now)
  const { github, settings } = yield* simulatedTracker()
  const tracker = yield* trackerOf(settings)
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

it.scoped("The end of the token is read from every answer, a refusal too", function* () {
  const { github, tracker } = yield* start
  for (const [status, end, instant] of [
    [201, "2026-12-21 07:27:00 UTC", "2026-12-21T07:27:00Z"],
    [403, "2026-12-24 10:00:00 +0200", "2026-12-24T08:00:00Z"]
  ] as const) {
    const body = { number: 1, html_url: "https://github.com/harbor/music/issues/1" }
    const headers = { "github-authentication-token-expiration": end }
    github.fail({ method: "POST", path: issuesPath, fault: faults.status(status, body, headers) })
    yield* Effect.exit(tracker.file({ title: "one", body: marker }))
    const shown = Metric.unsafeSnapshot().flatMap(({ metricKey: { name }, metricState }) =>
      name === "music_tracker_token_expires_timestamp_seconds" && MetricState.isGaugeState(metricState)
        ? [Number(metricState.value)]
        : []
    )
    expect(shown).toEqual([Date.parse(instant) / 1_000])
  }
})

describe("A search for a marker", () => {
  it.scoped("finds our issues with the marker on its own line, closed ones too, and no copy", function* () {
    const { add, github, tracker } = yield* start
    // Copied from ours into an older issue.
    add(marker, "somebody")
    add(`quoted: ${marker}`)
    add(`first\r\n\r\n${marker}\r\n`)
    add(`${marker}9`)
    add(`${marker}\nan edit below`, "somebody")
    github.addPullRequest(repository, { login: "harbor-bot", body: marker })
    add(marker, "Harbor-Bot")
    for (const issue of github.issues(repository)) if (issue.number === 3) issue.state = "closed"
    const found = yield* tracker.findByMarker(marker, now)
    expect(found.map(({ number, open }) => [number, open])).toEqual([
      [3, false],
      [7, true]
    ])
    expect(found[0]?.url).toMatch(/^https?:\/\/.+\/harbor\/music\/issues\/3$/)
  })

  it.scoped("reads every page back to `since`, and no further", function* () {
    const { add, lists, numbers } = yield* start
    add(marker)
    for (let index = 0; index < 130; index += 1) add("older")
    yield* TestClock.adjust("2 hours")
    add(marker)
    for (let index = 0; index < 140; index += 1) add("newer")
    expect(yield* numbers(now + hour)).toEqual([132])
    expect(lists().length).toBe(2)
    expect(yield* numbers(now)).toEqual([1, 132])
    expect(lists().length).toBe(5)
  })

  it.scoped("fails as a whole when a page fails, is truncated or is no list", function* () {
    const { add, github, numbers } = yield* start
    add(marker)
    for (let index = 0; index < 150; index += 1) add("other")
    const failures = [
      faults.status(502, "<html>"),
      faults.status(200, { message: "no list" }),
      faults.status(304, undefined),
      { kind: "drop" }
    ] as const
    expect(yield* numbers()).toEqual([1])
    for (const fault of failures) {
      // The first page is correct.
      github.fail({ path: issuesPath, fault: { kind: "delay", milliseconds: 0 } })
      github.fail({ path: issuesPath, fault })
      expect((yield* Effect.flip(numbers()))._tag).toBe("Unknown")
    }
    github.fail({ path: issuesPath, fault: faults.status(401, { message: "Bad credentials" }) })
    expect(yield* Effect.flip(numbers())).toMatchObject({ _tag: "Refused", code: "bad_credentials" })
    expect(yield* numbers()).toEqual([1])
  })

  const page = (number: number) => ({
    number,
    html_url: `https://github.com/harbor/music/issues/${number}`,
    created_at: new Date(now).toISOString(),
    body: null
  })

  it.scoped("reads at most 100 pages, and fails for a longer list", function* () {
    const { github, lists, numbers } = yield* start
    const link = `<${github.url}${issuesPath}?page=1>; rel="next"`
    const more = faults.status(200, [page(2)], { link })
    github.fail({ path: issuesPath, fault: more, times: 100 })
    expect(yield* Effect.flip(numbers())).toMatchObject({ _tag: "SearchTooLong" })
    expect(lists().length).toBe(100)
  })

  it.scoped("never leaves the host, even when a page links elsewhere", function* () {
    const { github, lists, numbers } = yield* start
    const link = `<https://elsewhere.example/issues?page=2>; rel="next", <${github.url}/x>; rel="last"`
    github.fail({ path: issuesPath, fault: faults.status(200, [page(1)], { link }) })
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

  it.scoped("takes the author of the first issue for the owner that the token may not read", function* () {
    const { add, github, numbers } = yield* start
    for (const login of ["harbor-bot", "somebody", "harbor-bot"]) add(marker, login)
    github.fail({ path: "/user", fault: faults.status(403, { message: "not accessible" }) })
    expect(yield* numbers()).toEqual([1, 3])
  })
})

it.scoped("A moved repository gets no issue, and is reported as moved", function* () {
  const { github, numbers, tracker } = yield* start
  github.move(repository, "harbor/tunes")
  const filing = Effect.flip(tracker.file({ title: "[report] x", body: marker }))
  expect(yield* filing).toMatchObject({ _tag: "Refused", status: 307, code: "moved" })
  expect(github.issues("harbor/tunes").length).toBe(0)
  expect(yield* Effect.flip(numbers())).toMatchObject({ _tag: "Refused", status: 301, code: "moved" })
})

it.scoped("A duplicate that refuses comments is closed; it stays open for another reason", function* () {
  const { add, close, github } = yield* start
  for (const body of [marker, marker]) add(body)
  const failing = (status: number, body: unknown) =>
    github.fail({ path: `${issuesPath}/2/comments`, fault: faults.status(status, body) })
  for (const [status, body, tag] of [
    [401, { message: "Bad credentials" }, "Refused"],
    [403, { message: "You have exceeded a secondary rate limit." }, "NotExecuted"],
    [502, "<html>", "Unknown"]
  ] as const) {
    failing(status, body)
    expect((yield* Effect.flip(close(2, 1)))._tag).toBe(tag)
    expect(github.issues(repository)[1]?.state).toBe("open")
  }
  failing(403, { message: "locked" })
  expect(Option.map(yield* close(2, 1), ({ code }) => code)).toEqual(Option.some("permission"))
  const closed = { state: "closed", stateReason: "not_planned", comments: [] }
  expect(github.issues(repository)[1]).toMatchObject(closed)
})
