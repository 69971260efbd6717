/** What the simulated tracker refuses, and how it filters a list. */
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
})
