/** What the simulated tracker refuses, and how it filters a list. */
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { startTracker, type TrackerSimulator } from "../../sandbox/upstreams/Tracker.ts"
import { type HeaderMap, send } from "./IamBench.ts"

let clock = 0
let tracker: TrackerSimulator
beforeEach(async () => {
  clock = Date.parse("2026-09-24T08:15:31.400Z")
  tracker = await startTracker({
    now: () => clock,
    repositories: ["harbor/music", "harbor/private"],
    tokens: [
      { token: "bot", login: "harbor-bot", rights: "write" },
      { token: "reader", login: "reader", rights: "read" },
      { token: "stranger", login: "stranger", rights: "none" }
    ]
  })
})
afterEach(() => tracker.close())

const issues = "/repos/harbor/music/issues"
const call = (method: string, path: string, body: unknown = undefined, headers: HeaderMap = {}) => {
  const usual = {
    authorization: "Bearer bot",
    accept: "application/vnd.github+json",
    "x-github-api-version": "2022-11-28",
    "user-agent": "music-backend/0.1.0",
    "content-type": "application/json"
  }
  const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body)
  return send(tracker.url, method, path, { ...usual, ...headers }, text)
}
const as = (token: string) => ({ authorization: `Bearer ${token}` })

describe("The simulated tracker refuses", () => {
  it.each<readonly [number, string, string, HeaderMap, string?, unknown?]>([
    [403, "User-Agent", "GET", { "user-agent": " " }],
    [401, "Bad credentials", "GET", { authorization: "Bearer wrong" }],
    [401, "Bad credentials", "GET", { authorization: "Basic abc" }],
    [401, "Bad credentials", "GET", { authorization: "" }],
    [400, "", "GET", { "x-github-api-version": "2020-01-01" }],
    [404, "Not Found", "GET", {}, `${issues}/`],
    [404, "Not Found", "GET", {}, "/repos/harbor/none/issues"],
    [404, "Not Found", "GET", as("stranger")],
    [404, "Not Found", "POST", as("stranger"), issues, { title: "x" }],
    [403, "not accessible", "POST", as("reader"), issues, { title: "x" }],
    [400, "Problems parsing JSON", "POST", {}, issues, "{"],
    [400, "should be a JSON object", "POST", {}, issues, "[]"],
    ...["state=any", "sort=age", "direction=up", "since=yesterday"].map(
      (query) => [422, "", "GET", {}, `${issues}?${query}`] as const
    )
  ])("with %i %s: %s %j %s %j", async (status, message, method, headers, path = issues, body) => {
    const answer = await call(method, path, body, headers)
    expect(answer.status).toBe(status)
    expect(answer.json).toMatchObject({ message: expect.stringContaining(message) })
    if (message === "not accessible") {
      expect(answer.headers["x-accepted-github-permissions"]).toBe("issues=write")
      expect(answer.headers["x-ratelimit-remaining"]).not.toBe("0")
    }
  })

  it.each([
    [{}, "title", "missing_field"],
    [{ title: "" }, "title", "missing_field"],
    [{ title: {} }, "title", "invalid"],
    [{ title: "😀".repeat(257) }, "title", "custom"],
    [{ title: "x", body: 1 }, "body", "invalid"],
    [{ title: "x", body: "x".repeat(65_537) }, "body", "custom"]
  ])("an issue with 422: %.60j", async (body, field, code) => {
    const answer = await call("POST", issues, body)
    const errors = [{ resource: "Issue", field, code }]
    expect([answer.status, answer.json]).toMatchObject([422, { message: "Validation Failed", errors }])
    expect(tracker.issues("harbor/music")).toEqual([])
  })

  it("issues that are disabled with 410, and writes in an archived repository with 403", async () => {
    const longest = { title: "😀".repeat(256), body: "é".repeat(65_536) }
    expect((await call("POST", issues, longest)).status).toBe(201)
    tracker.archive("harbor/music")
    expect((await call("POST", issues, longest)).status).toBe(403)
    expect((await call("GET", issues)).status).toBe(200)
    tracker.disableIssues("harbor/music")
    expect((await call("POST", issues, longest)).status).toBe(410)
  })
})

it("The simulated tracker filters a list; `since` is that of the last update, inclusive to the second", async () => {
  await call("POST", issues, { title: "first" })
  clock += 1000
  tracker.addPullRequest("harbor/music", { login: "dev", title: "change" })
  clock += 1000
  tracker.addIssue("harbor/music", { login: "Dev", title: "theirs", body: "hello @harbor-bot" })
  clock += 1000
  await call("POST", issues, { title: "fourth" })
  await call("PATCH", `${issues}/1`, { state: "closed" })
  for (const [query, expected] of [
    ["state=all", [4, 3, 2, 1]],
    ["state=closed", [1]],
    ["state=all&direction=asc", [1, 2, 3, 4]],
    ["state=all&sort=updated", [4, 1, 3, 2]],
    ["state=all&sort=created&direction=desc&per_page=2", [4, 3]],
    ["state=all&per_page=2&page=2", [2, 1]],
    ["state=all&per_page=2&page=3", []],
    ["state=all&since=2026-09-24T08:15:34Z", [4, 1]],
    ["state=all&since=2026-09-24T08:15:35Z", []]
  ] as const) {
    const { json } = await call("GET", `${issues}?${query}`)
    expect([query, (json as ReadonlyArray<{ readonly number: number }>).map(({ number }) => number)]).toEqual(
      [query, expected]
    )
  }
})
