/** Every call ends at its deadline, whatever store and lock do, and says what it waited for; no token is spent meanwhile, and nothing received is lost. */
import { afterEach, describe, expect, it, vi } from "vitest"
import type { SessionLock } from "../../../client/index.ts"
import { failed, gate, loggedIn, makeClient, ok, storeWith } from "../support/ClientWorld.ts"
import { failure, json, life, loginOf, never, openLock, pairOf } from "../support/Service.ts"

const short = { deadlineMilliseconds: 60 }
const report = { message: "long enough" }

describe("A call ends in time when the store never settles", () => {
  /** A client of a store that hangs in one part while it is told to. */
  const stoppable = async (part: "load" | "save" | "clear" | "release") => {
    let isStopped = false
    const unless = <A>(run: () => Promise<A>) => (isStopped ? never() : run())
    const sessionStore = storeWith((inner) =>
      part === "release"
        ? { lock: { acquire: async () => () => unless(async () => undefined) } }
        : { [part]: (...given: [never, never, never]) => unless(async () => inner[part](...given)) }
    )
    const now = () => performance.now()
    const clock = { now, monotonic: now }
    const world = await loggedIn({ sessionStore, deadlineMilliseconds: 300, clock })
    return {
      ...world,
      stop: (stopped: boolean) => {
        isStopped = stopped
      }
    }
  }

  it("does not load, and says that it did not answer", async () => {
    const { client, requests, stop } = await stoppable("load")
    stop(true)
    const unavailable = failed("store_failed", "unavailable", { retryable: true })
    const calls = [client.me(short), client.login("oac_2", short), client.report(report, short)]
    for (const call of [...calls, client.session()]) expect(await call).toMatchObject(unavailable)
    expect(await client.logout(short)).toMatchObject({ ok: false, error: { retryable: true } })
    expect(requests).toEqual([])
  })

  it.each<readonly ["save" | "clear" | "release", "login" | "logout"]>([
    ["save", "login"],
    ["clear", "logout"],
    ["release", "login"]
  ])("does not %s at a %s; a later login is saved", async (part, call) => {
    const { client, stop } = await stoppable(part)
    stop(true)
    const waiting = call === "login" ? client.login("oac_2", short) : client.logout(short)
    expect(await waiting).toMatchObject(failed("timed_out"))
    stop(false)
    await expect.poll(async () => (await client.login("oac_3")).ok).toBe(true)
  })
})

describe("A call that waits for the lock", () => {
  it("says so, also when it waits for a refresh that waits, and ends at once when it is aborted", async () => {
    const { service, sessionStore } = await loggedIn()
    let asked = 0
    const acquire = () => {
      asked += 1
      // Ignores even the signal.
      return never()
    }
    const second = makeClient({ sessionStore, lock: { acquire } }, service)
    second.pass(life)
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    const calls = [second.client.me(), second.client.logout(), second.client.login("oac_2")]
    await expect.poll(() => asked).toBe(3)
    await vi.advanceTimersByTimeAsync(30_000)
    const waited = failed("timed_out", undefined, { requestId: null, hint: expect.stringContaining("lock") })
    for (const call of calls) expect(await call).toMatchObject(waited)
    const leaving = new AbortController()
    const left = second.client.login("oac_2", { signal: leaving.signal })
    await expect.poll(() => asked).toBe(4)
    leaving.abort()
    expect(await left).toMatchObject(failed("aborted"))
    expect(service.requests).toEqual([])
  })

  it("releases a lock that is granted after the deadline", async () => {
    const { open, opened } = gate<() => Promise<void>>()
    const { client } = makeClient({ lock: { acquire: () => opened } })
    await client.login("oac_1", { deadlineMilliseconds: 20 })
    await new Promise<void>((released) => open(async () => released()))
  })
})

it("A received session that cannot be saved names the fix; the same token then returns the same login", async () => {
  let isFull = true
  const sessionStore = storeWith(({ save }) => ({
    save: (slot, session) => (isFull ? Promise.reject(new Error("disk")) : save(slot, session))
  }))
  const { calls, client, keys } = makeClient({ sessionStore })
  const hint = expect.stringMatching(/same token.*10 minutes/)
  expect(await client.login("oac_1")).toMatchObject(
    failed("store_failed", undefined, { retryable: true, hint })
  )
  isFull = false
  expect(await client.login("oac_1")).toMatchObject(ok)
  expect(calls()).toEqual(["login", "login"])
  expect(keys()[0]).toBe(keys()[1])
})

