import * as IndexedDb from "fake-indexeddb"
import { describe, expect, it, vi } from "vitest"
import {
  createMusicClient,
  memorySessionStore,
  processLock,
  type SessionStore,
  type StoredSession,
  type WebLocks,
  webSessionStore
} from "../../../client/index.ts"
import { stubService } from "../support/StubService.ts"
import { storedSession } from "../support/StoredSessions.ts"

const options = { baseUrl: "https://music.example", source: "cli", telemetry: false } as const

describe("A session store that fails", () => {
  const broken = () => Promise.reject(new Error("disk"))

  it("causes an error, never a logout", async () => {
    const sessionStore: SessionStore = { load: broken, save: broken, clear: broken }
    const client = createMusicClient({ ...options, sessionStore, fetch: stubService().fetch })
    expect(await client.status()).toMatchObject({ state: "unknown", error: { code: "store_failed" } })
    expect(await client.session()).toMatchObject({ ok: false, error: { code: "store_failed" } })
    expect(await client.report({ message: "long enough a message" })).toMatchObject({ ok: false })
  })

  it("is refused when it holds the session of another slot", async () => {
    const inner = memorySessionStore()
    const { calls, fetch } = stubService()
    await createMusicClient({ ...options, sessionStore: inner, fetch }).login("oac_1")
    const slots: Array<string> = []
    const seen: SessionStore = {
      ...inner,
      load: (slot) => {
        slots.push(slot)
        return inner.load(slots[0] ?? slot)
      }
    }
    await createMusicClient({ ...options, sessionStore: seen, fetch }).session()
    const testing = createMusicClient({
      ...options,
      sessionStore: seen,
      fetch,
      testingKey: `ask_${"t".repeat(43)}`
    })
    calls.length = 0
    expect(await testing.me()).toMatchObject({ ok: false, error: { code: "store_failed" } })
    expect(calls).toEqual([])
    expect(slots[0]).toMatch(/^production-[0-9a-f]{32}$/)
    expect(slots[1]).toMatch(/^testing-[0-9a-f]{32}$/)
  })
})

describe("A client of a testing plane", () => {
  it("refuses a session of production", async () => {
    const { fetch } = stubService()
    const client = createMusicClient({ ...options, fetch, testingKey: `ask_${"t".repeat(43)}` })
    expect(await client.login("si:deejay")).toMatchObject({ ok: false, error: { code: "unexpected_answer" } })
    expect(await client.session()).toMatchObject({ ok: true, value: null })
  })
})

describe("The web store", () => {
  it("keeps a session under its slot, and locks the slot with Web Locks when available", async () => {
    for (const [name, value] of Object.entries(IndexedDb)) vi.stubGlobal(name, value)
    vi.stubGlobal("indexedDB", new IndexedDb.IDBFactory())
    try {
      const names: Array<string> = []
      const transactions = vi.spyOn(IndexedDb.IDBDatabase.prototype, "transaction")
      const locks: WebLocks = {
        request: (name, _, run) => {
          names.push(name)
          return run()
        }
      }
      const store = webSessionStore({ locks })
      const client = createMusicClient({ ...options, sessionStore: store, fetch: stubService().fetch })
      await client.login("oac_1")
      const [name = ""] = names
      // A save is durable when it resolves.
      expect(transactions).toHaveBeenLastCalledWith(expect.anything(), "readwrite", { durability: "strict" })
      transactions.mockRestore()
      expect(name).toMatch(/^production-/)
      // Another tab: it shares no memory with this one.
      expect(await webSessionStore().load(name)).toMatchObject({ slot: name, version: 1 })
      expect(await webSessionStore({ database: "another" }).load(name)).toBe(undefined)
      const kept = await store.load(name)
      await store.probe?.(name, { ...(kept as StoredSession), refresh_token: "ort_old" })
      expect(await store.load(name)).toEqual(kept)
      await client.logout()
      expect(await store.load(name)).toBe(undefined)
      expect(new Set(names)).toEqual(new Set([name]))
    } finally {
      vi.unstubAllGlobals()
    }
  })

  it("rejects when there is no storage, instead of reporting no session", async () => {
    await expect(webSessionStore().load("slot")).rejects.toThrow("IndexedDB")
    vi.stubGlobal("indexedDB", null)
    try {
      await expect(webSessionStore().load("slot")).rejects.toMatchObject({ retryable: false })
    } finally {
      vi.unstubAllGlobals()
    }
  })
})

