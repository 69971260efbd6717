import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { faults, headerOf } from "../../../sandbox/upstreams/Simulator.ts"
import { version } from "../../../src/schema/Release.ts"
import { issuesPath, settingsAt, token, trackerOf } from "./Simulated.ts"
import { answering } from "../upstream/Simulated.ts"

const draft = { title: "[report] It stops", body: "text" }
const issue = { number: 57, url: "https://github.com/harbor/music/issues/57" }

/** A server that creates an issue for everything, but for the faults of the test, and a tracker that talks to it. */
const scripted = Effect.gen(function* () {
  const body = { number: issue.number, html_url: issue.url, user: { login: "harbor-bot" } }
  const server = yield* answering(() => ({ status: 201, body }))
  const tracker = yield* trackerOf(settingsAt(server.url))
  const file = tracker.file(draft)
  const failing = (status: number, answer: unknown, headers: Record<string, string> = {}, times = 1) => {
    server.fail({
      fault: faults.status(status, answer, { "x-github-request-id": "ABCD:1", ...headers }),
      times
    })
    return Effect.flip(file)
  }
  return { server, tracker, file, failing }
})

it.scoped("A request to the tracker has the headers of the contract, and only title and body", function* () {
  const { file, server } = yield* scripted
  expect(yield* file).toEqual(issue)
  const [request] = server.seen
  if (request === undefined) return yield* Effect.dieMessage("nothing arrived")
  expect([server.seen.length, request.method, request.path]).toEqual([1, "POST", issuesPath])
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

describe("An answer of the tracker", () => {
  const field = (name: string) => ({
    message: "Validation Failed",
    errors: [{ field: name, code: "custom" }]
  })

  it.scoped("refuses, with a code", function* () {
    const { failing, server } = yield* scripted
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
      server.seen.length = 0
      const failure = yield* failing(status, body, headers)
      expect(failure).toMatchObject(refused)
      // Where only an operator can help.
      const isOperators = [301, 401, 403, 404, 410].includes(status)
      expect([status, "advice" in failure && failure.advice !== undefined]).toEqual([status, isOperators])
      expect(server.seen.length).toBe(1)
    }
  })

  it.scoped("leaves the outcome unknown", function* () {
    const { failing } = yield* scripted
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
    yield* TestClock.setTime(1_000_000)
    for (const [status, body, headers, retryAfterSeconds] of limits) {
      const { failing } = yield* scripted
      const failure = yield* failing(status, body, headers)
      expect([body, failure]).toMatchObject([body, { _tag: "NotExecuted", retryAfterSeconds }])
    }
  })

  it.scoped("doubles the pause with each further limit that names none", function* () {
    const { failing, file } = yield* scripted
    for (const seconds of [60, 120, 240]) expect((yield* failing(429, {})).retryAfterSeconds).toBe(seconds)
    yield* file
    expect((yield* failing(429, {})).retryAfterSeconds).toBe(60)
  })
})
