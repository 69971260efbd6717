/** A session store for browsers: local storage, and Web Locks so that two tabs never refresh at once. */
import { processLock, type SessionLock, type SessionStore } from "./Store.ts"

/** The part of `Storage` that is used. */
export interface WebStorage {
  readonly getItem: (name: string) => string | null
  readonly setItem: (name: string, text: string) => void
  readonly removeItem: (name: string) => void
}

/** The part of `LockManager` that is used. */
export interface WebLocks {
  readonly request: (
    name: string,
    options: { readonly signal: AbortSignal },
    run: () => Promise<void>
  ) => Promise<unknown>
}

interface Page {
  readonly localStorage?: WebStorage
  readonly navigator?: { readonly locks?: WebLocks }
}

// What a page offers is not known to the type checker here: the same source runs in Node.
const page = () => globalThis as unknown as Page

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
      ended.catch(reject)
    })
})

/**
 * Keeps the session in `localStorage`, readable by every script of the origin; use `memorySessionStore` where that is
 * too much. Without Web Locks only the callers of this page exclude each other.
 */
export const webSessionStore = (
  options: { readonly storage?: WebStorage; readonly locks?: WebLocks; readonly prefix?: string } = {}
): SessionStore => {
  const prefix = options.prefix ?? "music-session:"
  const locks = options.locks ?? page().navigator?.locks
  // Storage throws when it is full or forbidden: as a rejection, the client can tell it.
  const use = async <A>(run: (storage: WebStorage) => A): Promise<A> => {
    const storage = options.storage ?? page().localStorage
    return storage === undefined ? Promise.reject(new Error("there is no localStorage")) : run(storage)
  }
  return {
    load: (slot) =>
      use((storage) => {
        const text = storage.getItem(prefix + slot)
        return text === null ? undefined : JSON.parse(text)
      }),
    save: (slot, session) => use((storage) => storage.setItem(prefix + slot, JSON.stringify(session))),
    clear: (slot) => use((storage) => storage.removeItem(prefix + slot)),
    lock: locks === undefined ? processLock() : webLock(locks)
  }
}
