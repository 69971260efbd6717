/** `logout({ forget: true })`: at once, and for good. */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import { memorySessionStore, type SessionLock } from "../../../client/index.ts"
import { fileSessionStore } from "../../../client/node.ts"
import { json, life, recordingService, startClient } from "../support/RecordingService.ts"
import { failure } from "../support/StubService.ts"
import { patience } from "../../support/Waiting.ts"

let directory = ""
// The waits of a client end only when a test moves the clock, however slow the machine is.
beforeEach(async () => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date", "performance"]
  })
  directory = await mkdtemp(join(tmpdir(), "music-logout-"))
})
afterEach(() => {
  vi.useRealTimers()
  return rm(directory, { recursive: true, force: true })
})

const sessionFiles = async () => (await readdir(directory)).filter((name) => name.includes(".json"))
const hanging = () => new Promise<never>(() => undefined)

/** A second program, and how often it has asked for the lock of the folder. */
const watched = (service = recordingService()) => {
  const sessionStore = fileSessionStore({ directory })
  const { asked, lock } = counted(sessionStore.lock ?? { acquire: hanging })
  return { asked, parts: startClient({ sessionStore, lock }, service) }
}

/** Moves the clock by steps, no faster than real time, until the call ends. For waits whose parts the test cannot see. */
const driven = async <A>(call: Promise<A>): Promise<A> => {
  let ended = false
  const end = () => {
    ended = true
  }
  void call.then(end, end)
  await vi.waitUntil(() => ended, { timeout: patience, interval: 10 })
  return call
}

/** Milliseconds for which a logout that forgets waits for a lock, or for a load. */
const lockWait = 400
const loadWait = 300

/** A lock, and how often it was asked for. */
const counted = (lock: SessionLock) => {
  const asked = { times: 0 }
  const acquire: SessionLock["acquire"] = (slot, signal) => {
    asked.times += 1
    return lock.acquire(slot, signal)
  }
  return { asked, lock: { acquire } }
}

/** The clock moves past both waits of a logout for a lock that another holds. */
const passLockWaits = async (asked: { readonly times: number }) => {
  for (const times of [1, 2]) {
    await expect.poll(() => asked.times).toBe(times)
    await vi.advanceTimersByTimeAsync(lockWait)
  }
}

const pair = {
  access_token: "oat_2",
  refresh_token: "ort_2",
  expires_in: 1800,
  scope: "s",
  actor: { type: "silicon", public_id: "si:deejay" },
  org_id: "acme",
  org_ids: ["acme"],
  testing_environment_id: null
}

