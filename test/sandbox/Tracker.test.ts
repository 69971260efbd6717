/** What the simulated tracker refuses, and how it filters a list. */
import { beforeEach, expect, it } from "vitest"
import { makeTracker } from "../../sandbox/upstreams/Tracker.ts"
import { type HeaderMap, send } from "./Simulators.ts"

let clock: number
let tracker: ReturnType<typeof makeTracker>
beforeEach(() => {
  clock = Date.parse("2026-09-24T08:15:31.400Z")
  tracker = makeTracker({
    now: () => clock,
    repositories: ["harbor/music", "harbor/private"],
    tokens: [
      { token: "bot", login: "harbor-bot", rights: "write" },
      { token: "reader", login: "reader", rights: "read" },
      { token: "stranger", login: "stranger", rights: "none" }
    ]
  })
})

const issues = "/repos/harbor/music/issues"
const call = (method: string, path: string, body: unknown = "", headers: HeaderMap = {}) => {
  const usual = {
    authorization: "Bearer bot",
    accept: "application/vnd.github+json",
    "x-github-api-version": "2022-11-28",
    "user-agent": "music-backend/0.1.0",
    "content-type": "application/json"
  }
  const text = typeof body === "string" ? body : JSON.stringify(body)
  return send(tracker.handle, method, path, { ...usual, ...headers }, text)
}
const as = (token: string) => ({ authorization: `Bearer ${token}` })

it.each<[number, string, string, HeaderMap, string?, unknown?]>([
  [403, "User-Agent", "GET", { "user-agent": " " }],
  [401, "Bad credentials", "GET", as("wrong")],
  [400, "", "GET", { "x-github-api-version": "2020-01-01" }],
  [404, "Not Found", "GET", {}, "/repos/harbor/none/issues"],
  [404, "Not Found", "GET", as("stranger")],
  [403, "not accessible", "POST", as("reader"), issues, { title: "x" }],
  [400, "Problems parsing JSON", "POST", {}, issues, "{"],
  [422, "", "GET", {}, `${issues}?state=any`],
  [422, "", "GET", {}, `${issues}?since=yesterday`]
])("The simulated tracker refuses with %i %s: %s %j %s %j", async (status, message, ...rest) => {
  const [method, headers, path = issues, body] = rest
  const answer = await call(method, path, body, headers)
  expect(answer).toMatchObject({ status, body: { message: expect.stringContaining(message) } })
})

it.each([
  [{}, "title", "missing_field"],
  [{ title: {} }, "title", "invalid"],
  [{ title: "😀".repeat(257) }, "title", "custom"],
  [{ title: "x", body: "x".repeat(65_537) }, "body", "custom"]
])("The simulated tracker refuses an issue with 422: %.60j", async (content, field, code) => {
  const errors = [{ resource: "Issue", field, code }]
  const body = { message: "Validation Failed", errors }
  expect(await call("POST", issues, content)).toMatchObject({ status: 422, body })
  expect(tracker.issues("harbor/music")).toEqual([])
})

it("Issues that are disabled answer 410, and an archived repository is only read", async () => {
  const longest = { title: "😀".repeat(256), body: "é".repeat(65_536) }
  const statusOf = async (method: string, body?: unknown) => (await call(method, issues, body)).status
  expect(await statusOf("POST", longest)).toBe(201)
  tracker.archive("harbor/music")
  expect([await statusOf("POST", longest), await statusOf("GET")]).toEqual([403, 200])
  tracker.disableIssues("harbor/music")
  expect(await statusOf("POST", longest)).toBe(410)
})

it("A list is filtered; `since` is that of the last update, inclusive to the second", async () => {
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
    ["state=all&per_page=2&page=2", [2, 1]],
    ["state=all&since=2026-09-24T08:15:34Z", [4, 1]],
    ["state=all&since=2026-09-24T08:15:35Z", []]
  ] as const) {
    const { body } = await call("GET", `${issues}?${query}`)
    const numbers = (body as ReadonlyArray<{ readonly number: number }>).map(({ number }) => number)
    expect([query, numbers]).toEqual([query, expected])
  }
})
