import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { faults, headerOf, type Reply } from "../../../sandbox/upstreams/Simulator.ts"
import { makeGitHub } from "../../../src/layers/tracker/GitHub.ts"
import { UndiciTransport } from "../../../src/layers/upstream/UndiciTransport.ts"
import { UpstreamTransport } from "../../../src/layers/upstream/UpstreamTransport.ts"
import { version } from "../../../src/schema/Release.ts"
import { issuesPath, token } from "./Simulated.ts"
import { answering } from "../upstream/Simulated.ts"
import { until } from "../../support/Waiting.ts"

const draft = { title: "[report] It stops", body: "text" }
const created: Reply = {
  status: 201,
  body: { number: 57, html_url: "https://github.com/harbor/music/issues/57", user: { login: "harbor-bot" } }
}

/** A server that answers everything the same way, and a tracker that talks to it. */
const scripted = (answer: Reply) =>
  Effect.gen(function* () {
    const server = yield* answering(() => answer)
    const { send } = Context.get(yield* Layer.build(UndiciTransport), UpstreamTransport)
    const tracker = makeGitHub(send, {
      url: server.url,
      token: Redacted.make(token),
      owner: "harbor",
      repository: "music"
    })
    return { server, tracker }
  })

const failing = (answer: Reply) =>
  Effect.gen(function* () {
    const { server, tracker } = yield* scripted(answer)
    const failure = yield* Effect.flip(tracker.file(draft))
    return { failure, server, tracker, trouble: yield* tracker.trouble }
  })

const json = (status: number, body: unknown, headers: Record<string, string> = {}): Reply => ({
  status,
  body,
  headers: { "x-github-request-id": "ABCD:1234", ...headers }
})

describe("A request to the tracker", () => {
  it.scoped("has the headers of the contract, and only title and body", function* () {
    const { server, tracker } = yield* scripted(created)
    const issue = yield* tracker.file(draft)
    expect(issue).toEqual({ number: 57, url: "https://github.com/harbor/music/issues/57" })
    const [request] = server.seen
    expect(server.seen.length).toBe(1)
    if (request === undefined) return
    expect([request.method, request.path]).toEqual(["POST", issuesPath])
    expect(headerOf(request, "authorization")).toBe(`Bearer ${token}`)
    expect(headerOf(request, "accept")).toBe("application/vnd.github+json")
    expect(headerOf(request, "x-github-api-version")).toBe("2022-11-28")
    expect(headerOf(request, "user-agent")).toBe(`music-backend/${version}`)
    expect(headerOf(request, "content-type")).toBe("application/json")
    expect(JSON.parse(request.body.toString())).toEqual(draft)
  })

  it.scoped("has an unknown outcome after 15 seconds without a response", function* () {
    const { server, tracker } = yield* scripted(created)
    server.fail({ fault: { kind: "hang" } })
    const running = yield* Effect.fork(Effect.flip(tracker.file(draft)))
    yield* until(() => server.seen.length === 1)
    yield* TestClock.adjust("15 seconds")
    expect((yield* Fiber.join(running))._tag).toBe("Unknown")
  })

  it.scoped("follows a 307 or 308 once, as the same request, inside the origin", function* () {
    const { server, tracker } = yield* scripted(created)
    for (const status of [307, 308]) {
      server.seen.length = 0
      server.fail({
        fault: faults.status(status, undefined, { location: `${server.url}/repositories/1/issues` })
      })
      expect((yield* tracker.file(draft)).number).toBe(57)
      expect(server.seen.map(({ method, path }) => `${method} ${path}`)).toEqual([
        `POST ${issuesPath}`,
        "POST /repositories/1/issues"
      ])
      expect(JSON.parse(server.seen[1]?.body.toString() ?? "")).toEqual(draft)
    }
  })

  it.scoped("follows neither twice, nor to another origin, nor a 301 or 302", function* () {
    const { server, tracker } = yield* scripted(created)
    const here = { location: "/repositories/1/issues" }
    const attempts: ReadonlyArray<readonly [number, Record<string, string>, number]> = [
      [307, { location: "http://127.0.0.1:1/repositories/1/issues" }, 1],
      [308, {}, 1],
      [301, here, 1],
      [302, here, 1]
    ]
    for (const [status, headers, requests] of attempts) {
      server.seen.length = 0
      server.fail({ fault: faults.status(status, undefined, headers) })
      expect(yield* Effect.flip(tracker.file(draft))).toMatchObject({
        _tag: "Refused",
        status,
        code: "moved"
      })
      expect(server.seen.length).toBe(requests)
    }
    server.seen.length = 0
    server.fail({ times: 2, fault: faults.status(307, undefined, here) })
    expect(yield* Effect.flip(tracker.file(draft))).toMatchObject({ _tag: "Refused", code: "moved" })
    expect(server.seen.length).toBe(2)
  })
})

