/** What a client learns of other tabs and processes, and what its program adds to requests. */
import * as IndexedDb from "fake-indexeddb"
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import { type SessionStore, webSessionStore } from "../../client/index.ts"
import { fileSessionStore } from "../../client/node.ts"
import { eachFolder, loggedIn, makeClient } from "./support/ClientWorld.ts"
import { life, never } from "./support/Service.ts"

const made = eachFolder()
beforeEach(() => {
  for (const [name, value] of Object.entries(IndexedDb)) vi.stubGlobal(name, value)
  vi.stubGlobal("indexedDB", new IndexedDb.IDBFactory())
})
afterEach(() => void vi.unstubAllGlobals())

it.each<readonly [string, () => SessionStore]>([
  ["file", () => fileSessionStore({ directory: made.folder })],
  ["IndexedDB", () => webSessionStore({ database: made.folder })]
])("A login and a logout elsewhere are reported, a refresh there is not: %s", async (_, make) => {
  const [one, other] = [makeClient({ sessionStore: make() }), makeClient({ sessionStore: make() })]
  const changes = () => one.events.filter(({ type }) => type.startsWith("logged"))
  // By then it watches.
  await one.client.session()
  await new Promise((resolve) => setTimeout(resolve, 300))
  await other.client.login("oac_1")
  await expect
    .poll(changes)
    .toMatchObject([{ type: "logged_in", elsewhere: true, session: { org_id: "acme" } }])
  other.pass(life)
  await other.client.me()
  await other.client.logout()
  await expect.poll(changes).toMatchObject([{}, { type: "logged_out", reason: "elsewhere" }])
  await one.client.login("oac_2")
  expect(changes().at(-1)).not.toHaveProperty("elsewhere")
  await one.client.close()
  await other.client.logout()
  await new Promise((resolve) => setTimeout(resolve, 200))
  expect(changes()).toHaveLength(3)
})

describe("The request hook", () => {
  it("adds headers to each request, and none of the client's own", async () => {
    const asked: Array<object> = []
    const own = "Authorization X-Org-ID Idempotency-Key X-Testing-Environment-Key Host Accept".split(" ")
    const onRequest = (request: object) => {
      asked.push(request)
      return { ...Object.fromEntries(own.map((name) => [name, "evil"])), "X-Mine": "mine" }
    }
    const { client, requests } = await loggedIn({ onRequest })
    await client.version()
    await client.me()
    for (const { headers } of requests) {
      expect(headers.get("x-mine")).toBe("mine")
      expect([...headers.values()]).not.toContain("evil")
    }
    expect(requests[1]?.headers.get("authorization")).toBe("Bearer oat_1")
    expect(asked.at(-1)).toEqual({ call: "me", method: "GET", url: "https://music.example/api/v1/auth/me" })
  })

  it("that never settles ends with the call, also in a refresh that later calls share", async () => {
    let isStuck = true
    const onRequest = ({ call }: { readonly call: string }) =>
      isStuck && call === "refresh" ? never() : undefined
    const { client, pass } = await loggedIn({ onRequest, deadlineMilliseconds: 100 })
    pass(life)
    expect(await client.me()).toMatchObject({ error: { code: "timed_out" } })
    isStuck = false
    await expect.poll(async () => (await client.me()).ok).toBe(true)
  })

  it.each([() => Promise.reject(new Error("own fault")), () => "a: b", () => ({ a: "line\nbreak" })])(
    "that fails or returns no headers is named, and nothing is sent",
    async (onRequest) => {
      const { client, requests } = makeClient({ onRequest: onRequest as never })
      const { error } = await client.version()
      expect(error).toMatchObject({ code: "invalid_input" })
      expect(JSON.stringify(error)).toMatch(/onRequest|headers\.a/)
      expect(requests).toEqual([])
    }
  )
})

it("Many calls with one signal print no warning, and end with its reason", async () => {
  const warned = vi.spyOn(process, "emitWarning")
  const { client } = makeClient({ fetch: never })
  const controller = new AbortController()
  const calls = Array.from({ length: 30 }, () => client.version({ signal: controller.signal }))
  await new Promise((resolve) => setTimeout(resolve, 50))
  const reason = new Error("enough")
  controller.abort(reason)
  for (const { error } of await Promise.all(calls)) {
    expect(error?.code).toBe("aborted")
    expect(error?.cause).toBe(reason)
  }
  expect(warned).not.toHaveBeenCalled()
})
