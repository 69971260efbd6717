/** Every call fails with the problem of the options, and no session is changed. */
import { describe, expect, it } from "vitest"
import { createMusicClient, memorySessionStore, type PromiseClientOptions } from "../../client/index.ts"
import { attemptMillisecondsOf, deadlineMillisecondsOf } from "../../client/Options.ts"
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

  const refusal = (path: string) => ({
    ok: false,
    error: { code: "invalid_input", requestId: null, details: { fields: [{ path }] } }
  })

  const notDurations = [Number.NaN, Number.POSITIVE_INFINITY, 0, -1, 2 ** 31, "1000", {}, true]

  for (const name of [
    "deadlineMilliseconds",
    "attemptMilliseconds",
    "telemetryIntervalMilliseconds"
  ] as const)
    it(`${name} must be a time`, async () => {
      for (const value of notDurations) {
        const { calls, fetch } = stubService()
        const client = createMusicClient({ ...options, fetch, [name]: value })
        expect(await client.login("oac_1")).toMatchObject(refusal(name))
        expect(calls).toEqual([])
      }
      const { fetch } = stubService()
      const client = createMusicClient({ ...options, fetch, [name]: 2 ** 31 - 1 })
      expect(await client.login("oac_1")).toMatchObject({ ok: true })
      await client.close()
    })

  it("a call has 30 s and an attempt 28 s by default", () => {
    expect([deadlineMillisecondsOf(options), attemptMillisecondsOf(options)]).toEqual([30_000, 28_000])
  })

  it("the deadline of one call must be a time, too", async () => {
    const { calls, fetch } = stubService()
    const client = createMusicClient({ ...options, fetch })
    await client.login("oac_1")
    calls.length = 0
    for (const value of notDurations) {
      const call = { deadlineMilliseconds: value as number }
      expect(await client.me(call)).toMatchObject(refusal("deadlineMilliseconds"))
      expect(await client.report({ message: "long enough a message" }, call)).toMatchObject(
        refusal("deadlineMilliseconds")
      )
      expect(await client.logout(call)).toMatchObject(refusal("deadlineMilliseconds"))
    }
    expect(calls).toEqual([])
  })

  it.each([
    ["source", "tv"],
    ["telemetry", "yes"],
    ["telemetryQueueLimit", 0],
    ["telemetryQueueLimit", 1.5],
    ["version", "one"],
    ["version", `1.0.0-${"a".repeat(70)}`],
    ["org", ""],
    ["org", 7],
    ["sessionStore", {}],
    ["lock", "none"],
    ["onEvent", "log"]
  ])("%s as %j is refused, and the option is named", async (name, value) => {
    const { calls, fetch } = stubService()
    const client = createMusicClient({ ...options, fetch, [name]: value })
    expect(await client.version()).toMatchObject(refusal(name))
    expect(calls).toEqual([])
  })

  it.each([
    ["https://music.example/api/v1", "https://music.example"],
    ["https://music.example/api", "https://music.example"],
    ["https://music.example/api/v1/", "https://music.example"],
    ["https://music.example/api/v1/auth/login", "https://music.example"],
    ["https://music.example/music/api/v1", "https://music.example/music"],
    ["https://music.example/docs", "https://music.example"],
    ["https://music.example/healthz", "https://music.example"],
    ["https://name:word@music.example", "https://music.example"],
    ["https://music.example/?a=b", "https://music.example"],
    ["https://music.example/#", "https://music.example"]
  ])("a base URL %s is refused with the right one", async (baseUrl, right) => {
    const { calls, fetch } = stubService()
    const client = createMusicClient({ ...options, fetch, baseUrl })
    const answer = await client.version()
    expect(answer).toMatchObject(refusal("baseUrl"))
    expect(answer).toMatchObject({ error: { hint: `Use ${right} as baseUrl.` } })
    expect(calls).toEqual([])
  })

  it.each([
    "https://music.example/",
    "https://music.example//",
    "https://music.example/behind/a/path",
    "https://api.example",
    "https://music.example/apis"
  ])("a base URL %s is accepted", async (baseUrl) => {
    const { calls, fetch } = stubService()
    await createMusicClient({ ...options, fetch, baseUrl }).login("oac_1")
    expect(calls).toEqual(["login"])
  })
})