describe("An answer of the tracker", () => {
  it.scoped.each([
    [json(400, { message: "Problems parsing JSON" }), "bad_request"],
    [json(401, { message: "Bad credentials" }), "bad_credentials"],
    [json(403, { message: "Resource not accessible by personal access token" }), "permission"],
    [json(403, { message: "no" }, { "x-ratelimit-remaining": "10" }), "permission"],
    [json(404, { message: "Not Found" }), "not_found"],
    [json(410, { message: "Issues are disabled for this repo" }), "issues_disabled"],
    [json(422, { message: "Validation Failed", errors: [{ field: "body", code: "custom" }] }), "too_long"],
    [json(422, { message: "Validation Failed", errors: [{ field: "title", code: "custom" }] }), "too_long"],
    [json(422, { message: "Validation Failed", errors: [{ field: "labels" }] }), "validation_failed"],
    [json(422, { message: "This endpoint has been spammed" }), "validation_failed"],
    [json(451, { message: "Unavailable" }), "legal_block"]
  ] as const)("refuses: %o", function* ([reply, code]) {
    const { failure } = yield* failing(reply)
    expect(failure).toMatchObject({ _tag: "Refused", status: reply.status, code, requestId: "ABCD:1234" })
  })

  it.scoped.each([
    [json(500, { message: "Server Error" }), undefined],
    [{ status: 502, headers: { "content-type": "text/html" }, body: "<html>" }, undefined],
    [json(503, { message: "later" }, { "retry-after": "7" }), 7],
    [json(504, {}), undefined],
    [json(200, []), undefined],
    [json(202, {}), undefined],
    [json(409, {}), undefined],
    [json(201, { number: "57" }), undefined],
    [json(201, { number: 57, html_url: "javascript:alert(1)" }), undefined],
    [{ status: 201, headers: { "content-type": "application/json" }, body: "{not json" }, undefined]
  ] as ReadonlyArray<readonly [Reply, number | undefined]>)(
    "leaves the outcome unknown: %o",
    function* ([reply, pause]) {
      const { failure } = yield* failing(reply)
      expect(failure._tag).toBe("Unknown")
      expect(failure.retryAfterSeconds).toBe(pause)
    }
  )

  const resetAt = String(1_800)
  it.scoped.each([
    ["Retry-After in seconds", json(403, { message: "x" }, { "retry-after": "30" }), 30],
    [
      "Retry-After as a date",
      json(429, {}, { "retry-after": new Date(1_000_000 + 45_000).toUTCString() }),
      45
    ],
    [
      "an exhausted primary limit",
      json(403, {}, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": resetAt }),
      800
    ],
    [
      "a reset that has passed",
      json(429, {}, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "900" }),
      1
    ],
    [
      "a secondary limit by its message",
      json(403, { message: "You have exceeded a secondary rate limit" }),
      60
    ],
    ["an abuse message", json(403, { message: "abuse detection" }, { "x-ratelimit-remaining": "5" }), 60],
    ["a bare 429", json(429, {}), 60],
    ["an excessive pause", json(429, {}, { "retry-after": "999999" }), 3600]
  ] as const)("is a limit, without an effect: %s", function* ([, reply, seconds]) {
    yield* TestClock.setTime(1_000_000)
    const { failure, trouble } = yield* failing(reply)
    expect(failure).toMatchObject({ _tag: "NotExecuted", retryAfterSeconds: seconds })
    expect(trouble._tag).toBe("None")
  })

  it.scoped("doubles the pause with each further limit that names none", function* () {
    const { server, tracker } = yield* scripted(created)
    server.fail({ times: 3, fault: faults.status(429, {}) })
    const pauses = yield* Effect.forEach([1, 2, 3], () => Effect.flip(tracker.file(draft)))
    expect(pauses.map(({ retryAfterSeconds }) => retryAfterSeconds)).toEqual([60, 120, 240])
    yield* tracker.file(draft)
    server.fail({ fault: faults.status(429, {}) })
    expect((yield* Effect.flip(tracker.file(draft))).retryAfterSeconds).toBe(60)
  })

  it.scoped(
    "is reported as a problem when only an operator can solve it, until an issue is filed",
    function* () {
      const { server, tracker } = yield* scripted(created)
      for (const status of [401, 403, 404, 410, 301]) {
        server.fail({ fault: faults.status(status, { message: "no" }) })
        yield* Effect.flip(tracker.file(draft))
        const trouble = yield* tracker.trouble
        expect(trouble._tag).toBe("Some")
        expect(JSON.stringify(trouble)).toContain(String(status))
        expect(JSON.stringify(trouble)).not.toContain(token)
      }
      server.fail({ fault: faults.status(500, {}) })
      yield* Effect.flip(tracker.file(draft))
      expect((yield* tracker.trouble)._tag).toBe("Some")
      yield* tracker.file(draft)
      expect((yield* tracker.trouble)._tag).toBe("None")
    }
  )
})
