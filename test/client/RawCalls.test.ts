/** `client.request`: sessions, keys, retries, and what it refuses to send. */
import { describe, expect, it } from "vitest"
import { failure, json, life, loggedIn, makeClient, refusal } from "./support/ClientWorld.ts"

describe("A raw call", () => {
  it("is signed when a session is stored, and answers with status, headers and body", async () => {
    const { answers, client, requests } = await loggedIn({ org: "zenith" })
    answers.next = () => json({ any: ["thing"] }, { "X-Any": "1" }, 201)
    expect(await client.request("get", "/api/v2/next")).toMatchObject({
      ok: true,
      value: { status: 201, headers: { "x-any": "1" }, body: { any: ["thing"] } }
    })
    const [sent] = requests
    expect(sent).toMatchObject({ method: "GET", url: "https://music.example/api/v2/next" })
    expect(Object.fromEntries(sent?.headers ?? [])).toMatchObject({
      authorization: "Bearer oat_1",
      "x-org-id": "zenith"
    })
    expect(sent?.headers.get("idempotency-key")).toBeNull()
  })

  it("refreshes an expired session and a refused one", async () => {
    const { calls, client, once, pass, requests } = await loggedIn()
    pass(life)
    once("next", () => failure(401, "unauthenticated"))
    expect(await client.request("GET", "/next")).toMatchObject({ ok: true })
    expect(calls()).toEqual(["refresh", "next", "refresh", "next"])
    expect(requests.at(-1)?.headers.get("authorization")).toBe("Bearer oat_3")
  })

  it("can demand a session or do without", async () => {
    const { client, requests } = makeClient()
    const bearer = () => requests.at(-1)?.headers.get("authorization")
    const demanded = await client.request("GET", "/x", { session: "required" })
    expect(demanded).toMatchObject({ ok: false, error: { code: "not_logged_in" } })
    expect(requests).toEqual([])
    expect(await client.request("GET", "/x")).toMatchObject({ ok: true })
    await client.login("oac_1")
    await client.request("GET", "/x", { session: "required" })
    expect(bearer()).toBe("Bearer oat_1")
    await client.request("GET", "/x", { session: "none" })
    expect(bearer()).toBeNull()
  })

  it("is repeated with the same key, which is random or the caller's", async () => {
    const { client, keys, once, requests } = makeClient()
    once("next", () => failure(503, "overloaded", {}, { retryable: true }))
    expect(await client.request("POST", "/next", { body: { a: 1 } })).toMatchObject({ ok: true })
    const [first, again] = keys()
    expect(first).toMatch(/^[0-9a-f-]{36}$/)
    expect(again).toBe(first)
    expect(new Set(requests.map(({ headers }) => headers.get("x-request-id"))).size).toBe(1)
    const own = "a-key-of-the-caller"
    await client.request("POST", "/next", { idempotencyKey: own })
    await client.request("POST", "/next", { headers: { "Idempotency-Key": own } })
    expect(keys().slice(2)).toEqual([own, own])
    await client.request("POST", "/next")
    expect(keys().at(-1)).not.toBe(first)
  })

  it("keeps the client's own headers", async () => {
    const { client, requests } = await loggedIn({ version: "1.2.3" })
    const names = ["Authorization", "X-Request-Id", "X-TESTING-environment-key", "X-Music-Source", "X-Org-Id"]
    const own = Object.fromEntries(
      [...names, "x-music-telemetry", "X-Music-Client-Version"].map((name) => [name, "evil"])
    )
    await client.request("GET", "/x", { headers: { ...own, "X-Mine": "mine", Accept: "text/csv" } })
    await client.logout()
    await client.request("GET", "/x", { headers: own })
    const sent = requests.map(({ headers }) => Object.fromEntries(headers))
    expect(JSON.stringify(sent)).not.toContain("evil")
    expect(sent[0]).toMatchObject({
      authorization: "Bearer oat_1",
      "x-mine": "mine",
      accept: "text/csv",
      "x-music-client-version": "1.2.3",
      "x-org-id": "acme"
    })
  })

  it.each([
    "//evil.example/x",
    "/\\evil.example/x",
    "/@evil.example",
    "/:80@evil.example",
    "/x?y=//evil.example"
  ])("sends the path %j to the service alone", async (path) => {
    for (const [baseUrl, below] of [
      ["https://music.example", "/"],
      ["https://music.example/music/", "/music/"],
      [" https://MUSIC.example/music/ ", "/music/"]
    ] as const) {
      const { client, requests } = await loggedIn({ baseUrl })
      await client.request("GET", path)
      const { origin, pathname } = new URL(requests[0]?.url ?? "")
      expect([origin, pathname.startsWith(below), requests.length]).toEqual([
        "https://music.example",
        true,
        1
      ])
    }
  })

  it("encodes its query and leaves out what is not given", async () => {
    const { client, requests } = makeClient()
    const query = { text: "a&b=c d/é", count: 2, on: false, not: undefined, none: null }
    await client.request("GET", "/x", { query: query as never })
    await client.request("GET", "/x?y=1")
    expect(requests.map(({ url }) => url)).toEqual([
      "https://music.example/x?text=a%26b%3Dc+d%2F%C3%A9&count=2&on=false",
      "https://music.example/x?y=1"
    ])
  })

  const track = Object.assign(new (class Track {})(), { a: 1 })
  it.each([{ a: 1 }, [1], "text", 0, null, false, new Date(0), track])("sends %o as JSON", async (body) => {
    const { client, requests } = makeClient()
    await client.request("POST", "/x", { body })
    expect(requests[0]?.body).toBe(JSON.stringify(body))
    expect(requests[0]?.headers.get("content-type")).toBe("application/json")
  })

  it("has no body after HEAD and 204", async () => {
    const { answers, client } = makeClient()
    for (const [method, status] of [
      ["HEAD", 200],
      ["DELETE", 204]
    ] as const) {
      answers.x = () => new Response(null, { status, headers: { "x-count": "3" } })
      const value = { status, headers: { "x-count": "3" }, body: undefined }
      expect(await client.request(method, "/x")).toMatchObject({ ok: true, value })
    }
  })

  it("takes a text from the service, which names the request, and not from an intermediary", async () => {
    const { answers, client, pass } = makeClient()
    answers.x = () => new Response("<html>", { headers: { "x-request-id": "a-request" } })
    expect(await client.request("GET", "/x")).toMatchObject({ ok: true, value: { body: "<html>" } })
    answers.x = () => {
      // No time is left for another attempt.
      pass(60_000)
      return new Response("<html>")
    }
    const error = { code: "unexpected_answer", details: { reason: "not_json" } }
    expect(await client.request("GET", "/x")).toMatchObject({ ok: false, error })
  })
})

