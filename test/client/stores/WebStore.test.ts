/** The session of a page in IndexedDB, and the locks of one program. */
import * as IndexedDb from "fake-indexeddb"
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import { processLock, type WebLocks, webSessionStore } from "../../../client/index.ts"
import { loggedIn, makeClient, storedSession } from "../support/ClientWorld.ts"

const stored = storedSession("slot")
const { signal } = new AbortController()
type ObjectStore = InstanceType<typeof IndexedDb.IDBObjectStore>

/** A page with databases of its own. */
let factory: InstanceType<typeof IndexedDb.IDBFactory>
beforeEach(() => {
  factory = new IndexedDb.IDBFactory()
  for (const [name, value] of Object.entries(IndexedDb)) vi.stubGlobal(name, value)
  vi.stubGlobal("indexedDB", factory)
})
afterEach(() => {
  vi.unstubAllGlobals()
  vi.restoreAllMocks()
  vi.useRealTimers()
})

/** A database of another program or of another version of this one. */
const createDatabase = (version: number) =>
  new Promise<void>((resolve, reject) => {
    const request = factory.open("music-session", version)
    request.onsuccess = () => {
      request.result.close()
      resolve()
    }
    request.onerror = () => reject(request.error)
  })

/** A write whose transaction is aborted, for this reason or for none. */
const abortWrites = (reason?: DOMException) =>
  vi.spyOn(IndexedDb.IDBObjectStore.prototype, "put").mockImplementation(function (this: ObjectStore) {
    const request = this.get("slot")
    if (reason !== undefined) Object.defineProperty(this.transaction, "error", { value: reason })
    this.transaction.abort()
    return request
  })

describe("The web store", () => {
  it("keeps a session under its slot for every tab, durably, and locks the slot with Web Locks", async () => {
    const names: Array<string> = []
    const transactions = vi.spyOn(IndexedDb.IDBDatabase.prototype, "transaction")
    const locks: WebLocks = {
      request: (name, _, run) => {
        names.push(name)
        return run()
      }
    }
    const store = webSessionStore({ locks })
    const { client } = await loggedIn({ sessionStore: store })
    const durable = [expect.anything(), "readwrite", { durability: "strict" }]
    expect(transactions.mock.calls).toContainEqual(durable)
    const [name = ""] = names
    expect(name).toMatch(/^production-/)
    // Another tab: it shares no memory with this one.
    expect(await webSessionStore().load(name)).toMatchObject({ slot: name, version: 1 })
    expect(await webSessionStore({ database: "another" }).load(name)).toBe(undefined)
    const kept = await store.load(name)
    await store.probe?.(name, stored)
    expect(await store.load(name)).toEqual(kept)
    await client.logout()
    expect(await store.load(name)).toBe(undefined)
    expect(new Set(names)).toEqual(new Set([name]))
  })

  it("has no room: also when its request reports only the abort of the transaction", async () => {
    const store = webSessionStore()
    await store.save("slot", stored)
    const full = abortWrites(new DOMException("full", "QuotaExceededError"))
    const facts = {
      name: "SessionStoreError",
      reason: "no_space",
      retryable: true,
      code: "QuotaExceededError"
    }
    for (const use of [() => store.save("slot", stored), () => store.probe?.("slot", stored)])
      await expect(use()).rejects.toMatchObject(facts)
    full.mockRestore()
    expect(await store.load("slot")).toEqual(stored)
  })

  it("does not take an aborted transaction for a wait for a lock", async () => {
    const store = webSessionStore()
    await store.save("slot", stored)
    abortWrites()
    await expect(store.save("slot", stored)).rejects.toMatchObject({ reason: "unavailable", retryable: true })
  })

  it.each([
    [
      2,
      {
        reason: "unavailable",
        retryable: false,
        code: "VersionError",
        hint: expect.stringContaining("reload")
      }
    ],
    [1, { reason: "misconfigured", retryable: false }]
  ])("refuses the database of a newer page or of another program (version %i)", async (version, facts) => {
    await createDatabase(version)
    const store = webSessionStore()
    for (const use of [store.load, (slot: string) => store.save(slot, stored), store.clear])
      await expect(use("slot")).rejects.toMatchObject(facts)
  })

  it("ends the wait for a database that never opens, and closes one that opens late", async () => {
    const open = factory.open.bind(factory)
    let continueOpening: () => void = () => undefined
    vi.spyOn(factory, "open").mockImplementation((name: string, version?: number) => {
      const request = open(name, version)
      const dispatch = request.dispatchEvent.bind(request)
      const waiting = new Promise<void>((resolve) => {
        continueOpening = resolve
      })
      vi.spyOn(request, "dispatchEvent").mockImplementation((event: { readonly type: string }) => {
        if (event.type !== "success") return dispatch(event)
        void waiting.then(() => dispatch(event))
        return true
      })
      return request
    })
    const close = vi.spyOn(IndexedDb.IDBDatabase.prototype, "close")
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    const loaded = webSessionStore().load("slot")
    const refused = expect(loaded).rejects.toMatchObject({ reason: "unavailable", retryable: true })
    await vi.advanceTimersByTimeAsync(5_000)
    await refused
    expect(close).not.toHaveBeenCalled()
    await vi.waitFor(() => {
      continueOpening()
      vi.advanceTimersByTime(10)
      expect(close).toHaveBeenCalledOnce()
    })
  })

  it("says that the browser has no storage or blocks it, instead of reporting no session", async () => {
    const error = new DOMException("blocked", "SecurityError")
    const throwing = () => {
      throw error
    }
    const refused = { name: "SessionStoreError", reason: "permission", retryable: false }
    vi.spyOn(factory, "open").mockImplementation(throwing)
    await expect(webSessionStore().load("slot")).rejects.toMatchObject(refused)
    vi.stubGlobal("navigator", Object.defineProperty({}, "locks", { get: throwing }))
    for (const nothing of [undefined, null]) {
      vi.stubGlobal("indexedDB", nothing)
      await expect(webSessionStore().load("slot")).rejects.toMatchObject({ retryable: false })
    }
    Object.defineProperty(globalThis, "indexedDB", { configurable: true, get: throwing })
    await expect(webSessionStore().load("slot")).rejects.toMatchObject(refused)
    const locks: WebLocks = { request: () => Promise.reject(error) }
    await expect(webSessionStore({ locks }).lock?.acquire("slot", signal)).rejects.toMatchObject(refused)
  })
})

