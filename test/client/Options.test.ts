/** Every call fails with the problem of the options, and no session is changed. */
import { describe, expect, it } from "vitest"
import { createMusicClient, memorySessionStore, type PromiseClientOptions } from "../../client/index.ts"
import { stubService } from "./support/StubService.ts"

const options = { baseUrl: "https://music.example", source: "cli", telemetry: false } as const

/** A store that already holds a session of production, and all calls of the store since. */
const withProduction = async () => {
  const { calls, fetch } = stubService()
  const inner = memorySessionStore()
  const touched: Array<string> = []
  const sessionStore: typeof inner = {
    load: (slot) => {
      touched.push("load")
      return inner.load(slot)
    },
    save: (slot, session) => {
      touched.push("save")
      return inner.save(slot, session)
    },
    clear: (slot) => {
      touched.push("clear")
      return inner.clear(slot)
    },
    lock: {
      acquire: (slot, signal) => {
        touched.push("lock")
        return inner.lock?.acquire(slot, signal) ?? Promise.reject(new Error("no lock"))
      }
    }
  }
  const production = createMusicClient({ ...options, sessionStore, fetch })
  expect(await production.login("oac_1")).toMatchObject({ ok: true })
  calls.length = 0
  touched.length = 0
  return { calls, fetch, production, sessionStore, touched }
}

describe("A malformed testing key", () => {
  for (const [name, testingKey] of [
    ["unset", undefined],
    ["empty", ""],
    ["short", "ask_short"],
    ["another token", "oat_1"],
    ["a number", 7]
  ] as const)
    it(`(${name}) does not change a session of production`, async () => {
      const { calls, fetch, production, sessionStore, touched } = await withProduction()
      // Values that a program without a type checker may pass.
      const client = createMusicClient({ ...options, sessionStore, fetch, testingKey: testingKey as string })
      const refused = { ok: false, error: { code: "testing_secret_invalid", requestId: null } }
      expect(await client.session()).toMatchObject(refused)
      expect(await client.login("oac_1")).toMatchObject(refused)
      expect(await client.logout()).toMatchObject(refused)
      expect(await client.logout({ forget: true })).toMatchObject(refused)
      expect(await client.me()).toMatchObject(refused)
      expect(await client.status()).toMatchObject({ state: "unknown", error: refused.error })
      expect(await client.report({ message: "long enough a message" })).toMatchObject(refused)
      expect([calls, touched]).toEqual([[], []])
      expect(await production.session()).toMatchObject({ ok: true, value: { org_id: "acme" } })
    })
})

describe("Malformed options", () => {
  const refused = { ok: false, error: { code: "invalid_input", requestId: null } }

  for (const [name, baseUrl] of [
    ["unset", undefined],
    ["null", null],
    ["a number", 7],
    ["a URL object", new URL("https://music.example")],
    ["no address", "nowhere"],
    ["another protocol", "ftp://music.example"]
  ] as const)
    it(`a base URL (${name}) throws nothing: every call fails with the problem`, async () => {
      const { calls, fetch, sessionStore, touched } = await withProduction()
      const client = createMusicClient({ ...options, sessionStore, fetch, baseUrl: baseUrl as never })
      expect(await client.version()).toMatchObject(refused)
      expect(await client.login("oac_1")).toMatchObject(refused)
      expect(await client.session()).toMatchObject(refused)
      expect(await client.logout({ forget: true })).toMatchObject(refused)
      expect(await client.telemetry.flush()).toMatchObject({ ok: true })
      expect(await client.close()).toEqual({ queued: 0, delivered: 0, dropped: 0 })
      expect([calls, touched]).toEqual([[], []])
    })

  it("missing options, or null for an optional one, do not throw either", async () => {
    for (const nothing of [undefined, null]) {
      const client = createMusicClient(nothing as never)
      expect(await client.version()).toMatchObject(refused)
    }
    const parts = {
      clock: null,
      fetch: null,
      random: null,
      sessionStore: null,
      lock: null,
      org: null,
      testingKey: null
    }
    const { fetch } = stubService()
    const given = { ...options, ...parts, fetch } as unknown as PromiseClientOptions
    expect(await createMusicClient(given).login("oac_1")).toMatchObject({ ok: true })
  })
})
