import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import { Context, Effect, Fiber, Layer, Metric, MetricState, Option, Redacted, TestClock } from "effect"
import { faults, headerOf } from "../../../sandbox/upstreams/Simulator.ts"
import { startTracker } from "../../../sandbox/upstreams/Tracker.ts"
import { parts } from "../../../src/Backend.ts"
import { version } from "../../../src/schema/Release.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { Tracker } from "../../../src/services/Tracker.ts"
import { testSettings } from "../../world/Settings.ts"
import { simulated } from "../upstream/Simulated.ts"

const token = "github_pat_A1b2C3d4E5f6G7h8I9j0"
const repository = "harbor/music"
const issuesPath = `/repos/${repository}/issues`
const draft = { title: "[report] It stops", body: "text" }
const marker = "report-ref: rep_1-0011"
const now = Date.parse("2026-11-21T10:00:00Z")
const hour = 3_600_000

/** The tracker over HTTP, and a simulated one with one repository. */
const start = Effect.gen(function* () {
  yield* TestClock.setTime(now)
  const account = { token, login: "harbor-bot", rights: "write" } as const
  const github = yield* simulated((now) =>
    startTracker({ now, repositories: [repository], tokens: [account] })
  )
  const [owner, name] = ["harbor", "music"]
  const target = { token: Redacted.make(token), owner, repository: name, url: github.url }
  const settings = Layer.succeed(Settings, testSettings({ tracker: Option.some(target) }))
  const context = yield* Layer.build(Layer.provide(parts.tracker, Layer.merge(parts.transport, settings)))
  const tracker = Context.get(context, Tracker)
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
  const file = tracker.file(draft)
  /** The failure of a filing that is answered so. */
  const failing = (status: number, answer: unknown, headers: Readonly<Record<string, string>> = {}) => {
    const given = faults.status(status, answer, { "x-github-request-id": "ABCD:1", ...headers })
    github.fail({ method: "POST", path: issuesPath, fault: given })
    return Effect.flip(file)
  }
  return { add, close, failing, file, github, lists, numbers, tracker }
})

it.scoped("A request to the tracker has the headers of the contract, and only title and body", function* () {
  const { file, github } = yield* start
  expect(yield* file).toEqual({ number: 1, url: expect.stringMatching(/\/harbor\/music\/issues\/1$/) })
  const [request] = github.seen
  if (request === undefined) return yield* Effect.dieMessage("nothing arrived")
  expect([github.seen.length, request.method, request.path]).toEqual([1, "POST", issuesPath])
  for (const [name, value] of Object.entries({
    authorization: `Bearer ${token}`,
    accept: "application/vnd.github+json",
    "x-github-api-version": "2022-11-28",
    "user-agent": `music-backend/${version}`,
    "content-type": "application/json"
  }))
    expect(headerOf(request, name)).toBe(value)
  expect(JSON.parse(request.body.toString())).toEqual(draft)
})

