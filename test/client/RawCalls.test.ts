/** `client.request`: sessions, keys, retries, and what it refuses to send. */
import { describe, expect, it } from "vitest"
import { failed, loggedIn, makeClient, refusal } from "./support/ClientWorld.ts"
import { type Headers, json } from "./support/Service.ts"

describe("A raw call", () => {
  it("is signed when a session is stored, and answers with status, headers and body", async () => {
    const { answers, client, requests } = await loggedIn({ org: "zenith" })
    answers.next = () => json({ any: ["thing"] }, { "X-Any": "1" }, 201)
    const value = { status: 201, headers: { "x-any": "1" }, body: { any: ["thing"] } }
    const query = { text: "a&b=c d/é", count: 2, on: false, not: undefined }
    const body = { at: new Date(0) }
    const idempotencyKey = "a-key-of-the-caller"
    const call = client.request("post", "/api/v2/next", { query, body, idempotencyKey })
    expect(await call).toMatchObject({ ok: true, value })
    const [sent] = requests
    const url = "https://music.example/api/v2/next?text=a%26b%3Dc+d%2F%C3%A9&count=2&on=false"
    expect(sent).toMatchObject({ method: "POST", url, body: JSON.stringify(body) })
    const headers = { authorization: "Bearer oat_1", "x-org-id": "zenith", "idempotency-key": idempotencyKey }
    expect(Object.fromEntries(sent?.headers ?? [])).toMatchObject(headers)
    await client.request("GET", "/x", { session: "none" })
    expect(requests[1]?.headers.get("authorization")).toBeNull()
    const demanded = await makeClient().client.request("GET", "/x", { session: "required" })
    expect(demanded).toMatchObject({ ok: false, error: { code: "not_logged_in" } })
  })

  it("that is a HEAD refreshes a refused token, too, whose answer has no body; a 401 of an intermediary refreshes nothing", async () => {
    const { calls, client, once } = await loggedIn()
    const refused = (headers: Headers) => () => new Response(null, { status: 401, headers })
    once("x", refused({}))
    expect(await client.request("HEAD", "/x")).toMatchObject(failed("unexpected_answer"))
    once("x", refused({ "x-request-id": "the-id-1" }))
    expect(await client.request("HEAD", "/x")).toMatchObject({ ok: true, value: { status: 200 } })
    expect(calls()).toEqual(["x", "x", "refresh", "x"])
  })

  it("keeps the client's own headers", async () => {
    const { client, requests } = await loggedIn({ version: "1.2.3" })
    const names = ["Authorization", "X-Request-Id", "X-TESTING-environment-key", "X-Music-Source", "X-Org-Id"]
    const evil = [...names, "x-music-telemetry", "X-Music-Client-Version"].map((name) => [name, "evil"])
    const headers = { ...Object.fromEntries(evil), "X-Mine": "mine", Accept: "text/csv" }
    await client.request("GET", "/x", { headers })
    await client.logout()
    await client.request("GET", "/x", { headers })
    const sent = requests.map(({ headers }) => Object.fromEntries(headers))
    expect(JSON.stringify(sent)).not.toContain("evil")
    const kept = { authorization: "Bearer oat_1", "x-music-client-version": "1.2.3", "x-org-id": "acme" }
    expect(sent[0]).toMatchObject({ ...kept, "x-mine": "mine", accept: "text/csv" })
  })

  it.each(["//evil.example/x", "/\\evil.example/x", "/:80@evil.example"])(
    "sends the path %j to the service alone",
    async (path) => {
      for (const below of ["/", "/music/"]) {
        const { client, requests } = await loggedIn({ baseUrl: ` https://MUSIC.example${below} ` })
        await client.request("GET", path)
        const sent = requests.map(({ url }) => new URL(url))
        expect(sent.map(({ origin }) => origin)).toEqual(["https://music.example"])
        expect(sent[0]?.pathname.startsWith(below)).toBe(true)
      }
    }
  )
})

const cyclic: Record<string, unknown> = {}
cyclic.self = cyclic

/** The member that is named, and wrong values of it. */
const wrong: Readonly<Record<string, ReadonlyArray<unknown>>> = {
  method: ["CONNECT", "PUNT", "", "GET ", 7, null],
  path: [
    ...["no-slash", "", "https://evil.example/x", "/../x", "/a/../../x", "/%2e%2e/x", "/%252e%252e%252fx"],
    ...["/..;a=b/x", "/a%2f..%2f..%2fx", "/..%5cx", "/..\\x", "/x#y", "/x\ny", "/x\u0000", 7, null]
  ],
  headers: ["a: 1", new Headers({ a: "1" })],
  "headers.a": [{ a: 1 }, { A: "line\nbreak" }],
  "headers.host": [{ Host: "5" }],
  "headers.content-length": [{ "Content-Length": "5" }],
  "headers.transfer-encoding": [{ "Transfer-Encoding": "5" }],
  query: ["a=1", new URLSearchParams("a=1")],
  "query.a": [{ a: { b: 1 } }, { a: [1] }],
  session: ["never"],
  body: [new FormData(), new Map(), new Uint8Array(3), Promise.resolve({}), () => 1, 1n, cyclic, Symbol("x")]
}

it.each([
  ...Object.entries(wrong).flatMap(([name, values]) => values.map((value) => [name, value] as const)),
  ["body", undefined] as const
])("A raw call is refused before it is sent: a wrong %s (%o)", async (name, value) => {
  const { client, requests } = await loggedIn({ baseUrl: "https://music.example/music" })
  const [member = ""] = name.split(".")
  const given: Readonly<Record<string, unknown>> = { method: "POST", path: "/x", [member]: value }
  // A body needs a method that has one.
  const { method, path, ...options } = value === undefined ? { method: "GET", path: "/x", body: {} } : given
  expect(await client.request(method as string, path as string, options)).toMatchObject(refusal(name))
  expect(requests).toEqual([])
})
