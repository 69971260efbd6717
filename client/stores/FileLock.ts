/**
 * An exclusive lock between processes: a file that names its holder, created exclusively and written again every 5 s. It spares second
 * refreshes; that no session is lost rests on the derived keys and on the comparison before each save, also when a lock is broken.
 */
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { open } from "node:fs/promises"
import { hostname } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import { storeErrorOf } from "../failures/StoreFailures.ts"
import { ignore } from "../Values.ts"
import { catchCode, codeOf, readRegularFile, removeFile } from "./RegularFiles.ts"
import type { SessionLock } from "./SessionStore.ts"

export interface FileLockOptions {
  /** Milliseconds without a renewal after which a holder counts as dead; default 15,000. A dead process of this host is detected at once, unless its number is in use again. */
  readonly staleMilliseconds?: number
}

/** Process numbers mean something on one host since one start only. */
const readHost = () => {
  try {
    return { host: hostname(), boot: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim() }
  } catch {
    return { host: hostname(), boot: "" }
  }
}

/** Whether the process that a lock file names has ended. */
const isGone = (text: string): boolean => {
  try {
    const [{ boot, host, pid }, here] = [JSON.parse(text), readHost()]
    if (host !== here.host || typeof pid !== "number") return false
    return boot !== here.boot || !process.kill(pid, 0)
  } catch (error) {
    return codeOf(error) === "ESRCH"
  }
}

const readLock = (path: string) => readRegularFile(path, 4_096)

/** Creates the lock file, unless it exists; resolves to the release. */
const take = async (path: string, stale: number): Promise<(() => Promise<void>) | undefined> => {
  const handle = await catchCode("EEXIST", () => open(path, "wx", 0o600))
  if (handle === undefined) return undefined
  const text = JSON.stringify({ ...readHost(), pid: process.pid, token: randomUUID() })
  const write = () => handle.write(text, 0)
  // A failed renewal counts as missing. The timer does not keep the process alive.
  const timer = setInterval(() => void write().catch(ignore), Math.min(5_000, stale / 3)).unref()
  const release = async () => {
    clearInterval(timer)
    await handle.close().catch(ignore)
    // Another process may have broken the lock and taken it.
    if ((await readLock(path))?.text === text) await removeFile(path)
  }
  return write().then(
    () => release,
    // A full disk creates a file that it cannot write.
    (error: unknown) => Promise.allSettled([release(), removeFile(path)]).then(() => Promise.reject(error))
  )
}

/**
 * Locks with the files that `pathOf` names; their folder must exist. A failure rejects with a `SessionStoreError`, an aborted wait
 * with the reason of its signal.
 */
export const fileLock = (pathOf: (slot: string) => string, options: FileLockOptions = {}): SessionLock => {
  // Programs without a type checker may pass null.
  const stale = options?.staleMilliseconds ?? 15_000
  /** When each lock file was first seen as it is, by this process's own clock: clocks of processes are never compared. */
  const seen = new Map<string, { readonly state: string; readonly since: number }>()

  /** Of two processes that break a lock at the same moment, one may remove the lock that the other has just taken. */
  const breakIfDead = async (path: string): Promise<void> => {
    const file = await readLock(path)
    if (file === undefined) return
    const now = performance.now()
    const state = `${file.changed} ${file.text}`
    const before = seen.get(path)
    const since = before?.state === state ? before.since : now
    seen.set(path, { state, since })
    if (now - since >= stale || isGone(file.text)) await removeFile(path)
  }

  return {
    acquire: async (slot, signal) => {
      const path = pathOf(slot)
      const failed = (cause: unknown) => Promise.reject(storeErrorOf(cause, path))
      try {
        while (!signal.aborted) {
          const release = await take(path, stale)
          // The signal may abort while the file is created: then the wait is over, and the lock is given back.
          if (release !== undefined && !signal.aborted) return () => release().catch(failed)
          await (release === undefined ? breakIfDead(path) : release())
          await sleep(10 + Math.random() * 30)
        }
      } catch (cause) {
        return failed(cause)
      }
      return Promise.reject(signal.reason)
    }
  }
}