describe("A page whose origin is not allowed, and one that lost its connection", () => {
  /** A server as a page of another origin sees it, which loses the first calls. */
  const page = (allowed: boolean, lost = 0) => {
    vi.stubGlobal("document", { visibilityState: "visible" })
    vi.stubGlobal("location", { origin: "https://page.example" })
    const seen: Array<string> = []
    const world = makeClient({ source: "web" })
    let left = lost
    const { client } = makeClient({
      source: "web",
      fetch: async (url, init) => {
        const mode = init?.mode ?? "call"
        seen.push(mode)
        if (mode === "no-cors") return new Response(null, { status: 200 })
        if (mode === "call") left -= 1
        const isLost = !allowed || (mode === "call" && left >= 0)
        return isLost ? Promise.reject(new TypeError("Failed to fetch")) : world.service.fetch(url, init)
      }
    })
    return { client, seen: () => seen.toSorted() }
  }

  it("are told apart by one probe for all calls; a lost connection is repeated", async () => {
    const refused = page(false)
    const { client } = refused
    const hint = expect.stringContaining("MUSIC_WEB_ORIGINS")
    for (const call of [client.version(), client.iam(), client.version()])
      expect(await call).toMatchObject({ error: { retryable: false, hint, details: { reason: "cors" } } })
    expect(refused.seen()).toEqual(["call", "call", "call", "cors", "no-cors"])
    const allowed = page(true, 1)
    expect(await allowed.client.version()).toMatchObject({ ok: true })
    expect(allowed.seen()).toEqual(["call", "call", "cors"])
  })
})

describe("The lock of one program", () => {
  it("is granted in order, and a waiter that gives up does not block the next", async () => {
    const lock = processLock()
    const release = await lock.acquire("slot", signal)
    const order: Array<string> = []
    const given = lock.acquire("slot", AbortSignal.timeout(10)).catch(() => order.push("gave up"))
    const next = lock.acquire("slot", signal).then((done) => {
      order.push("next")
      return done()
    })
    await given
    await release()
    await next
    expect(order).toEqual(["gave up", "next"])
  })
})
