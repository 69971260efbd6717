/**
 * A session store for browsers: IndexedDB, with Web Locks so that two tabs never refresh at once. `localStorage` is not
 * coherent between tabs, and a write may be lost for seconds.
 */
import { type IDBPDatabase, openDB } from "idb"
import {
  isReplaced,
  processLock,
  replacedError,
  type SessionLock,
  type SessionStore
} from "./SessionStore.ts"
import { SessionStoreError, storeErrorOf } from "../failures/StoreFailures.ts"

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
const page = () => globalThis as unknown as Page

/** A page without an origin may not even read this property. */
const pageLocks = (): WebLocks | undefined => {
  try {
    return page().navigator?.locks
  } catch {
    return undefined
  }
}

/** Between the tabs of this origin; a browser that blocks storage may block it, too. */
const pageChannel = (name: string): Channel | undefined => {
  try {
    const { BroadcastChannel } = page()
    if (BroadcastChannel === undefined) return undefined
    const channel = new BroadcastChannel(name)
    channel.unref?.()
    return channel
  } catch {
    return undefined
  }
}

const webLock = (locks: WebLocks): SessionLock => ({
  acquire: (slot, signal) =>
    new Promise((resolve, reject) => {
      let release: () => void = () => undefined
      const held = new Promise<void>((done) => {
        release = done
      })
      const ended = locks.request(slot, { signal }, () => {
        resolve(async () => {
          release()
          await ended
        })
        return held
      })
      // Not every browser rejects with the reason of the signal.
      ended.catch((cause: unknown) => reject(signal.aborted ? signal.reason : storeErrorOf(cause)))
    })
})

const sessions = "sessions"
/** Milliseconds for opening the database: a browser may wait for ever, for example for the end of a deletion. */
const openMillis = 5_000

const unavailable = () =>
  new SessionStoreError({
    reason: "unavailable",
    retryable: false,
    message: "IndexedDB is not available.",
    hint: "Use a browser with IndexedDB, or memorySessionStore()."
  })

const silent = () =>
  new SessionStoreError({
    reason: "unavailable",
    message: "The browser does not open the database of the session store.",
    hint: "Close other tabs of this site, or restart the browser, and retry."
  })

/** Rejects when the database does not open in time; closes it if it opens later. */
const openInTime = (opening: Promise<IDBPDatabase>): Promise<IDBPDatabase> => {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(silent())
      opening.then((database) => database.close()).catch(() => undefined)
    }, openMillis)
  })
  return Promise.race([opening, late]).finally(() => clearTimeout(timer))
}

/** An aborted transaction, which an `AbortError` is elsewhere: the end of a wait for the lock. */
const isAbort = (cause: unknown): boolean => storeErrorOf(cause).reason === "locked"

const failureOf = (cause: unknown): Error =>
  isAbort(cause)
    ? new SessionStoreError({
        reason: "unavailable",
        message: "The browser aborted the transaction of the session store.",
        cause
      })
    : storeErrorOf(cause)

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
  const locks = options.locks ?? pageLocks()
  // Opened for each use: a browser may close an idle connection, and an open one blocks clearing the site data.
  const open = async <A>(run: (database: IDBPDatabase) => Promise<A>): Promise<A> => {
    // Some browsers have null here when storage is blocked.
    const factory = page().indexedDB
    if (factory === undefined || factory === null) return Promise.reject(unavailable())
    const database = await openInTime(
      openDB(options.database ?? "music-session", 1, {
        upgrade: (made) => void made.createObjectStore(sessions)
      })
    )
    try {
      return await run(database)
    } finally {
      database.close()
    }
  }
  const use = <A>(run: (database: IDBPDatabase) => Promise<A>): Promise<A> =>
    open(run).catch((cause) => Promise.reject(failureOf(cause)))
  const write = (run: (store: Sessions) => Promise<unknown>): Promise<void> =>
    use(async (database) => {
      const transaction = database.transaction(sessions, "readwrite", { durability: "strict" })
      const [request, done] = await Promise.allSettled([
        (async () => run(transaction.store))(),
        transaction.done
      ])
      // The transaction knows the reason, for example a quota; its requests may only report that it was aborted.
      if (done.status === "rejected" && !(request.status === "rejected" && isAbort(done.reason)))
        return Promise.reject(done.reason)
      if (request.status === "rejected") return Promise.reject(request.reason)
    })
  const channel = pageChannel(`music-client/${options.database ?? "music-session"}`)
  const tell = <A>(slot: string, write: Promise<A>): Promise<A> =>
    write.then((value) => {
      channel?.postMessage(slot)
      return value
    })
  return {
    load: (slot) => use((database) => database.get(sessions, slot)),
    // One transaction: no other tab saves between the comparison and the save.
    save: (slot, session, replaced) =>
      tell(
        slot,
        write(async (store) =>
          isReplaced(await store.get(slot), replaced)
            ? Promise.reject(replacedError())
            : store.put(session, slot)
        )
      ),
    // One transaction: the stored session stays, also when another tab has just replaced it.
    probe: (slot) => write(async (store) => store.put(await store.get(slot), slot)),
    clear: (slot) =>
      tell(
        slot,
        write((store) => store.delete(slot))
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
