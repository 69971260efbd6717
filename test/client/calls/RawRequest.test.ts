/** `client.request`: sessions, keys, retries, and what it refuses to send. */
import { describe, expect, it } from "vitest"
import type { RawRequest } from "../../../client/index.ts"
import { json, life, startClient } from "../support/RecordingService.ts"
import { failure } from "../support/StubService.ts"

const loggedIn = async (given: Parameters<typeof startClient>[0] = {}) => {
  const parts = startClient(given)
  await parts.client.login("oac_1")
  parts.requests.length = 0
  return parts
}

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
    expect(sent?.headers.get("authorization")).toBe("Bearer oat_1")
    expect(sent?.headers.get("x-org-id")).toBe("zenith")
    expect(sent?.headers.get("idempotency-key")).toBeNull()
  })

  it("refreshes an expired session and a refused one", async () => {
    const { answers, client, pass, requests } = await loggedIn()
    pass(life)
    let refused = false
    answers.next = () => {
      if (refused) return json({})
      refused = true
      return failure(401, "unauthenticated")
    }
    expect(await client.request("GET", "/next")).toMatchObject({ ok: true })
    expect(requests.map(({ url }) => new URL(url).pathname)).toEqual([
      "/api/v1/auth/refresh",
      "/next",
      "/api/v1/auth/refresh",
      "/next"
    ])
    expect(requests.at(-1)?.headers.get("authorization")).toBe("Bearer oat_3")
  })

  it("can demand a session or do without", async () => {
    const { client, requests } = startClient()
    expect(await client.request("GET", "/x", { session: "required" })).toMatchObject({
      ok: false,
      error: { code: "not_logged_in" }
    })
    expect(requests).toEqual([])
    expect(await client.request("GET", "/x")).toMatchObject({ ok: true })
    await client.login("oac_1")
    await client.request("GET", "/x", { session: "required" })
    expect(requests.at(-1)?.headers.get("authorization")).toBe("Bearer oat_1")
    await client.request("GET", "/x", { session: "none" })
    expect(requests.at(-1)?.headers.get("authorization")).toBeNull()
  })

  it("is repeated with the same key, which is random or the caller's", async () => {
    const { answers, client, requests } = startClient()
    let left = 2
    answers.next = () => {
      left -= 1
      return left >= 0
        ? json({ error: { code: "overloaded", message: "m", hint: "h", retryable: true } }, {}, 503)
        : json({})
    }
    expect(await client.request("POST", "/next", { body: { a: 1 } })).toMatchObject({ ok: true })
    const keys = requests.map(({ headers }) => headers.get("idempotency-key"))
    expect(keys).toHaveLength(3)
    expect(new Set(keys).size).toBe(1)
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/)
    expect(new Set(requests.map(({ headers }) => headers.get("x-request-id"))).size).toBe(1)
    await client.request("POST", "/next", { idempotencyKey: "a-key-of-the-caller" })
    expect(requests.at(-1)?.headers.get("idempotency-key")).toBe("a-key-of-the-caller")
    await client.request("POST", "/next", { headers: { "Idempotency-Key": "a-key-of-the-caller" } })
    expect(requests.at(-1)?.headers.get("idempotency-key")).toBe("a-key-of-the-caller")
    await client.request("POST", "/next")
    expect(requests.at(-1)?.headers.get("idempotency-key")).not.toBe(keys[0])
  })

  it.each(["Host", "Content-Length", "expect", "Upgrade", "Keep-Alive", "Transfer-Encoding"])(
    "refuses the header %s of the connection",
    async (name) => {
      const { client, requests } = await loggedIn()
      expect(await client.request("GET", "/x", { headers: { [name]: "5" } })).toMatchObject({
        ok: false,
        error: { code: "invalid_input", details: { fields: [{ path: `headers.${name.toLowerCase()}` }] } }
      })
      expect(requests).toEqual([])
    }
  )

  it("keeps the client's own headers", async () => {
    const { client, requests } = await loggedIn({ version: "1.2.3" })
    const own = {
      Authorization: "Bearer evil",
      "X-Request-Id": "evil-request-id",
      "X-TESTING-environment-key": "evil",
      "X-Music-Source": "evil",
      "x-music-telemetry": "evil",
      "X-Music-Client-Version": "9.9.9",
      "X-Org-Id": "evil"
    }
    await client.request("GET", "/x", { headers: { ...own, "X-Mine": "mine", Accept: "text/csv" } })
    const sent = Object.fromEntries(requests[0]?.headers ?? [])
    expect(JSON.stringify(sent)).not.toContain("evil")
    expect(sent).toMatchObject({
      authorization: "Bearer oat_1",
      "x-mine": "mine",
      accept: "text/csv",
      "x-music-client-version": "1.2.3",
      "x-org-id": "acme"
    })
    await client.logout()
    await client.request("GET", "/x", { headers: own })
    expect(JSON.stringify(Object.fromEntries(requests.at(-1)?.headers ?? []))).not.toContain("evil")
  })

  it.each([
    "no-slash",
    "",
    "https://evil.example/x",
    "/../x",
    "/../../x",
    "/a/../../x",
    "/%2e%2e/x",
    "/%252e%252e%252fx",
    "/..;a=b/x",
    "/.%2E/x",
    "/..%2fx",
    "/a%2f..%2f..%2fx",
    "/..%5cx",
    "/..\\x",
    "/x#y",
    "/x\ny",
    "/x\u0000",
    7,
    null,
    undefined
  ])("refuses the path %j", async (path) => {
    const { client, requests } = await loggedIn({ baseUrl: "https://music.example/music" })
    expect(await client.request("GET", path as string)).toMatchObject({
      ok: false,
      error: { code: "invalid_input", requestId: null, message: expect.stringContaining("path") }
    })
    expect(requests).toEqual([])
  })

  it.each([
    "//evil.example/x",
    "/\\evil.example/x",
    "/@evil.example",
    "/:80@evil.example",
    "/x?y=//evil.example"
  ])("sends the path %j to the service alone", async (path) => {
    for (const baseUrl of ["https://music.example", "https://music.example/music/"]) {
      const { client, requests } = await loggedIn({ baseUrl })
      await client.request("GET", path)
      expect(requests).toHaveLength(1)
      const { origin, pathname } = new URL(requests[0]?.url ?? "")
      expect(origin).toBe("https://music.example")
      expect(pathname.startsWith(baseUrl.endsWith("/music/") ? "/music/" : "/")).toBe(true)
    }
  })

  it("never follows a redirect with its session", async () => {
    const { answers, client, requests } = await loggedIn()
    answers.x = () => new Response(null, { status: 307, headers: { location: "https://evil.example/" } })
    expect(await client.request("POST", "/x")).toMatchObject({
      ok: false,
      error: { code: "unexpected_answer", status: 307, retryable: false }
    })
    expect(requests).toHaveLength(1)
  })

  it("encodes its query and leaves out what is not given", async () => {
    const { client, requests } = startClient()
    const query = { text: "a&b=c d/é", count: 2, on: false, not: undefined, none: null }
    await client.request("GET", "/x", { query: query as unknown as NonNullable<RawRequest["query"]> })
    expect(requests[0]?.url).toBe("https://music.example/x?text=a%26b%3Dc+d%2F%C3%A9&count=2&on=false")
    await client.request("GET", "/x?y=1")
    expect(requests[1]?.url).toBe("https://music.example/x?y=1")
  })

  it.each<[string, unknown]>([
    ["query", "a=1"],
    ["query", new URLSearchParams("a=1")],
    ["query.a", { a: { b: 1 } }],
    ["query.a", { a: [1] }],
    ["query.a", { a: Symbol("a") }]
  ])("refuses a wrong %s", async (path, query) => {
    const { client, requests } = startClient()
    expect(await client.request("GET", "/x", { query: query as never })).toMatchObject({
      ok: false,
      error: { code: "invalid_input", details: { fields: [{ path }] } }
    })
    expect(requests).toEqual([])
  })

  it.each<[string, unknown]>([
    ["headers", "a: 1"],
    ["headers", new Headers({ a: "1" })],
    ["headers", new Map([["a", "1"]])],
    ["headers.a", { a: 1 }],
    ["headers.a", { A: "line\nbreak" }],
    ["headers.constructor", { constructor: 1 }],
    ["headers.é", { é: "1" }]
  ])("refuses wrong %s", async (path, headers) => {
    const { client, requests } = startClient()
    expect(await client.request("GET", "/x", { headers: headers as never })).toMatchObject({
      ok: false,
      error: { code: "invalid_input", details: { fields: [{ path }] } }
    })
    expect(requests).toEqual([])
  })

  it.each<[string, unknown]>([
    ["an object", { a: 1 }],
    ["a list", [1]],
    ["a text", "text"],
    ["a number", 0],
    ["null", null],
    ["false", false],
    ["a date", new Date(0)],
    ["an instance", Object.assign(new (class Track {})(), { a: 1 })]
  ])("sends %s as JSON", async (_, body) => {
    const { client, requests } = startClient()
    await client.request("POST", "/x", { body })
    expect(requests[0]?.body).toBe(JSON.stringify(body))
    expect(requests[0]?.headers.get("content-type")).toBe("application/json")
  })

  const cyclic: Record<string, unknown> = {}
  cyclic.self = cyclic
  it.each<[string, unknown]>([
    ["a form", new FormData()],
    ["a map", new Map()],
    ["bytes", new Uint8Array(3)],
    ["a file", new Blob(["x"])],
    ["a promise", Promise.resolve({})],
    ["a query", new URLSearchParams("a=1")],
    ["a function", () => 1],
    ["a symbol", Symbol("x")],
    ["a BigInt", 1n],
    ["a cycle", cyclic]
  ])("refuses %s as a body", async (_, body) => {
    const { client, requests } = startClient()
    expect(await client.request("POST", "/x", { body })).toMatchObject({
      ok: false,
      error: { code: "invalid_input", details: { fields: [{ path: "body" }] } }
    })
    expect(requests).toEqual([])
  })

  it.each(["GET", "HEAD"])("refuses a body of %s, which could not be sent", async (method) => {
    const { client, requests } = startClient()
    expect(await client.request(method, "/x", { body: {} })).toMatchObject({
      ok: false,
      error: { code: "invalid_input", details: { fields: [{ path: "body" }] } }
    })
    expect(requests).toEqual([])
  })

  it.each(["CONNECT", "TRACE", "TRACK", "PUNT", "", "GET ", 7, null, undefined])(
    "refuses the method %j",
    async (method) => {
      const { client, requests } = startClient()
      expect(await client.request(method as string, "/x")).toMatchObject({
        ok: false,
        error: { code: "invalid_input", details: { fields: [{ path: "method" }] } }
      })
      expect(requests).toEqual([])
    }
  )

  it("refuses an unknown policy of the session", async () => {
    const { client, requests } = await loggedIn()
    expect(await client.request("GET", "/x", { session: "never" as "none" })).toMatchObject({
      ok: false,
      error: { code: "invalid_input", details: { fields: [{ path: "session" }] } }
    })
    expect(requests).toEqual([])
  })

  it("has no body after HEAD and 204", async () => {
    const { answers, client } = startClient()
    answers.x = () => new Response(null, { status: 200, headers: { "x-count": "3" } })
    expect(await client.request("HEAD", "/x")).toMatchObject({
      ok: true,
      value: { status: 200, headers: { "x-count": "3" }, body: undefined }
    })
    answers.x = () => new Response(null, { status: 204 })
    expect(await client.request("DELETE", "/x")).toMatchObject({
      ok: true,
      value: { status: 204, body: undefined }
    })
  })

  it("fails with the service's codes, also with unknown ones, and with an answer that is no JSON", async () => {
    const { answers, client, pass, requests } = startClient()
    answers.x = () =>
      json(
        { error: { code: "too_loud", message: "Too loud.", hint: "Turn down.", retryable: false } },
        {},
        422
      )
    expect(await client.request("GET", "/x")).toMatchObject({
      ok: false,
      error: { code: "too_loud", status: 422, message: "Too loud.", hint: "Turn down.", retryable: false }
    })
    expect(requests).toHaveLength(1)
    answers.x = () => new Response("<html>", { status: 200 })
    // The service names the request in every answer; a page of an intermediary does not.
    answers.x = () => new Response("<html>", { status: 200, headers: { "x-request-id": "a-request" } })
    expect(await client.request("GET", "/x")).toMatchObject({ ok: true, value: { body: "<html>" } })
    answers.x = () => {
      // No time is left for another attempt.
      pass(60_000)
      return new Response("<html>", { status: 200 })
    }
    expect(await client.request("GET", "/x")).toMatchObject({
      ok: false,
      error: { code: "unexpected_answer", details: { reason: "not_json" } }
    })
  })

  it("fails with the problem of the options", async () => {
    const { client, requests } = startClient({ baseUrl: 5 as never })
    expect(await client.request("GET", "/x")).toMatchObject({ ok: false, error: { code: "invalid_input" } })
    expect(requests).toEqual([])
  })
})
