/** Every call ends at its deadline, whatever store and lock do, and says what it waited for. */
import { afterEach, describe, expect, it, vi } from "vitest"
import {
  createMusicClient,
  memorySessionStore,
  type SessionLock,
  type SessionStore
} from "../../../client/index.ts"
import { defaults, json, life, recordingService, startClient } from "../support/RecordingService.ts"

const never = () => new Promise<never>(() => undefined)
const short = { deadlineMilliseconds: 60 }

/** A logged-in client of a store whose parts can be stopped. */
const stoppable = async () => {
  const inner = memorySessionStore()
  const stopped: Partial<Record<"load" | "save" | "probe" | "clear" | "release", boolean>> = {}
  const sessionStore: SessionStore = {
    load: (slot) => (stopped.load === true ? never() : inner.load(slot)),
    save: (slot, session) => (stopped.save === true ? never() : inner.save(slot, session)),
    clear: (slot) => (stopped.clear === true ? never() : inner.clear(slot)),
    probe: () => (stopped.probe === true ? never() : Promise.resolve()),
    lock: {
      acquire: async (slot, signal) => {
        const release = await inner.lock?.acquire(slot, signal)
        return async () => {
          await release?.()
          if (stopped.release === true) await never()
        }
      }
    }
  }
  const service = startClient({ sessionStore, deadlineMilliseconds: 300 })
  expect(await service.client.login("oac_1", { deadlineMilliseconds: 30_000 })).toMatchObject({ ok: true })
  return { ...service, stopped }
}

/** The result of a call, and that it came in time: below the 30 s of a call without a deadline. */
const inTime = async <A>(call: Promise<A>): Promise<A> => {
  const begun = performance.now()
  const result = await call
  expect(performance.now() - begun).toBeLessThan(25_000)
  return result
}

describe("A call ends in time", () => {
  it("when the store does not load", async () => {
    const { client, stopped } = await stoppable()
    stopped.load = true
    for (const result of [
      await inTime(client.me(short)),
      await inTime(client.login("oac_2", short)),
      await inTime(client.logout(short)),
      await inTime(client.report({ message: "long enough" }, short))
    ])
      expect(result).toMatchObject({ ok: false, error: { retryable: true } })
  })

  it("when the store does not save; a later login is saved", async () => {
    const { client, stopped } = await stoppable()
    stopped.save = true
    expect(await inTime(client.login("oac_2", short))).toMatchObject({ error: { code: "timed_out" } })
    stopped.save = false
    await expect.poll(async () => (await client.login("oac_2")).ok).toBe(true)
  })

  it("when the save of a refresh hangs; a later call saves the pair", async () => {
    const { client, pass, stopped } = await stoppable()
    pass(life)
    stopped.save = true
    expect(await inTime(client.me())).toMatchObject({ ok: false })
    stopped.save = false
    await expect.poll(async () => (await client.me()).ok).toBe(true)
  })

  it("when the store's probe hangs, and a later call refreshes", async () => {
    const { client, pass, stopped } = await stoppable()
    pass(life)
    stopped.probe = true
    expect(await inTime(client.me())).toMatchObject({ ok: false })
    stopped.probe = false
    await expect.poll(async () => (await client.me()).ok).toBe(true)
  })

  it("when the store does not clear", async () => {
    const { client, stopped } = await stoppable()
    stopped.clear = true
    expect(await inTime(client.logout(short))).toMatchObject({ ok: false })
  })

  it("when the lock is not released", async () => {
    const { client, pass, stopped } = await stoppable()
    stopped.release = true
    pass(life)
    expect(await inTime(client.me())).toMatchObject({ ok: expect.any(Boolean) })
    stopped.release = false
    await expect.poll(async () => (await client.me()).ok).toBe(true)
  })
})

describe("A call that waits for the lock", () => {
  it("says so, also when it waits for a refresh that waits", async () => {
    const held: SessionLock = { acquire: never }
    const sessionStore = memorySessionStore()
    const service = recordingService()
    const first = startClient({ sessionStore }, service)
    await first.client.login("oac_1")
    const second = startClient({ sessionStore, lock: held }, service)
    second.pass(life)
    // By then each of them waits for the lock, also on a slow machine.
    const later = { deadlineMilliseconds: 1_000 }
    const calls: ReadonlyArray<Promise<unknown>> = [
      second.client.me(later),
      second.client.logout(later),
      second.client.login("oac_2", later)
    ]
    for (const call of calls)
      expect(await inTime(call)).toMatchObject({
        error: { code: "timed_out", hint: expect.stringContaining("lock") }
      })
  })
})

describe("A report", () => {
  afterEach(() => void vi.useRealTimers())

  it("waits 5 s at most for a refresh, and is sent with the old token then", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    let now = 0
    const { answers, calls, client, requests } = startClient({
      clock: { now: () => now, monotonic: () => now }
    })
    await client.login("oac_1")
    answers.refresh = never
    answers.reports = () =>
      json({ id: "1", status: "stored", issue_url: null, reporter: null, created_at: "", replayed: false })
    now += life
    const report = client.report({ message: "long enough" })
    await expect.poll(() => calls.at(-1)).toBe("refresh")
    now += 4_999
    await vi.advanceTimersByTimeAsync(4_999)
    expect(calls.at(-1)).toBe("refresh")
    now += 1
    await vi.advanceTimersByTimeAsync(1)
    await expect.poll(() => calls.at(-1)).toBe("reports")
    expect(await report).toMatchObject({ ok: true })
    expect(requests.at(-1)?.headers.get("authorization")).toBe("Bearer oat_1")
  })
})

describe("The options of a client", () => {
  it("are those that were checked, whatever the program does with its object later", async () => {
    const { fetch, requests } = recordingService()
    const options = { ...defaults, fetch, testingKey: `ask_${"t".repeat(43)}` }
    const client = createMusicClient(options)
    Object.assign(options, { testingKey: null, baseUrl: "https://evil.example" })
    await client.version()
    expect(requests[0]?.url).toBe("https://music.example/api/v1/version")
    expect(requests[0]?.headers.get("x-testing-environment-key")).not.toBeNull()
  })
})
