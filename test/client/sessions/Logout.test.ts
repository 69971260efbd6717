/** `logout`, and `logout({ forget: true })`: at once, and for good. Timers move only when a test moves them, however slow the machine is. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import { memorySessionStore, type PromiseClientOptions, type SessionStore } from "../../../client/index.ts"
import {
  failure,
  gate,
  json,
  life,
  loggedIn,
  makeClient,
  makeService,
  never,
  openLock,
  pairOf,
  storeWith,
  systemError
} from "../support/ClientWorld.ts"

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }))
afterEach(() => void vi.useRealTimers())

/** Milliseconds for which a logout that forgets waits for a lock, or for a load. */
const lockWait = 400
const loadWait = 300

/** A store that programs share, and what it holds. */
const sharedStore = () => {
  let slot = ""
  const inner = memorySessionStore()
  const sessionStore = storeWith(
    ({ load }) => ({
      load: (asked) => {
        slot = asked
        return load(asked)
      }
    }),
    inner
  )
  return {
    sessionStore,
    stored: () => inner.load(slot) as Promise<{ readonly refresh_token: string } | undefined>
  }
}

/** A client of a store, and how often it has asked for the lock. */
const clientOf = (
  sessionStore: SessionStore,
  given: Partial<PromiseClientOptions> = {},
  service = makeService()
) => {
  const asked = { times: 0 }
  const lock = given.lock ?? sessionStore.lock ?? openLock
  const counted: typeof lock = {
    acquire: (slot, signal) => {
      asked.times += 1
      return lock.acquire(slot, signal)
    }
  }
  return { ...makeClient({ sessionStore, ...given, lock: counted }, service), asked }
}

/** The timers pass both waits of a logout for a lock that another holds. */
const passLockWaits = async (asked: { readonly times: number }) => {
  for (const times of [1, 2]) {
    await expect.poll(() => asked.times).toBe(times)
    await vi.advanceTimersByTimeAsync(lockWait)
  }
}

/** A client with a session in a shared store. */
const started = async () => {
  const { sessionStore, stored } = sharedStore()
  const world = await loggedIn({ sessionStore })
  return { ...world, sessionStore, stored }
}

const forget = { forget: true } as const
const ended = (revoked: boolean) => ({ ok: true, value: { revoked, healed: false } })
const denied = () => Promise.reject(systemError("EACCES"))

describe("A logout", () => {
  it("keeps the session when the service cannot be reached, and can be repeated", async () => {
    const { answers, client, pass, stored } = await started()
    answers.logout = () => {
      pass(60_000)
      return failure(503, "dependency_unavailable", {}, { retryable: true })
    }
    expect(await client.logout()).toMatchObject({ ok: false, error: { code: "dependency_unavailable" } })
    expect(await stored()).toBeDefined()
    delete answers.logout
    expect(await client.logout()).toMatchObject(ended(true))
    expect(await stored()).toBeUndefined()
    expect(await client.logout()).toMatchObject(ended(false))
  })
})

describe("Forgetting a session", () => {
  it("revokes it when the service answers, also late, and clears it before", async () => {
    const { answers, client, requests, stored } = await started()
    answers.logout = async () => {
      expect(await stored()).toBeUndefined()
      await vi.advanceTimersByTimeAsync(1_900)
      return new Response(null, { status: 204 })
    }
    expect(await client.logout(forget)).toMatchObject(ended(true))
    expect(requests.map(({ body }) => body)).toEqual([JSON.stringify({ token: "ort_1" })])
  })

  it("ends after 2 s while the service hangs", async () => {
    const { answers, client, requests } = await started()
    answers.logout = never
    const logout = client.logout(forget)
    await expect.poll(() => requests.length).toBe(1)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(await logout).toMatchObject(ended(false))
    expect(requests).toHaveLength(1)
    expect(await client.session()).toMatchObject({ ok: true, value: null })
  })

  it("sends one request only, and none without a session", async () => {
    const { answers, client, events, requests } = await started()
    answers.logout = () => failure(503, "overloaded", {}, { retryable: true })
    expect(await client.logout(forget)).toMatchObject(ended(false))
    events.length = 0
    expect(await client.logout(forget)).toMatchObject(ended(false))
    expect(requests).toHaveLength(1)
    expect(events).toEqual([])
  })

  it("does not wait for a lock that another holds", async () => {
    const { sessionStore, stored } = await started()
    const { asked, client } = clientOf(sessionStore, { lock: { acquire: never } })
    const logout = client.logout(forget)
    await passLockWaits(asked)
    expect(await logout).toMatchObject(ended(true))
    expect(await stored()).toBeUndefined()
  })

  it("removes what cannot be read, within a second also from a store that never answers a load", async () => {
    for (const answer of [denied, never]) {
      const { sessionStore, stored } = await started()
      let loads = 0
      const load = () => {
        loads += 1
        return answer()
      }
      const { client } = clientOf({ ...sessionStore, load })
      const logout = client.logout(forget)
      await expect.poll(() => loads).toBe(1)
      await vi.advanceTimersByTimeAsync(loadWait)
      expect(await logout).toMatchObject({ ok: true, value: { revoked: false } })
      expect(await stored()).toBeUndefined()
    }
  })

  it("revokes it all the same when the store cannot be written, and says that it is still there", async () => {
    const { sessionStore } = await started()
    const { client, events, requests } = clientOf(
      { ...sessionStore, clear: denied },
      { lock: { acquire: denied } }
    )
    const error = { code: "store_failed", details: { reason: "permission" } }
    expect(await client.logout(forget)).toMatchObject({ ok: false, error })
    expect(requests.map(({ body }) => body)).toEqual([JSON.stringify({ token: "ort_1" })])
    expect(events.at(-1)).toMatchObject({ type: "logged_out", reason: "logout" })
  })
})