describe("A failure of the web store", () => {
  const stored = storedSession("slot")

  type Factory = InstanceType<typeof IndexedDb.IDBFactory>

  /** Runs in a page with its own databases. */
  const inPage = async (run: (factory: Factory) => Promise<void>) => {
    const factory = new IndexedDb.IDBFactory()
    for (const [name, value] of Object.entries(IndexedDb)) vi.stubGlobal(name, value)
    vi.stubGlobal("indexedDB", factory)
    try {
      await run(factory)
    } finally {
      vi.unstubAllGlobals()
    }
  }

  const createDatabase = (factory: Factory, version: number) =>
    new Promise<void>((resolve, reject) => {
      const request = factory.open("music-session", version)
      request.onsuccess = () => {
        request.result.close()
        resolve()
      }
      request.onerror = () => reject(request.error)
    })

  it("has a reason: a quota, also when its request reports only the abort of the transaction", () =>
    inPage(async () => {
      const store = webSessionStore()
      await store.save("slot", stored)
      const quota = new DOMException("full", "QuotaExceededError")
      const full = vi.spyOn(IndexedDb.IDBObjectStore.prototype, "put").mockImplementation(function (
        this: InstanceType<typeof IndexedDb.IDBObjectStore>
      ) {
        const request = this.get("slot")
        Object.defineProperty(this.transaction, "error", { value: quota })
        this.transaction.abort()
        return request
      })
      for (const use of [() => store.save("slot", stored), () => store.probe?.("slot", stored)])
        await expect(use()).rejects.toMatchObject({
          name: "SessionStoreError",
          reason: "no_space",
          retryable: true,
          code: "QuotaExceededError"
        })
      full.mockRestore()
      expect(await store.load("slot")).toEqual(stored)
    }))

  it("has a reason: an aborted transaction is no wait for a lock", () =>
    inPage(async () => {
      const store = webSessionStore()
      await store.save("slot", stored)
      const aborted = vi.spyOn(IndexedDb.IDBObjectStore.prototype, "put").mockImplementation(function (
        this: InstanceType<typeof IndexedDb.IDBObjectStore>
      ) {
        const request = this.get("slot")
        this.transaction.abort()
        return request
      })
      await expect(store.save("slot", stored)).rejects.toMatchObject({
        reason: "unavailable",
        retryable: true
      })
      aborted.mockRestore()
    }))

  it("has a reason: a newer page changed the database", () =>
    inPage(async (factory) => {
      await createDatabase(factory, 2)
      await expect(webSessionStore().load("slot")).rejects.toMatchObject({
        reason: "unavailable",
        retryable: false,
        code: "VersionError",
        hint: expect.stringContaining("reload")
      })
    }))

  it("has a reason: the database belongs to another program", () =>
    inPage(async (factory) => {
      await createDatabase(factory, 1)
      const store = webSessionStore()
      for (const use of [
        () => store.load("slot"),
        () => store.save("slot", stored),
        () => store.clear("slot")
      ])
        await expect(use()).rejects.toMatchObject({ reason: "misconfigured", retryable: false })
    }))

  it("ends the wait for a database that never opens, and closes one that opens late", () =>
    inPage(async (factory) => {
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
      try {
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
      } finally {
        vi.useRealTimers()
        close.mockRestore()
      }
    }))

  it("has a reason: the browser blocks storage, whether it refuses the database or its property", () =>
    inPage(async (factory) => {
      const error = new DOMException("blocked", "SecurityError")
      const throwing = () => {
        throw error
      }
      const refused = { name: "SessionStoreError", reason: "permission", retryable: false }
      vi.spyOn(factory, "open").mockImplementation(throwing)
      await expect(webSessionStore().load("slot")).rejects.toMatchObject(refused)
      vi.stubGlobal("navigator", Object.defineProperty({}, "locks", { get: throwing }))
      vi.stubGlobal("indexedDB", undefined)
      Object.defineProperty(globalThis, "indexedDB", { configurable: true, get: throwing })
      await expect(webSessionStore().load("slot")).rejects.toMatchObject(refused)
      const locks: WebLocks = { request: () => Promise.reject(error) }
      const { signal } = new AbortController()
      await expect(webSessionStore({ locks }).lock?.acquire("slot", signal)).rejects.toMatchObject(refused)
    }))
})

describe("The lock of one program", () => {
  it("is granted in order, and a waiter that gives up does not block the next", async () => {
    const lock = processLock()
    const never = new AbortController().signal
    const release = await lock.acquire("slot", never)
    const order: Array<string> = []
    const given = lock.acquire("slot", AbortSignal.timeout(10)).catch(() => order.push("gave up"))
    const next = lock.acquire("slot", never).then((done) => {
      order.push("next")
      return done()
    })
    await given
    await release()
    await next
    expect(order).toEqual(["gave up", "next"])
  })
})