const cyclic: Record<string, unknown> = {}
cyclic.self = cyclic

const methods = ["CONNECT", "TRACE", "PUNT", "", "GET ", 7, null, undefined]
const paths = [
  ...["no-slash", "", "https://evil.example/x", "/../x", "/../../x", "/a/../../x", "/%2e%2e/x", "/.%2E/x"],
  ...["/%252e%252e%252fx", "/..;a=b/x", "/..%2fx", "/a%2f..%2f..%2fx", "/..%5cx", "/..\\x", "/x#y", "/x\ny"],
  ...["/x\u0000", 7, null, undefined]
]

/** The member that is named, the options, and the method. */
const options: ReadonlyArray<readonly [string, object, string?]> = [
  ...["Host", "Content-Length", "expect", "Upgrade", "Keep-Alive", "Transfer-Encoding"].map(
    (name) => [`headers.${name.toLowerCase()}`, { headers: { [name]: "5" } }] as const
  ),
  ["headers", { headers: "a: 1" }],
  ["headers", { headers: new Headers({ a: "1" }) }],
  ["headers", { headers: new Map([["a", "1"]]) }],
  ["headers.a", { headers: { a: 1 } }],
  ["headers.a", { headers: { A: "line\nbreak" } }],
  ["headers.constructor", { headers: { constructor: 1 } }],
  ["headers.é", { headers: { é: "1" } }],
  ["query", { query: "a=1" }],
  ["query", { query: new URLSearchParams("a=1") }],
  ["query.a", { query: { a: { b: 1 } } }],
  ["query.a", { query: { a: [1] } }],
  ["query.a", { query: { a: Symbol("a") } }],
  ["session", { session: "never" }],
  ["body", { body: {} }, "GET"],
  ["body", { body: {} }, "HEAD"],
  ...[
    new FormData(),
    new Map(),
    new Uint8Array(3),
    new Blob(["x"]),
    Promise.resolve({}),
    () => 1,
    1n,
    cyclic
  ].map((body) => ["body", { body }] as const),
  ["body", { body: new URLSearchParams("a=1") }],
  ["body", { body: Symbol("x") }]
]

describe("A raw call is refused before it is sent:", () => {
  it.each([
    ...methods.map((method) => ["method", method, "/x", {}] as const),
    ...paths.map((path) => ["path", "GET", path, {}] as const),
    ...options.map(([name, given, method = "POST"]) => [name, method, "/x", given] as const)
  ])("a wrong %s (%j %j %o)", async (name, method, path, given) => {
    const { client, requests } = await loggedIn({ baseUrl: "https://music.example/music" })
    const answer = await client.request(method as string, path as string, given)
    expect(answer).toMatchObject(refusal(name))
    expect(requests).toEqual([])
  })
})
