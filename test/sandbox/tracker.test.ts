import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { startTracker, type TrackerSimulator } from "../../sandbox/upstreams/Tracker.ts"

let clock = 0
let tracker: TrackerSimulator
const start = Date.parse("2026-09-24T08:15:31.400Z")
const bot = "github_pat_bot"

beforeEach(async () => {
  clock = start
  tracker = await startTracker({
    now: () => clock,
    repositories: ["harbor/music", "harbor/private"],
    tokens: [
      { token: bot, login: "harbor-bot", rights: "write" },
      { token: "github_pat_reader", login: "reader", rights: "read" },
      { token: "github_pat_stranger", login: "stranger", rights: "none" }
    ]
  })
})
afterEach(() => tracker.close())

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The untyped body: tests match it against shapes. */
  readonly json: unknown
}

const call = async (
  method: string,
  path: string,
  options: {
    readonly body?: unknown
    readonly token?: string
    readonly headers?: Record<string, string>
  } = {}
): Promise<Answer> => {
  const response = await fetch(path.startsWith("http") ? path : `${tracker.url}${path}`, {
    method,
    redirect: "manual",
    headers: {
      authorization: `Bearer ${options.token ?? bot}`,
      accept: "application/vnd.github+json",
      "x-github-api-version": "2022-11-28",
      "user-agent": "music-backend/0.1.0",
      "content-type": "application/json",
      ...options.headers
    },
    ...(options.body === undefined
      ? {}
      : { body: typeof options.body === "string" ? options.body : JSON.stringify(options.body) })
  })
  const text = await response.text()
  const json: unknown = /^[[{]/.test(text) ? JSON.parse(text) : undefined
  return { status: response.status, headers: response.headers, text, json }
}

const issues = "/repos/harbor/music/issues"
const create = (title: unknown, more: Readonly<Record<string, unknown>> = {}, token = bot) =>
  call("POST", issues, { body: { title, ...more }, token })
const list = (query = "", token = bot) => call("GET", `${issues}${query}`, { token })
// A list answers with an array of issues.
const numbers = (answer: Answer): ReadonlyArray<number> =>
  (answer.json as ReadonlyArray<{ readonly number: number }>).map((issue) => issue.number)
const titles = () => tracker.issues("harbor/music").map((issue) => issue.title)
const refusal = (message: string) => expect.objectContaining({ message: expect.stringContaining(message) })

describe("every answer", () => {
  it("carries the rate-limit headers, a request id and the JSON content type", async () => {
    for (const answer of [await list(), await call("GET", "/nowhere"), await create("")]) {
      expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8")
      expect(answer.headers.get("x-github-request-id")).toMatch(/^[0-9A-F]{32}$/)
      expect(answer.headers.get("x-ratelimit-limit")).toBe("5000")
      expect(answer.headers.get("x-ratelimit-resource")).toBe("core")
      expect(answer.headers.get("x-ratelimit-reset")).toBe(String(Math.ceil(start / 1000) + 3600))
    }
    expect((await list()).headers.get("x-ratelimit-used")).toBe("4")
    expect((await list()).headers.get("x-ratelimit-remaining")).toBe("4995")
  })
})

describe("before any route it refuses", () => {
  it("a blank user agent", async () => {
    const answer = await call("GET", issues, { headers: { "user-agent": " " } })
    expect([answer.status, answer.json]).toEqual([403, refusal("User-Agent")])
  })

  it.each(["Bearer wrong", "Basic abc", ""])("the authorization %j", async (authorization) => {
    const answer = await call("GET", issues, { headers: { authorization } })
    expect([answer.status, answer.json]).toEqual([401, refusal("Bad credentials")])
  })

  it("an unknown API version, while the default and the newer one are served", async () => {
    const withVersion = (version: string) =>
      call("GET", issues, { headers: { "x-github-api-version": version } })
    expect((await withVersion("2020-01-01")).status).toBe(400)
    expect((await withVersion("2026-03-10")).status).toBe(200)
  })

  it("a trailing slash, an unknown repository, and one that the token cannot see: all with 404", async () => {
    for (const answer of [
      await call("GET", `${issues}/`),
      await call("GET", "/repos/harbor/none/issues"),
      await list("", "github_pat_stranger"),
      await create("x", {}, "github_pat_stranger")
    ])
      expect([answer.status, answer.json]).toEqual([404, refusal("Not Found")])
  })
})

describe("creating an issue", () => {
  it("answers 201 with the issue and its location", async () => {
    const answer = await create("[report] Playback stops", { body: "text" })
    expect(answer.status).toBe(201)
    expect(answer.headers.get("location")).toBe(`${tracker.url}${issues}/1`)
    expect(answer.json).toMatchObject({
      number: 1,
      title: "[report] Playback stops",
      state: "open",
      html_url: "https://github.com/harbor/music/issues/1",
      url: `${tracker.url}${issues}/1`,
      user: { login: "harbor-bot" },
      labels: [],
      body: "text",
      created_at: "2026-09-24T08:15:31Z",
      updated_at: "2026-09-24T08:15:31Z",
      closed_at: null,
      comments: 0
    })
  })

  it("is not idempotent: the same request creates another issue", async () => {
    await create("same")
    await create("same")
    expect(titles()).toEqual(["same", "same"])
  })

  it("shares numbers with pull requests", async () => {
    await create("one")
    expect(tracker.addPullRequest("harbor/music")).toBe(2)
    expect((await create("three")).json).toMatchObject({ number: 3 })
  })

  it("accepts owner and repository in any case, a number as a title, and unknown fields", async () => {
    expect((await call("POST", "/repos/Harbor/MUSIC/issues", { body: { title: 7, status: 5 } })).status).toBe(
      201
    )
    expect(titles()).toEqual(["7"])
  })

  it.each([
    ["no title", {}, "title", "missing_field"],
    ["an empty title", { title: "" }, "title", "missing_field"],
    ["a title that is an object", { title: {} }, "title", "invalid"],
    ["a title of 257 code points", { title: "😀".repeat(257) }, "title", "custom"],
    ["a body that is no string", { title: "x", body: 1 }, "body", "invalid"],
    ["a body of 65,537 characters", { title: "x", body: "x".repeat(65_537) }, "body", "custom"]
  ])("answers 422 to %s", async (_, body, field, code) => {
    const answer = await call("POST", issues, { body })
    expect([answer.status, answer.json]).toEqual([
      422,
      expect.objectContaining({
        message: "Validation Failed",
        errors: [expect.objectContaining({ resource: "Issue", field, code })]
      })
    ])
    expect(titles()).toEqual([])
  })

  it("accepts 256 code points of title and 65,536 characters of body", async () => {
    const body = "é".repeat(65_536)
    expect((await create("😀".repeat(256), { body })).status).toBe(201)
  })

  it("answers 400 to text that is not JSON, and to JSON that is not an object", async () => {
    expect((await call("POST", issues, { body: "{" })).json).toEqual(refusal("Problems parsing JSON"))
    const answer = await call("POST", issues, { body: "[]" })
    expect([answer.status, answer.json]).toEqual([400, refusal("should be a JSON object")])
  })

  it("refuses a token without the permission and names it in a header", async () => {
    const answer = await create("x", {}, "github_pat_reader")
    expect([answer.status, answer.json]).toEqual([403, refusal("not accessible")])
    expect(answer.headers.get("x-accepted-github-permissions")).toBe("issues=write")
    expect(answer.headers.get("x-ratelimit-remaining")).not.toBe("0")
  })

  it("answers 410 when issues are disabled, and 403 in an archived repository that can still be read", async () => {
    tracker.archive("harbor/music")
    expect((await create("x")).json).toEqual(refusal("archived"))
    expect((await list()).status).toBe(200)
    tracker.disableIssues("harbor/music")
    expect((await create("x")).status).toBe(410)
    expect((await list()).json).toEqual(refusal("disabled"))
  })
})

describe("reading and changing one issue", () => {
  it("closes it and comments on it", async () => {
    await create("x", { body: "first" })
    clock += 10_000
    const closed = await call("PATCH", `${issues}/1`, {
      body: { state: "closed", state_reason: "not_planned" }
    })
    expect(closed.json).toMatchObject({
      state: "closed",
      state_reason: "not_planned",
      closed_at: "2026-09-24T08:15:41Z",
      updated_at: "2026-09-24T08:15:41Z"
    })
    const comment = await call("POST", `${issues}/1/comments`, { body: { body: "Duplicate of #2" } })
    expect([comment.status, comment.json]).toEqual([
      201,
      expect.objectContaining({ body: "Duplicate of #2" })
    ])
    expect((await list("?state=all")).json).toMatchObject([{ comments: 1, state: "closed" }])
    expect((await call("PATCH", `${issues}/1`, { body: { state: "open" } })).json).toMatchObject({
      closed_at: null
    })
  })

  it("ignores a too long body of an update, with 200", async () => {
    await create("x", { body: "kept" })
    const answer = await call("PATCH", `${issues}/1`, { body: { body: "x".repeat(300_000), title: "new" } })
    expect([answer.status, answer.json]).toEqual([
      200,
      expect.objectContaining({ body: "kept", title: "new" })
    ])
  })

  it("returns the account of the token", async () => {
    expect((await call("GET", "/user")).json).toMatchObject({ login: "harbor-bot", type: "User" })
  })
})

describe("listing issues", () => {
  const fill = async () => {
    await create("first")
    clock += 1000
    tracker.addPullRequest("harbor/music", { login: "dev", title: "change" })
    clock += 1000
    tracker.addIssue("harbor/music", { login: "Dev", title: "theirs", body: "hello @harbor-bot" })
    clock += 1000
    await create("fourth")
    await call("PATCH", `${issues}/1`, { body: { state: "closed" } })
  }

  it("returns open ones by default, newest first, including pull requests", async () => {
    await fill()
    const answer = await list()
    expect(numbers(answer)).toEqual([4, 3, 2])
    expect(answer.json).toMatchObject([{}, {}, { pull_request: { url: expect.any(String) } }])
    expect(answer.json).not.toHaveProperty("0.pull_request")
  })

  it.each([
    ["state=all", [4, 3, 2, 1]],
    ["state=closed", [1]],
    ["state=all&direction=asc", [1, 2, 3, 4]],
    ["state=all&sort=updated", [4, 1, 3, 2]],
    ["state=all&sort=created&direction=desc&per_page=2", [4, 3]],
    ["state=all&per_page=2&page=2", [2, 1]],
    ["state=all&per_page=2&page=3", []]
  ])("filters by %s", async (query, expected) => {
    await fill()
    expect(numbers(await list(`?${query}`))).toEqual(expected)
  })

  it("compares `since` with the time of the last update, inclusive to the second", async () => {
    await fill()
    expect(numbers(await list("?state=all&since=2026-09-24T08:15:34Z"))).toEqual([4, 1])
    expect(numbers(await list("?state=all&since=2026-09-24T08:15:35Z"))).toEqual([])
    expect(numbers(await list("?state=all&since=2026-09-24T08:10:31Z")).length).toBe(4)
  })

  it.each(["state=any", "sort=age", "direction=up", "since=yesterday"])(
    "answers 422 to %s",
    async (query) => {
      expect((await list(`?${query}`)).status).toBe(422)
    }
  )

  it("pages by links that keep the query, 30 a page by default and at most 100", async () => {
    for (let index = 0; index < 105; index += 1)
      tracker.addIssue("harbor/music", { login: "dev", title: `issue ${index}` })
    expect(numbers(await list()).length).toBe(30)
    const first = await list("?state=all&per_page=500")
    expect(numbers(first).length).toBe(100)
    const relations = (answer: Answer) =>
      new Map(
        [...(answer.headers.get("link") ?? "").matchAll(/<([^>]+)>; rel="([a-z]+)"/g)].map(([, url, rel]) => [
          rel,
          url ?? ""
        ])
      )
    expect([...relations(first).keys()]).toEqual(["next", "last"])
    const next = relations(first).get("next") ?? ""
    expect(next).toBe(`${tracker.url}${issues}?state=all&per_page=500&page=2`)
    const second = await call("GET", next)
    expect(numbers(second)).toEqual([5, 4, 3, 2, 1])
    expect([...relations(second).keys()]).toEqual(["prev", "first"])
    expect((await list("?per_page=100&state=closed")).headers.get("link")).toBeNull()
  })

  it("omits a new issue for the lag", async () => {
    tracker.setListLag(20)
    await create("late")
    clock += 19_999
    expect(numbers(await list("?state=all"))).toEqual([])
    clock += 1
    expect(numbers(await list("?state=all"))).toEqual([1])
  })
})

describe("limits", () => {
  it.each([
    [{}, 403, null],
    [{ retryAfter: 60 }, 403, "60"],
    [{ status: 429, retryAfter: 5 }, 429, "5"],
    [{ status: 429 }, 429, null]
  ] as const)(
    "answers a secondary limit %j once, and creates nothing",
    async (options, status, retryAfter) => {
      tracker.limits.secondary(options)
      const answer = await create("x")
      expect([answer.status, answer.json]).toEqual([status, refusal("secondary rate limit")])
      expect(answer.headers.get("retry-after")).toBe(retryAfter)
      expect(answer.headers.get("x-ratelimit-remaining")).not.toBe("0")
      expect(titles()).toEqual([])
      expect((await create("x")).status).toBe(201)
    }
  )

  it.each([403, 429] as const)("exhausts the primary limit with %i until its reset", async (status) => {
    tracker.limits.primary({ resetSeconds: 100, status })
    const answer = await create("x")
    expect([answer.status, answer.json]).toEqual([status, refusal("rate limit exceeded")])
    expect(answer.headers.get("x-ratelimit-remaining")).toBe("0")
    expect(answer.headers.get("x-ratelimit-reset")).toBe(String(Math.ceil((start + 100_000) / 1000)))
    expect(answer.headers.get("retry-after")).toBeNull()
    clock += 99_999
    expect((await list()).status).toBe(status)
    clock += 1
    expect((await create("x")).status).toBe(201)
    expect(titles()).toEqual(["x"])
  })
})

describe("moved repositories", () => {
  it("answers 301 to reads and 307 to writes, with the new location", async () => {
    await create("before")
    tracker.move("harbor/music", "harbor/player")
    const read = await list("?state=all")
    expect([read.status, read.headers.get("location")]).toEqual([
      301,
      `${tracker.url}/repos/harbor/player/issues?state=all`
    ])
    const write = await create("after")
    expect([write.status, write.headers.get("location")]).toEqual([
      307,
      `${tracker.url}/repos/harbor/player/issues`
    ])
    const followed = await call("POST", write.headers.get("location") ?? "", { body: { title: "after" } })
    expect([followed.status, followed.json]).toEqual([201, expect.objectContaining({ number: 2 })])
    expect(tracker.issues("harbor/player").map((issue) => issue.title)).toEqual(["before", "after"])
  })
})

describe("unknown outcomes and other failures", () => {
  it.each(["500", "502", "503", "504"] as const)("answers %s before creating the issue", async (failure) => {
    tracker.failNext(failure)
    expect((await create("x")).status).toBe(Number(failure))
    expect(titles()).toEqual([])
  })

  it.each(["500-after", "502-after", "503-after", "504-after"] as const)(
    "answers %s after creating the issue",
    async (failure) => {
      tracker.failNext(failure)
      expect((await create("x")).status).toBe(Number.parseInt(failure, 10))
      expect(titles()).toEqual(["x"])
    }
  )

  it("returns a 502 as the edge's HTML", async () => {
    tracker.failNext("502-after")
    const answer = await create("x")
    expect(answer.headers.get("content-type")).toBe("text/html")
    expect(answer.text).toContain("<html>")
    expect(answer.headers.get("x-github-request-id")).not.toBeNull()
  })

  it("drops the connection before or after creating", async () => {
    tracker.failNext("drop")
    await expect(create("x")).rejects.toThrow()
    expect(titles()).toEqual([])
    tracker.failNext("drop-after")
    await expect(create("y")).rejects.toThrow()
    expect(titles()).toEqual(["y"])
  })

  it("hangs after creating the issue, until the caller closes the connection", async () => {
    tracker.failNext("hang-after")
    const attempt = fetch(`${tracker.url}${issues}`, {
      method: "POST",
      body: JSON.stringify({ title: "x" }),
      headers: { authorization: `Bearer ${bot}`, "user-agent": "music-backend/0.1.0" },
      signal: AbortSignal.timeout(100)
    })
    await expect(attempt).rejects.toThrow()
    expect(titles()).toEqual(["x"])
  })

  it.each([
    ["bad-credentials", 401],
    ["no-permission", 403],
    ["blocked", 403],
    ["legal", 451],
    ["spammed", 422]
  ] as const)("refuses with %s", async (failure, status) => {
    tracker.failNext(failure, { times: 2 })
    expect((await create("x")).status).toBe(status)
    expect((await create("x")).status).toBe(status)
    expect((await list()).status).toBe(200)
    expect((await create("x")).status).toBe(201)
  })

  it("can fail reads too", async () => {
    tracker.failNext("503", { method: "GET" })
    expect((await list()).status).toBe(503)
    expect((await list()).status).toBe(200)
  })
})

describe("tokens", () => {
  it("are recorded, given or generated", () => {
    const made = tracker.addToken("second-bot", "write")
    expect(tracker.minted).toContain(bot)
    expect(tracker.minted).toContain(made)
  })

  it("can be revoked, and can lose and regain their rights", async () => {
    tracker.setRights(bot, "read")
    expect((await create("x")).status).toBe(403)
    tracker.setRights(bot, "write")
    expect((await create("x")).status).toBe(201)
    tracker.revokeToken(bot)
    expect((await create("x")).status).toBe(401)
  })
})

describe("the repository itself", () => {
  it("returns whether issues are enabled, and the rights of the token's owner", async () => {
    const found = await call("GET", "/repos/harbor/music")
    expect(found.status).toBe(200)
    expect(found.json).toMatchObject({
      full_name: "harbor/music",
      archived: false,
      has_issues: true,
      permissions: { push: true, pull: true }
    })
    tracker.disableIssues("harbor/music")
    tracker.archive("harbor/music")
    const closed = await call("GET", "/repos/harbor/music", { token: "github_pat_reader" })
    expect(closed.json).toMatchObject({ archived: true, has_issues: false, permissions: { push: false } })
  })

  it("answers 404 without rights, and redirects after a move", async () => {
    expect((await call("GET", "/repos/harbor/music", { token: "github_pat_stranger" })).status).toBe(404)
    tracker.move("harbor/music", "harbor/tunes")
    const moved = await call("GET", "/repos/harbor/music")
    expect(moved.status).toBe(301)
    expect(moved.headers.get("location")).toBe(`${tracker.url}/repos/harbor/tunes`)
  })
})