describe("A forgotten session does not come back", () => {
  /** A program whose refresh is in flight, under the lock of the store. */
  const refreshing = async () => {
    const { sessionStore, stored } = sharedStore()
    const first = clientOf(sessionStore)
    await first.client.login("oac_1")
    const answer = first.hold("refresh")
    first.pass(life)
    const call = first.client.me()
    await expect.poll(() => first.calls().at(-1)).toBe("refresh")
    first.asked.times = 0
    return { ...first, call, land: () => answer(json(pairOf(2))), sessionStore, stored }
  }

  it("with a refresh of another program that is in flight", async () => {
    const { call, client, land, sessionStore, stored } = await refreshing()
    const second = clientOf(sessionStore)
    const logout = second.client.logout(forget)
    await passLockWaits(second.asked)
    expect(await logout).toMatchObject(ended(true))
    land()
    const replaced = { code: "logged_out", details: { reason: "replaced" } }
    expect(await call).toMatchObject({ ok: false, error: replaced })
    expect(await stored()).toBeUndefined()
    expect(await client.status()).toEqual({ state: "logged_out", reason: "replaced" })
    expect(await second.client.status()).toEqual({ state: "logged_out", reason: "not_logged_in" })
  })

  it("with a refresh of the same client", async () => {
    const { asked, call, client, events, land, stored } = await refreshing()
    const logout = client.logout(forget)
    await passLockWaits(asked)
    expect(await logout).toMatchObject({ ok: true })
    land()
    expect(await call).toMatchObject({ ok: false, error: { code: "not_logged_in" } })
    expect(await stored()).toBeUndefined()
    expect(events.filter(({ type }) => type === "logged_out")).toHaveLength(1)
    expect(await client.status()).toEqual({ state: "logged_out", reason: "not_logged_in" })
  })

  it("but a login at the same time as the logout of another program stays", async () => {
    const { call, land, sessionStore, stored } = await refreshing()
    const second = clientOf(sessionStore, {}, makeService(50))
    const logout = second.client.logout(forget)
    await passLockWaits(second.asked)
    await logout
    const login = second.client.login("oac_2")
    land()
    expect(await login).toMatchObject({ ok: true })
    await call
    expect(await stored()).toMatchObject({ refresh_token: "ort_50" })
  })

  /** A client whose save of a new pair has begun, and ends when the test says so. */
  const saving = async () => {
    const { sessionStore, stored } = sharedStore()
    const begun = gate<void>()
    const proceed = gate<void>()
    let isSlow = false
    const world = clientOf({
      ...sessionStore,
      save: async (slot, session) => {
        if (isSlow) {
          begun.open()
          await proceed.opened
        }
        await sessionStore.save(slot, session)
      }
    })
    await world.client.login("oac_1")
    isSlow = true
    world.pass(life)
    const call = world.client.me()
    await begun.opened
    world.asked.times = 0
    return { ...world, call, proceed: proceed.open, sessionStore, stored }
  }

  it("with a save of the same client that had begun", async () => {
    const { asked, call, client, proceed, stored } = await saving()
    const logout = client.logout(forget)
    await passLockWaits(asked)
    expect(await logout).toMatchObject({ ok: true })
    proceed()
    expect(await call).toMatchObject({ ok: false, error: { code: "not_logged_in" } })
    expect(await stored()).toBeUndefined()
  })

  it("with a save of another program that had begun", async () => {
    const { call, proceed, sessionStore, stored } = await saving()
    const granted = gate<() => Promise<void>>()
    let times = 0
    const acquire = () => {
      times += 1
      return times === 1 ? never() : granted.opened
    }
    const { client } = clientOf(sessionStore, { lock: { acquire } })
    const logout = client.logout(forget)
    await expect.poll(() => times).toBe(1)
    await vi.advanceTimersByTimeAsync(lockWait)
    await expect.poll(() => times).toBe(2)
    expect(await stored()).toBeUndefined()
    proceed()
    await call
    expect(await stored()).toBeDefined()
    granted.open(() => Promise.resolve())
    expect(await logout).toMatchObject({ ok: true })
    expect(await stored()).toBeUndefined()
  })

  it("with a pair that could not be saved", async () => {
    const { sessionStore } = sharedStore()
    let isFull = false
    const full = { ...sessionStore, probe: () => Promise.resolve() }
    const { answers, client, pass } = clientOf({
      ...full,
      save: (slot, session) =>
        isFull ? Promise.reject(systemError("ENOSPC")) : sessionStore.save(slot, session)
    })
    await client.login("oac_1")
    isFull = true
    pass(life)
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "store_failed" } })
    answers.logout = () => failure(503, "dependency_unavailable")
    await client.logout(forget)
    isFull = false
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "not_logged_in" } })
    expect(await client.session()).toMatchObject({ value: null })
  })
})
