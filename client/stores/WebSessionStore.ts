/**
 * A session store for browsers: IndexedDB, with Web Locks so that two tabs never refresh at once. `localStorage` is not
 * coherent between tabs, and a write may be lost for seconds.
 */
import { type IDBPDatabase, openDB } from "idb"
import { deferred, ignore, tried } from "../Values.ts"
import { inTime, systemTime } from "../calls/Time.ts"
import { SessionStoreError, storeErrorOf } from "../failures/StoreFailures.ts"
import { processLock, type SessionLock, type SessionStore, unlessReplaced } from "./SessionStore.ts"

/** The part of `LockManager` that is used. */
export interface WebLocks {
  readonly request: (
    name: string,
    options: { readonly signal: AbortSignal },
    run: () => Promise<void>
  ) => Promise<unknown>
}

/** The part of `BroadcastChannel` that is used. A channel does not hear itself. */
interface Channel {
  readonly postMessage: (message: unknown) => void
  readonly addEventListener: (type: "message", hear: (event: { readonly data: unknown }) => void) => void
  readonly removeEventListener: Channel["addEventListener"]
  /** In Node only. */
  readonly unref?: () => void
}

interface Page {
  readonly indexedDB?: unknown
  readonly BroadcastChannel?: new (name: string) => Channel
  readonly navigator?: { readonly locks?: WebLocks }
}

// The same source compiles without DOM types.
const page = globalThis as unknown as Page

const webLock = (locks: WebLocks): SessionLock => ({
  acquire: (slot, signal) =>
    new Promise((resolve, reject) => {
      const held = deferred()
      const ended = locks.request(slot, { signal }, () => {
        resolve(async () => {
          held.resolve()
          await ended
        })
        return held.promise
      })
      // Not every browser rejects with the reason of the signal.
      ended.catch((cause: unknown) => reject(signal.aborted ? signal.reason : storeErrorOf(cause)))
    })
})

const sessions = "sessions"
/** Milliseconds for opening the database: a browser may wait for ever, for example for the end of a deletion. */
const openMilliseconds = 5_000

const open = async (name: string): Promise<IDBPDatabase> => {
  // Some browsers have null here when storage is blocked.
  if ((page.indexedDB ?? null) === null) {
    const hint = "Use a browser with IndexedDB, or memorySessionStore()."
    const message = "IndexedDB is not available."
    return Promise.reject(new SessionStoreError({ reason: "unavailable", retryable: false, message, hint }))
  }
  const opening = openDB(name, 1, { upgrade: (made) => void made.createObjectStore(sessions) })
  const silent = () =>
    new SessionStoreError({
      reason: "unavailable",
      message: "The browser does not open the database of the session store.",
      hint: "Close other tabs of this site, or restart the browser, and retry."
    })
  return inTime(systemTime, openMilliseconds, opening, silent).catch((cause: unknown) => {
    // It may open later.
    opening.then((database) => database.close()).catch(ignore)
    return Promise.reject(cause)
  })
}

/** The abort of a transaction looks like the end of a wait for a lock. */
const isAbort = (cause: unknown): boolean => storeErrorOf(cause).reason === "locked"

/** The part of an object store that is used for writing. */
interface Sessions {
  readonly get: (slot: string) => Promise<unknown>
  readonly put: (session: unknown, slot: string) => Promise<unknown>
  readonly delete: (slot: string) => Promise<void>
}

/**
 * Keeps the session in IndexedDB, readable by every script of the origin; use `memorySessionStore` if that is not acceptable.
 * A save is on the disk when it resolves. Without Web Locks only the callers of this page exclude each other. Every failure is a
 * `SessionStoreError`.
 */
export const webSessionStore = (
  options: {
    /** Name of the database; default `music-session`. */
    readonly database?: string
    readonly locks?: WebLocks
  } = {}
): SessionStore => {
  // Programs without a type checker may pass null.
  const name = options?.database ?? "music-session"
  // A page without an origin, or whose browser blocks storage, may not even read what it has.
  const locks = options?.locks ?? tried(() => page.navigator?.locks)
  // Between the tabs of this origin.
  const channel = tried(() => page.BroadcastChannel && new page.BroadcastChannel(`music-client/${name}`))
  channel?.unref?.()

  // Opened for each use: a browser may close an idle connection, and an open one blocks clearing the site data.
  const use = async <A>(run: (database: IDBPDatabase) => Promise<A>): Promise<A> => {
    try {
      const database = await open(name)
      return await run(database).finally(() => database.close())
    } catch (cause) {
      if (cause instanceof SessionStoreError || !isAbort(cause)) return Promise.reject(storeErrorOf(cause))
      const message = "The browser aborted the transaction of the session store."
      return Promise.reject(new SessionStoreError({ reason: "unavailable", message, cause }))
    }
  }
  const write = (run: (store: Sessions) => Promise<unknown>): Promise<void> =>
    use(async (database) => {
      const transaction = database.transaction(sessions, "readwrite", { durability: "strict" })
      const request = (async () => run(transaction.store))()
      const [asked, done] = await Promise.allSettled([request, transaction.done])
      // The transaction knows the reason, for example a quota; its requests may only report that it was aborted.
      if (done.status === "rejected" && !(asked.status === "rejected" && isAbort(done.reason)))
        return Promise.reject(done.reason)
      if (asked.status === "rejected") return Promise.reject(asked.reason)
    })
  /** Writes, and tells the other tabs. */
  const change = async (slot: string, run: (store: Sessions) => Promise<unknown>): Promise<void> => {
    await write(run)
    channel?.postMessage(slot)
  }
  return {
    load: (slot) => use((database) => database.get(sessions, slot)),
    // One transaction: no other tab saves between the comparison and the change.
    save: (slot, session, replaced) =>
      change(slot, async (store) =>
        unlessReplaced(await store.get(slot), replaced, () => store.put(session, slot))
      ),
    // One transaction: the stored session stays, also when another tab has just replaced it.
    probe: (slot) => write(async (store) => store.put(await store.get(slot), slot)),
    clear: (slot, _, replaced) =>
      change(slot, async (store) =>
        unlessReplaced(await store.get(slot), replaced, () => store.delete(slot))
      ),
    watch: (slot, changed) => {
      const hear = ({ data }: { readonly data: unknown }) => {
        if (data === slot) changed()
      }
      channel?.addEventListener("message", hear)
      return () => channel?.removeEventListener("message", hear)
    },
    lock: locks === undefined ? processLock() : webLock(locks)
  }
}