/** A promise that a test resolves. */
const gate = <A>() => {
  let open: (value: A) => void = () => undefined
  const opened = new Promise<A>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

/** A client with a session on the disk. */
const loggedIn = async () => {
  const service = recordingService()
  const sessionStore = fileSessionStore({ directory })
  const { asked, lock } = counted(sessionStore.lock ?? { acquire: hanging })
  const parts = startClient({ sessionStore, lock }, service)
  expect(await parts.client.login("oac_1")).toMatchObject({ ok: true })
  expect(await sessionFiles()).toHaveLength(1)
  parts.requests.length = 0
  parts.events.length = 0
  return { ...parts, asked, service, sessionStore }
}

describe("Forgetting a session", () => {
  it("revokes it when the service answers", async () => {
    const { client, requests } = await loggedIn()
    expect(await client.logout({ forget: true })).toMatchObject({
      ok: true,
      value: { revoked: true, healed: false }
    })
    expect(requests.map(({ body }) => body)).toEqual([JSON.stringify({ token: "ort_1" })])
    expect(await sessionFiles()).toEqual([])
  })

  it("revokes it when the service answers late, and clears it before", async () => {
    const { answers, client } = await loggedIn()
    answers.logout = async () => {
      expect(await sessionFiles()).toEqual([])
      await vi.advanceTimersByTimeAsync(1_900)
      return new Response(null, { status: 204 })
    }
    expect(await client.logout({ forget: true })).toMatchObject({ ok: true, value: { revoked: true } })
  })

  it("clears it at once while the service hangs, and ends after 2 s", async () => {
    const { answers, client, requests } = await loggedIn()
    let left: ReadonlyArray<string> = ["not asked"]
    answers.logout = async () => {
      left = await sessionFiles()
      return hanging()
    }
    const logout = client.logout({ forget: true })
    await expect.poll(() => requests.length).toBe(1)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(await logout).toMatchObject({ ok: true, value: { revoked: false } })
    expect(left).toEqual([])
    expect(requests).toHaveLength(1)
    expect(await client.session()).toMatchObject({ ok: true, value: null })
  })

  it("sends one request only", async () => {
    const { answers, client, requests } = await loggedIn()
    answers.logout = () =>
      json({ error: { code: "overloaded", message: "m", hint: "h", retryable: true } }, {}, 503)
    expect(await client.logout({ forget: true })).toMatchObject({ ok: true, value: { revoked: false } })
    expect(requests).toHaveLength(1)
  })

  it("does not wait for a lock that another holds", async () => {
    const { sessionStore } = await loggedIn()
    const { asked, lock } = counted({ acquire: hanging })
    const { client } = startClient({ sessionStore, lock })
    const logout = client.logout({ forget: true })
    await passLockWaits(asked)
    expect(await logout).toMatchObject({ ok: true, value: { revoked: true } })
    expect(await sessionFiles()).toEqual([])
  })

  it.each(["", "no JSON", "{}", '{"version":2}', "null"])("removes the file %j", async (text) => {
    const { client, events } = await loggedIn()
    const [name = ""] = await sessionFiles()
    await writeFile(join(directory, name), text)
    expect(await client.logout({ forget: true })).toMatchObject({
      ok: true,
      value: { revoked: false, healed: true }
    })
    expect(await sessionFiles()).toEqual([])
    expect(events.map(({ type }) => type)).toContain("session_healed")
  })

  it("removes what cannot be read", async () => {
    const { sessionStore } = await loggedIn()
    const load = () => Promise.reject(Object.assign(new Error("denied"), { code: "EACCES" }))
    const { client } = startClient({ sessionStore: { ...sessionStore, load } })
    expect(await client.logout({ forget: true })).toMatchObject({ ok: true, value: { revoked: false } })
    expect(await sessionFiles()).toEqual([])
  })

  it("removes it within a second from a store that never answers a load", async () => {
    const { sessionStore } = await loggedIn()
    let loads = 0
    const load = () => {
      loads += 1
      return hanging()
    }
    const { client } = startClient({ sessionStore: { ...sessionStore, load } })
    const logout = client.logout({ forget: true })
    await expect.poll(() => loads).toBe(1)
    await vi.advanceTimersByTimeAsync(loadWait)
    expect(await logout).toMatchObject({ ok: true })
    expect(await sessionFiles()).toEqual([])
  })

  it("revokes it all the same when the store cannot be written, and says that it is still there", async () => {
    const denied = () => Promise.reject(Object.assign(new Error("denied"), { code: "EACCES" }))
    const { sessionStore } = await loggedIn()
    const { client, events, requests } = startClient({
      sessionStore: { ...sessionStore, clear: denied, lock: { acquire: denied } }
    })
    expect(await client.logout({ forget: true })).toMatchObject({
      ok: false,
      error: { code: "store_failed", details: { reason: "permission" } }
    })
    expect(requests.map(({ body }) => body)).toEqual([JSON.stringify({ token: "ort_1" })])
    expect(events.at(-1)).toMatchObject({ type: "logged_out", reason: "logout" })
  })

  it("fails when a folder is in the place of the file", async () => {
    const { client } = await loggedIn()
    const [name = ""] = await sessionFiles()
    await rm(join(directory, name))
    await mkdir(join(directory, name))
    const result = await client.logout({ forget: true })
    expect(result).toMatchObject({ ok: false, error: { code: "store_failed" } })
  })

  it("does nothing without a session", async () => {
    const { client, events, requests } = startClient({ sessionStore: fileSessionStore({ directory }) })
    expect(await client.logout({ forget: true })).toMatchObject({
      ok: true,
      value: { revoked: false, healed: false }
    })
    expect([...events, ...requests]).toEqual([])
  })
})

describe("A forgotten session", () => {
  it("does not come back with a refresh of another program that is in flight", async () => {
    const first = await loggedIn()
    const answer = gate<Response>()
    first.answers.refresh = () => answer.opened
    first.pass(life)
    const call = first.client.me()
    await expect.poll(() => first.calls.at(-1)).toBe("refresh")
    const { asked, parts: second } = watched()
    const logout = second.client.logout({ forget: true })
    await passLockWaits(asked)
    expect(await logout).toMatchObject({ ok: true, value: { revoked: true } })
    answer.open(json(pair))
    expect(await call).toMatchObject({
      ok: false,
      error: { code: "logged_out", details: { reason: "replaced" } }
    })
    expect(await sessionFiles()).toEqual([])
    expect(await first.client.status()).toEqual({ state: "logged_out", reason: "replaced" })
    expect(await second.client.status()).toEqual({ state: "logged_out", reason: "not_logged_in" })
  })

  it("does not come back with a refresh of the same client", async () => {
    const { asked, answers, calls, client, events, pass } = await loggedIn()
    const answer = gate<Response>()
    answers.refresh = () => answer.opened
    pass(life)
    const call = client.me()
    await expect.poll(() => calls.at(-1)).toBe("refresh")
    asked.times = 0
    const logout = client.logout({ forget: true })
    await passLockWaits(asked)
    expect(await logout).toMatchObject({ ok: true })
    answer.open(json(pair))
    expect(await call).toMatchObject({ ok: false, error: { code: "not_logged_in" } })
    expect(await sessionFiles()).toEqual([])
    expect(events.filter(({ type }) => type === "logged_out")).toHaveLength(1)
    expect(await client.status()).toEqual({ state: "logged_out", reason: "not_logged_in" })
  })

  /** A client whose save of a new pair begins, and ends when the test says so. */
  const savingSlowly = async () => {
    const sessionStore = fileSessionStore({ directory })
    const { asked, lock } = counted(sessionStore.lock ?? { acquire: hanging })
    const saving = gate<void>()
    const proceed = gate<void>()
    let isSlow = false
    const parts = startClient({
      lock,
      sessionStore: {
        ...sessionStore,
        save: async (slot, session) => {
          if (isSlow) {
            saving.open()
            await proceed.opened
          }
          await sessionStore.save(slot, session)
        }
      }
    })
    await parts.client.login("oac_1")
    isSlow = true
    parts.pass(life)
    const call = parts.client.me()
    await saving.opened
    asked.times = 0
    return { ...parts, asked, call, proceed }
  }

  it("does not come back with a save of the same client that had begun", async () => {
    const { asked, call, client, proceed } = await savingSlowly()
    const logout = client.logout({ forget: true })
    await passLockWaits(asked)
    expect(await logout).toMatchObject({ ok: true })
    proceed.open()
    expect(await call).toMatchObject({ ok: false, error: { code: "not_logged_in" } })
    expect(await sessionFiles()).toEqual([])
  })

  it("does not come back with a save of another program that had begun", async () => {
    const { call, proceed } = await savingSlowly()
    const granted = gate<() => Promise<void>>()
    const { asked, lock } = counted({ acquire: () => (asked.times === 1 ? hanging() : granted.opened) })
    const second = startClient({ sessionStore: fileSessionStore({ directory }), lock })
    const logout = second.client.logout({ forget: true })
    await expect.poll(() => asked.times).toBe(1)
    await vi.advanceTimersByTimeAsync(lockWait)
    await expect.poll(() => asked.times).toBe(2)
    expect(await sessionFiles()).toEqual([])
    proceed.open()
    await call
    granted.open(() => Promise.resolve())
    expect(await logout).toMatchObject({ ok: true })
    expect(await sessionFiles()).toEqual([])
  })

  it("does not come back with a pair that could not be saved", async () => {
    const sessionStore = memorySessionStore()
    let isFull = false
    const { answers, client, pass } = startClient({
      sessionStore: {
        ...sessionStore,
        save: (slot, session) =>
          isFull
            ? Promise.reject(Object.assign(new Error("full"), { code: "ENOSPC" }))
            : sessionStore.save(slot, session),
        probe: () => Promise.resolve()
      }
    })
    await client.login("oac_1")
    isFull = true
    pass(life)
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "store_failed" } })
    answers.logout = () => failure(503, "dependency_unavailable")
    await client.logout({ forget: true })
    isFull = false
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "not_logged_in" } })
    expect(await client.session()).toMatchObject({ value: null })
  })

  it("is replaced by a login at the same time as the logout of another program", async () => {
    const first = await loggedIn()
    const { asked, parts: second } = watched(recordingService(50))
    const answer = gate<Response>()
    first.answers.refresh = () => answer.opened
    first.pass(life)
    const call = first.client.me()
    await expect.poll(() => first.calls.at(-1)).toBe("refresh")
    const logout = second.client.logout({ forget: true })
    await passLockWaits(asked)
    await logout
    const login = second.client.login("oac_2")
    answer.open(json(pair))
    expect(await driven(login)).toMatchObject({ ok: true })
    await call
    const [name = ""] = await sessionFiles()
    expect(JSON.parse(await readFile(join(directory, name), "utf8"))).toMatchObject({
      refresh_token: "ort_50"
    })
  })
})

describe("A logout", () => {
  it("keeps the session when the service cannot be reached", async () => {
    const { answers, client } = await loggedIn()
    answers.logout = () => failure(503, "dependency_unavailable")
    expect(await driven(client.logout({ deadlineMilliseconds: 100 }))).toMatchObject({ ok: false })
    expect(await sessionFiles()).toHaveLength(1)
    delete answers.logout
    expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: true, healed: false } })
    expect(await sessionFiles()).toEqual([])
    expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: false, healed: false } })
  })
})
