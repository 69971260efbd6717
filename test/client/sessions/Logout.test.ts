/** `logout({ forget: true })`: at once, and for good. Timers move only when a test moves them, however slow the machine is. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import { memorySessionStore, type SessionStore } from "../../../client/index.ts"
import { failed, gate, loggedIn, makeClient, ok, storeWith, systemError } from "../support/ClientWorld.ts"
import { json, life, never, openLock, pairOf } from "../support/Service.ts"

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }))
afterEach(() => void vi.useRealTimers())

/** Milliseconds for which a logout that forgets waits for a lock. */
const lockWait = 400

/** A client of a store, and how often it has asked for the lock. */
const clientOf = (sessionStore: SessionStore, lock = sessionStore.lock ?? openLock) => {
  const asked = { times: 0 }
  const counted: typeof lock = {
    acquire: (slot, signal) => {
      asked.times += 1
      return lock.acquire(slot, signal)
    }
  }
  const world = makeClient({ sessionStore, lock: counted })
  return {
    ...world,
    /** A logout during which the timers pass the wait for a lock that another holds. */
    forgetWithoutLock: async () => {
      asked.times = 0
      const logout = world.client.logout(forget)
      await expect.poll(() => asked.times).toBe(1)
      await vi.advanceTimersByTimeAsync(lockWait)
      return logout
    }
  }
}

const forget = { forget: true } as const
const ended = (revoked: boolean) => ({ ok: true, value: { revoked, healed: false } })
const denied = () => Promise.reject(systemError("EACCES"))

describe("Forgetting a session", () => {
  it("clears it first, and revokes it when the service answers, also late", async () => {
    const { answers, client, requests, stored } = await loggedIn()
    answers.logout = async () => {
      expect(await stored()).toBeNull()
      await vi.advanceTimersByTimeAsync(1_900)
      return new Response(null, { status: 204 })
    }
    expect(await client.logout(forget)).toMatchObject(ended(true))
    expect(requests.map(({ body }) => body)).toEqual([JSON.stringify({ token: "ort_1" })])
  })

  it("ends after 2 s and one request while the service hangs; without a session it sends none", async () => {
    const { answers, client, events, requests } = await loggedIn()
    answers.logout = never
    const logout = client.logout(forget)
    await expect.poll(() => requests.length).toBe(1)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(await logout).toMatchObject(ended(false))
    expect(events.at(-1)).toMatchObject({ type: "logged_out", reason: "forgotten" })
    events.length = 0
    expect(await client.logout(forget)).toMatchObject(ended(false))
    expect([requests.length, events]).toEqual([1, []])
  })

  it("revokes it all the same when the store cannot be written, and says that it is still there", async () => {
    const { sessionStore } = await loggedIn()
    const { client, events, requests } = clientOf({ ...sessionStore, clear: denied }, { acquire: denied })
    expect(await client.logout(forget)).toMatchObject(failed("store_failed", "permission"))
    expect(requests.map(({ body }) => body)).toEqual([JSON.stringify({ token: "ort_1" })])
    expect(events.at(-1)).toMatchObject({ type: "logged_out", reason: "logout" })
  })
})

describe("A forgotten session does not come back", () => {
  /** A program that holds the lock while its refresh is in flight, or while its save of the new pair has begun. */
  const refreshing = async (part: "request" | "save" = "request") => {
    const inner = memorySessionStore()
    const begun = gate<void>()
    const proceed = gate<void>()
    let isSlow = false
    const wait = async () => {
      begun.open()
      await proceed.opened
    }
    const first = clientOf(
      storeWith(
        ({ save }) => ({
          save: async (slot, session) => {
            if (isSlow && part === "save") await wait()
            await save(slot, session)
          }
        }),
        inner
      )
    )
    await first.client.login("oac_1")
    first.answers.refresh = async () => {
      if (part === "request") await wait()
      return json(pairOf(2))
    }
    isSlow = true
    first.pass(life)
    const call = first.client.me()
    await begun.opened
    return { ...first, call, proceed: proceed.open, inner }
  }

  it("with a refresh of another program that is in flight", async () => {
    const { call, client, inner, logouts, proceed, stored } = await refreshing()
    const second = clientOf(inner)
    expect(await second.forgetWithoutLock()).toMatchObject(ended(true))
    proceed()
    expect(await call).toMatchObject(failed("logged_out", "replaced"))
    expect(await stored()).toBeNull()
    expect(await client.status()).toEqual({ state: "logged_out", reason: "replaced" })
    expect(logouts()).toMatchObject([{ reason: "replaced" }])
  })

  it.each(["request", "save"] as const)("with a refresh of the same client, at its %s", async (part) => {
    const { call, forgetWithoutLock, logouts, proceed, stored } = await refreshing(part)
    expect(await forgetWithoutLock()).toMatchObject(ok)
    proceed()
    expect(await call).toMatchObject(failed("not_logged_in"))
    expect(await stored()).toBeNull()
    expect(logouts()).toHaveLength(1)
  })
})
