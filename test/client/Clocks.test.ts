import { describe, expect, it } from "vitest"
import { createMusicClient, memorySessionStore } from "../../client/index.ts"
import { json, startClient } from "./support/RecordingService.ts"
import { stubService } from "./support/StubService.ts"

const start = 1_800_000_000_000
const second = 1_000

const shortPair = {
  access_token: "oat_1",
  refresh_token: "ort_1",
  expires_in: 100,
  scope: "self.identity.read",
  actor: { type: "silicon", public_id: "si:deejay" },
  org_id: "acme",
  org_ids: ["acme"],
  testing_environment_id: null
}

/** A client whose two clocks a test moves, and the requests that it sent since its login. */
const loggedIn = async () => {
  const { calls, fetch } = stubService()
  const sessionStore = memorySessionStore()
  let wall = start
  let steady = 5_000
  const options = {
    baseUrl: "https://music.example",
    source: "daemon",
    telemetry: false,
    sessionStore,
    fetch,
    clock: { now: () => wall, monotonic: () => steady }
  } as const
  const client = createMusicClient(options)
  expect(await client.login("oac_1")).toMatchObject({ ok: true })
  calls.length = 0
  return {
    client,
    calls,
    pass: (seconds: number) => {
      wall += seconds * second
      steady += seconds * second
    },
    setBack: (seconds: number) => {
      wall -= seconds * second
    },
    /** The expiry as another program with the same store computes it. */
    another: () => createMusicClient(options)
  }
}

describe("The age of an access token", () => {
  it("causes a refresh a minute before the expiry, not sooner", async () => {
    const { calls, client, pass } = await loggedIn()
    pass(1_739)
    await client.me()
    expect(calls).toEqual(["me"])
    pass(2)
    await client.me()
    expect(calls).toEqual(["me", "refresh", "me"])
    await client.me()
    expect(calls).toHaveLength(4)
  })

  it("causes a refresh in the last tenth of a short life", async () => {
    let now = start
    const { answers, calls, client } = startClient({ clock: { now: () => now, monotonic: () => now } })
    answers.login = () => json({ ...shortPair, ting: { subscribed: true } })
    await client.login("oac_1")
    for (const [seconds, expected] of [
      [89, ["login", "me"]],
      [2, ["login", "me", "refresh", "me"]]
    ] as const) {
      now += seconds * second
      await client.me()
      expect(calls).toEqual(expected)
    }
  })

  it("does not decrease when the wall clock is set back", async () => {
    const { calls, client, pass, setBack } = await loggedIn()
    setBack(86_400)
    await client.me()
    expect(calls).toEqual(["me"])
    pass(1_790)
    await client.me()
    expect(calls).toEqual(["me", "refresh", "me"])
  })

  it("increases by the wall clock while the machine sleeps", async () => {
    const { calls, client, setBack } = await loggedIn()
    setBack(-3_600)
    await client.me()
    expect(calls).toEqual(["refresh", "me"])
  })

  it("applies to another program with the same store; a time in the future counts as unknown", async () => {
    const { another, calls, pass, setBack } = await loggedIn()
    await another().me()
    pass(1_790)
    await another().me()
    expect(calls).toEqual(["me", "refresh", "me"])
    calls.length = 0
    setBack(86_400)
    await another().me()
    expect(calls).toEqual(["refresh", "me"])
  })
})

describe("The telemetry queue", () => {
  const event = { type: "x", data: {} }
  const options = { baseUrl: "https://music.example", source: "web", telemetry: true } as const

  it("sends by itself after the interval, or when a batch is full", async () => {
    const { calls, fetch } = stubService()
    const client = createMusicClient({ ...options, fetch, telemetryIntervalMilliseconds: 20 })
    client.telemetry.record("musicfrontendevents", event)
    await expect.poll(() => client.telemetry.stats().delivered).toBe(1)
    const other = createMusicClient({ ...options, fetch })
    for (let count = 0; count < 40; count += 1) other.telemetry.record("musicfrontendevents", event)
    await expect.poll(() => other.telemetry.stats().delivered).toBe(40)
    expect(calls).toEqual(["telemetry", "telemetry"])
  })

  it("is bounded, and refuses further events", async () => {
    const fetch = () => Promise.reject(new TypeError("away"))
    const client = createMusicClient({ ...options, fetch, telemetryQueueLimit: 3 })
    const results = Array.from({ length: 5 }, () => client.telemetry.record("musicfrontendevents", event))
    expect(results.map((result) => (result.ok ? "ok" : result.error.code))).toEqual([
      "ok",
      "ok",
      "ok",
      "queue_full",
      "queue_full"
    ])
    expect(await client.telemetry.flush()).toMatchObject({ ok: false, error: { code: "transport_failed" } })
    expect(await client.close()).toEqual({ queued: 0, delivered: 0, dropped: 5 })
    expect(client.telemetry.record("musicfrontendevents", event)).toMatchObject({ value: { queued: false } })
  })

  it("is bounded by 1,000 events and by 4 MiB", () => {
    const countAccepted = (event: object) => {
      const client = createMusicClient({ ...options, fetch: () => new Promise<never>(() => undefined) })
      let accepted = 0
      while (client.telemetry.record("musicfrontendevents", event).ok) accepted += 1
      return accepted
    }
    expect(countAccepted({ type: "x" })).toBe(1_000)
    // With its id and its time, an event of 64,000 characters has more bytes: 65 fit into 4 MiB.
    expect(countAccepted({ type: "x".repeat(64_000) })).toBe(65)
  })

  it("drops only the events that the service names, and sends the others", async () => {
    const bodies: Array<string> = []
    const refusal = {
      error: {
        code: "invalid_input",
        message: "m",
        hint: "h",
        retryable: false,
        details: { fields: [{ path: "events.1.data", problem: "must be better" }] }
      }
    }
    const fetch: typeof globalThis.fetch = async (_, init) => {
      bodies.push(String(init?.body))
      return bodies.length === 1
        ? new Response(JSON.stringify(refusal), { status: 400 })
        : new Response(null, { status: 204 })
    }
    const client = createMusicClient({ ...options, fetch })
    for (const type of ["a", "b", "c"]) client.telemetry.record("musicfrontendevents", { type })
    expect(await client.telemetry.flush()).toMatchObject({
      ok: true,
      value: { queued: 0, delivered: 2, dropped: 1 }
    })
    expect(bodies[1]).not.toContain('"type":"b"')
  })

  it("does not keep the program alive", () => {
    const client = createMusicClient({ ...options, fetch: stubService().fetch })
    const before = process.getActiveResourcesInfo().filter((name) => name === "Timeout").length
    client.telemetry.record("musicfrontendevents", event)
    const after = process.getActiveResourcesInfo().filter((name) => name === "Timeout").length
    expect(after).toBe(before)
  })
})