afterEach(() => void vi.useRealTimers())

it.each([
  ["refresh", 10_000],
  ["tings", 28_000]
])("A first attempt that hangs is given up: that of %s after %i ms", async (path, milliseconds) => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
  const { answers, calls, client, pass, types } = await loggedIn()
  answers[path] = never
  if (path === "refresh") pass(life)
  void (path === "tings" ? client.ting({ type: "t", key: "k", data: {} }) : client.me())
  await expect.poll(calls).toEqual([path])
  await vi.advanceTimersByTimeAsync(milliseconds - 1)
  expect(types()).toEqual(["request"])
  await vi.advanceTimersByTimeAsync(1)
  expect(types()).toEqual(["request", "response", "retry"])
})

describe("A report", () => {
  it("waits 5 s at most for a refresh, and is sent with the old token then", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    const { answers, calls, client, later, pass, requests } = await loggedIn()
    answers.refresh = never
    pass(life)
    const sent = client.report(report)
    await expect.poll(() => calls().at(-1)).toBe("refresh")
    await later(4_999)
    expect(calls().at(-1)).toBe("refresh")
    await later(1)
    await expect.poll(() => calls().at(-1)).toBe("reports")
    expect(await sent).toMatchObject(ok)
    expect(requests.at(-1)?.headers.get("authorization")).toBe("Bearer oat_1")
  })

  it("is sent at once with the old token when the refresh fails", async () => {
    const { answers, calls, client, pass } = await loggedIn()
    answers.refresh = () => failure(403, "forbidden")
    pass(life)
    expect(await client.report(report)).toMatchObject(ok)
    expect(calls()).toEqual(["refresh", "reports"])
  })
})

it("A call that is aborted ends at once, and the refresh that it began is saved", async () => {
  const { answers, client, requests, pass, stored } = await loggedIn()
  const { open, opened } = gate<Response>()
  answers.refresh = () => opened
  pass(life)
  const leaving = new AbortController()
  const call = client.me({ signal: leaving.signal })
  await expect.poll(() => requests.length).toBe(1)
  leaving.abort()
  expect(await call).toMatchObject(failed("aborted"))
  open(json(pairOf(2, { org_id: "later" })))
  await expect.poll(stored).toMatchObject({ org_id: "later" })
})

it.each([
  ["logout", failed("store_failed", "locked")],
  ["me", ok]
] as const)("A program whose lock was broken clears no later session: %s", async (call, result) => {
  let logIn: () => Promise<unknown> = async () => undefined
  const sessionStore = storeWith(({ clear }) => ({
    clear: (...given) => logIn().then(() => clear(...given))
  }))
  const first = await loggedIn({ lock: openLock, sessionStore })
  const second = makeClient({ sessionStore, lock: openLock }, first.service)
  for (const { pass } of [first, second]) pass(life)
  first.once("refresh", () => failure(401, "unauthenticated"))
  logIn = () => second.client.login("oac_2")
  expect(await first.client[call]()).toMatchObject(result)
  expect(await second.client.session()).toMatchObject({ value: { org_id: "acme" } })
})

it.each(["expired", "refused"])(
  "A call whose access token is %s is not sent for another actor, who logged in meanwhile in another program",
  async (how) => {
    let replace = async (): Promise<void> => undefined
    const lock: SessionLock = {
      acquire: async () => {
        await replace()
        return async () => undefined
      }
    }
    const first = await loggedIn({ lock })
    const second = makeClient({ sessionStore: first.sessionStore }, first.service)
    replace = async () => {
      replace = async () => undefined
      await second.client.logout()
      first.once("login", () => json(loginOf(7, { actor: { type: "silicon", public_id: "si:other" } })))
      await second.client.login("oac_2")
    }
    if (how === "expired") for (const { pass } of [first, second]) pass(life)
    first.once("tings", () => failure(401, "unauthenticated"))
    const ting = await first.client.ting({ type: "t", key: "k", data: {} })
    expect(ting).toMatchObject(failed("logged_out", "replaced"))
    expect(first.calls().filter((call) => call === "tings")).toHaveLength(how === "refused" ? 1 : 0)
    expect(await second.client.session()).toMatchObject({ value: { actor: { public_id: "si:other" } } })
  }
)
