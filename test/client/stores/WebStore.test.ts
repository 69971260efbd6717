/** The session of a page in IndexedDB, and the locks of one program. */
import * as IndexedDb from "fake-indexeddb"
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import { processLock, type WebLocks, webSessionStore } from "../../../client/index.ts"
import { loggedIn, storedSession } from "../support/ClientWorld.ts"

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

describe("The web store", () => {
  it("keeps a session durably, and locks its slot with Web Locks", async () => {
    const transactions = vi.spyOn(IndexedDb.IDBDatabase.prototype, "transaction")
    const names: Array<string> = []
    const locks: WebLocks = {
      request: (name, _, run) => {
        names.push(name)
        return run()
      }
    }
    await loggedIn({ sessionStore: webSessionStore({ locks }) })
    const durable = [expect.anything(), "readwrite", { durability: "strict" }]
    expect(transactions.mock.calls).toContainEqual(durable)
    const other = webSessionStore({ database: null, locks: null } as never)
    await expect(other.clear(names[0] ?? "", true, "ort_0")).rejects.toMatchObject({ reason: "locked" })
    expect(await other.load(names[0] ?? "")).toMatchObject({ slot: names[0], org_id: "acme" })
  })

  it.each([
    ["no_space", new DOMException("full", "QuotaExceededError")],
    // Not taken for a wait for a lock.
    ["unavailable", undefined]
  ])("says %s when its request reports only the abort of the transaction", async (reason, cause) => {
    const store = webSessionStore()
    await store.save("slot", stored)
    const put = vi.spyOn(IndexedDb.IDBObjectStore.prototype, "put")
    put.mockImplementation(function (this: ObjectStore) {
      const request = this.get("slot")
      if (cause !== undefined) Object.defineProperty(this.transaction, "error", { value: cause })
      this.transaction.abort()
      return request
    })
    const facts = { name: "SessionStoreError", reason, retryable: true }
    for (const use of [() => store.save("slot", stored), () => store.probe?.("slot", stored)])
      await expect(use()).rejects.toMatchObject(facts)
    put.mockRestore()
    expect(await store.load("slot")).toEqual(stored)
  })

  it("says that the browser has no storage or blocks it, instead of reporting no session", async () => {
    const error = new DOMException("blocked", "SecurityError")
    const throwing = () => {
      throw error
    }
    const refused = { name: "SessionStoreError", reason: "permission", retryable: false }
    vi.spyOn(factory, "open").mockImplementation(throwing)
    await expect(webSessionStore().load("slot")).rejects.toMatchObject(refused)
    vi.stubGlobal("indexedDB", undefined)
    await expect(webSessionStore().load("slot")).rejects.toMatchObject({ retryable: false })
    Object.defineProperty(globalThis, "indexedDB", { configurable: true, get: throwing })
    await expect(webSessionStore().load("slot")).rejects.toMatchObject(refused)
    const locks: WebLocks = { request: () => Promise.reject(error) }
    await expect(webSessionStore({ locks }).lock?.acquire("slot", signal)).rejects.toMatchObject(refused)
  })
})

it("The lock of one program is granted in order; a waiter that gives up does not block the next", async () => {
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