it.scoped("The end of the token is read from every answer, a refusal too", function* () {
  const { file, github } = yield* start
  for (const [status, end, instant] of [
    [201, "2026-12-21 07:27:00 UTC", "2026-12-21T07:27:00Z"],
    [403, "2026-12-24 10:00:00 +0200", "2026-12-24T08:00:00Z"]
  ] as const) {
    const body = { number: 1, html_url: "https://github.com/harbor/music/issues/1" }
    const headers = { "github-authentication-token-expiration": end }
    github.fail({ method: "POST", path: issuesPath, fault: faults.status(status, body, headers) })
    yield* Effect.exit(file)
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
})

it.scoped("A moved repository gets no issue, and is reported as moved", function* () {
  const { file, github, numbers } = yield* start
  github.move(repository, "harbor/tunes")
  expect(yield* Effect.flip(file)).toMatchObject({ _tag: "Refused", status: 307, code: "moved" })
  expect(github.issues("harbor/tunes").length).toBe(0)
  expect(yield* Effect.flip(numbers())).toMatchObject({ _tag: "Refused", status: 301, code: "moved" })
})

it.scoped("A duplicate that refuses comments is closed; it stays open for another reason", function* () {
  const { add, close, github } = yield* start
  for (const body of [marker, marker]) add(body)
  const failing = (status: number, body: unknown) =>
    github.fail({ path: `${issuesPath}/2/comments`, fault: faults.status(status, body) })
  for (const [status, body, tag] of [
    [403, { message: "You have exceeded a secondary rate limit." }, "NotExecuted"],
    [502, "<html>", "Unknown"]
  ] as const) {
    failing(status, body)
    expect((yield* Effect.flip(close(2, 1)))._tag).toBe(tag)
    expect(github.issues(repository)[1]?.state).toBe("open")
  }
  failing(403, { message: "locked" })
  yield* close(2, 1)
  const closed = { state: "closed", stateReason: "not_planned", comments: [] }
  expect(github.issues(repository)[1]).toMatchObject(closed)
})

describe("An answer of the tracker", () => {
  const field = (name: string) => ({
    message: "Validation Failed",
    errors: [{ field: name, code: "custom" }]
  })

  it.scoped("refuses, with a code", function* () {
    const { failing, github } = yield* start
    for (const [status, body, code, headers] of [
      [301, {}, "moved", { location: "/repositories/1/issues" }],
      [400, { message: "Problems parsing JSON" }, "bad_request"],
      [401, { message: "Bad credentials" }, "bad_credentials"],
      [403, { message: "Resource not accessible by personal access token" }, "permission"],
      [404, { message: "Not Found" }, "not_found"],
      [410, { message: "Issues are disabled for this repo" }, "issues_disabled"],
      [422, field("body"), "too_long"],
      [422, field("labels"), "validation_failed"],
      [422, { message: "This endpoint has been spammed" }, "validation_failed"],
      [451, { message: "Unavailable" }, "legal_block"]
    ] as ReadonlyArray<readonly [number, object, string, Record<string, string>?]>) {
      const refused = { _tag: "Refused", status, code, requestId: "ABCD:1" }
      github.seen.length = 0
      const failure = yield* failing(status, body, headers)
      expect(failure).toMatchObject(refused)
      // Where only an operator can help.
      const isOperators = [301, 401, 403, 404, 410].includes(status)
      expect([status, "advice" in failure && failure.advice !== undefined]).toEqual([status, isOperators])
      expect(github.seen.length).toBe(1)
    }
  })

  it.scoped("leaves the outcome unknown", function* () {
    const { failing } = yield* start
    const answers: ReadonlyArray<readonly [number, unknown, pause?: number]> = [
      [502, "<html>"],
      [503, {}, 7],
      [200, []],
      [409, {}],
      [201, { number: 57, html_url: "javascript:alert(1)" }],
      // It is stored and shown: Postgres takes no NUL.
      ...["\u0000", "\u001b[2J", "x".repeat(2_001)].map(
        (path) => [201, { number: 57, html_url: `https://github.com/${path}` }] as const
      ),
      [201, "{not json"]
    ]
    for (const [status, body, pause] of answers) {
      const headers = pause === undefined ? {} : { "retry-after": String(pause) }
      const { _tag, retryAfterSeconds } = yield* failing(status, body, headers)
      expect([status, _tag, retryAfterSeconds]).toEqual([status, "Unknown", pause])
    }
  })

  const limits: ReadonlyArray<readonly [number, object, Record<string, string>, seconds: number]> = [
    [403, { message: "x" }, { "retry-after": "30" }, 30],
    [429, {}, { "retry-after": new Date(1_045_000).toUTCString() }, 45],
    [403, {}, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800" }, 800],
    [429, {}, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "900" }, 1],
    // GitHub's end of the limit is by its own clock, which ours may not agree with.
    ...[400, 1_600].map(
      (theirs) =>
        [
          403,
          {},
          {
            date: new Date(theirs * 1_000).toUTCString(),
            "x-ratelimit-remaining": "0",
            "x-ratelimit-reset": String(theirs + 90)
          },
          90
        ] as const
    ),
    [403, { message: "You have exceeded a secondary rate limit" }, {}, 60],
    [403, { message: "abuse detection" }, { "x-ratelimit-remaining": "5" }, 60],
    [429, {}, { "retry-after": "999999" }, 3600]
  ]
  it.scoped("is a limit, without an effect", function* () {
    const { failing } = yield* start
    yield* TestClock.setTime(1_000_000)
    for (const [status, body, headers, retryAfterSeconds] of limits) {
      const failure = yield* failing(status, body, headers)
      expect([body, failure]).toMatchObject([body, { _tag: "NotExecuted", retryAfterSeconds }])
    }
  })
})
