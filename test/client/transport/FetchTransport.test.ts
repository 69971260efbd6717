/** Requests of a page: a refused origin and a lost connection are different failures, found by one probe. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import { createMusicClient } from "../../../client/index.ts"
import { defaults, json, startClient } from "../support/RecordingService.ts"

beforeEach(() => {
  vi.stubGlobal("document", { visibilityState: "visible" })
  vi.stubGlobal("location", { origin: "https://page.example" })
})
afterEach(() => vi.unstubAllGlobals())

const version = { version: "1.0.0", api_versions: ["v1"], min_cli: "0.1.0" }

/** A server as a page sees it; `allows`: the page's origin is allowed. */
const page = (allows: boolean) => {
  const seen: Array<string> = []
  let lost = 0
  const fetch: typeof globalThis.fetch = async (_, init) => {
    const mode = init?.mode ?? "call"
    seen.push(mode)
    if (mode === "no-cors") return new Response(null, { status: 200 })
    if (!allows) return Promise.reject(new TypeError("Failed to fetch"))
    if (mode === "cors") return json(version)
    lost -= 1
    return lost >= 0 ? Promise.reject(new TypeError("Failed to fetch")) : json(version)
  }
  const client = createMusicClient({ ...defaults, source: "web", fetch, deadlineMilliseconds: 60_000 })
  return {
    client,
    seen,
    lose: (times: number) => {
      lost = times
    }
  }
}

describe("A page whose origin is not allowed", () => {
  it("learns it from every call, by one probe", async () => {
    const { client, seen } = page(false)
    const results = [...(await Promise.all([client.version(), client.iam()])), await client.version()]
    for (const result of results)
      expect(result).toMatchObject({ error: { retryable: false, details: { reason: "cors" } } })
    expect(seen.filter((mode) => mode === "cors")).toHaveLength(1)
    expect(seen.filter((mode) => mode === "no-cors")).toHaveLength(1)
    expect(seen.filter((mode) => mode === "call")).toHaveLength(3)
  })
})

describe("A page whose origin is allowed", () => {
  it("repeats a lost connection", async () => {
    const { client, lose, seen } = page(true)
    lose(1)
    expect(await client.version()).toMatchObject({ ok: true })
    expect(seen).toEqual(["call", "cors", "call"])
  })
})

describe("A request", () => {
  it("sends no cookie, stores no answer and follows no redirect", async () => {
    const sent: Array<RequestInit | undefined> = []
    const { client } = startClient({
      fetch: async (_, init) => {
        sent.push(init)
        return new Response(null, { status: 204 })
      }
    })
    await client.request("GET", "/x")
    expect(sent).toMatchObject([{ credentials: "omit", cache: "no-store", redirect: "manual" }])
  })
})
