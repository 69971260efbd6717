/** `logout({ forget: true })`: at once, and for good. */
import { afterEach, describe, expect, it, vi } from "vitest"
import { memorySessionStore } from "../../../client/index.ts"
import { failed, gate, loggedIn, makeClient, ok, storeWith, systemError } from "../support/ClientWorld.ts"
import { type Answer, failure, life, never } from "../support/Service.ts"

afterEach(() => void vi.useRealTimers())

const forget = { forget: true } as const
const ended = (revoked: boolean) => ({ ok: true, value: { revoked, healed: false } })
const denied = () => Promise.reject(systemError("EACCES"))

describe("Forgetting a session", () => {
  it("clears it first, and revokes it when the service answers", async () => {
    const { answers, client, requests, stored } = await loggedIn()
    answers.logout = async () => {
      expect(await stored()).toBeNull()
      return new Response(null, { status: 204 })
    }
    expect(await client.logout(forget)).toMatchObject(ended(true))
    expect(requests.map(({ body }) => body)).toEqual([JSON.stringify({ token: "ort_1" })])
  })

  it("ends after 2 s and one request while the service hangs; without a session it sends none", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    const { answers, client, events, requests } = await loggedIn()
    answers.logout = never
    const logout = client.logout(forget)
    await expect.poll(() => requests.length).toBe(1)
    await vi.advanceTimersByTimeAsync(1_999)
    expect(events).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(1)
    expect(await logout).toMatchObject(ended(false))
    expect(events.at(-1)).toMatchObject({ type: "logged_out", reason: "forgotten" })
    events.length = 0
    expect(await client.logout(forget)).toMatchObject(ended(false))
    expect([requests.length, events]).toEqual([1, []])
  })

  it("revokes it all the same when the store cannot be written, and says that it is still there", async () => {
    const { sessionStore } = await loggedIn()
    const unwritable = { ...sessionStore, clear: denied }
    const { client, events, requests } = makeClient({ sessionStore: unwritable, lock: { acquire: denied } })
    expect(await client.logout(forget)).toMatchObject(failed("store_failed", "permission"))
    expect(requests.map(({ body }) => body)).toEqual([JSON.stringify({ token: "ort_1" })])
    expect(events.at(-1)).toMatchObject({ type: "logged_out", reason: "logout" })
  })
})

type Part = "request" | "save" | "proof"
describe("A forgotten session does not come back", () => {
  /** A program that holds the lock while its refresh is in flight, while it saves a session for that, or once the new pair is proven. */
  const refreshing = async (part: Part = "request") => {
    const inner = memorySessionStore()
    const begun = gate<void>()
    const proceed = gate<void>()
    let isSlow = false
    const wait = async () => {
      begun.open()
      await proceed.opened
    }
    const sessionStore = storeWith(
      ({ save }) => ({
        save: async (slot, session) => {
          const isProof = session.refresh_token === "ort_2" && session.spent_refresh_token === undefined
          if (isSlow && (part === "save" || (part === "proof" && isProof))) await wait()
          await save(slot, session)
        }
      }),
      inner
    )
    const first = makeClient({ sessionStore })
    await first.client.login("oac_1")
    first.answers.refresh = async (right) => {
      if (part === "request") await wait()
      return right()
    }
    isSlow = true
    first.pass(life)
    const call = first.client.me()
    await begun.opened
    return { ...first, call, proceed: proceed.open, inner }
  }

  it("with a refresh of another program that is in flight", async () => {
    const { call, client, inner, logouts, proceed, stored } = await refreshing()
    const second = makeClient({ sessionStore: inner })
    // Its wait for the lock ends before the refresh does.
    expect(await second.client.logout(forget)).toMatchObject(ended(true))
    proceed()
    expect(await call).toMatchObject(failed("logged_out", "replaced"))
    expect(await stored()).toBeNull()
    expect(await client.status()).toEqual({ state: "logged_out", reason: "replaced" })
    expect(logouts()).toMatchObject([{ reason: "replaced" }])
  })

  it.each<readonly [Part, object, Answer]>([
    ["request", failed("not_logged_in"), (right) => right()],
    ["save", failed("not_logged_in"), (right) => right()],
    ["save", failed("not_logged_in"), () => failure(403, "forbidden")],
    ["proof", ok, (right) => right()]
  ])("with a refresh of the same client, at its %s", async (part, result, answer) => {
    const { answers, call, client, logouts, proceed, stored } = await refreshing(part)
    answers.refresh = answer
    expect(await client.logout(forget)).toMatchObject(ok)
    proceed()
    expect(await call).toMatchObject(result)
    await expect.poll(stored).toBeNull()
    expect(logouts()).toHaveLength(1)
  })
})
