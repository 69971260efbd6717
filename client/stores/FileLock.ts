/**
 * An exclusive lock between processes: a file that names its holder, created exclusively and written again every 5 s. It spares second
 * refreshes; that no session is lost rests on the derived keys and on the comparison before each save, also when a lock is broken.
 */
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { open } from "node:fs/promises"
import { hostname } from "node:os"
import { ignore } from "../Values.ts"
import { storeErrorOf } from "../failures/StoreFailures.ts"
import { catchCode, codeOf, readRegularFile, removeFile } from "./RegularFiles.ts"
import type { SessionLock } from "./SessionStore.ts"

export interface FileLockOptions {
  /** Milliseconds without a renewal after which a holder counts as dead; default 15,000. A dead process of this host is detected at once, unless its number is in use again. */
  readonly staleMilliseconds?: number
}

/** Process numbers mean something on one host since one start only. */
const readBoot = (): string => {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
  } catch {
    return ""
  }
}

/** Whether the process that a lock file names has ended. */
const isGone = (text: string): boolean => {
  try {
    const { boot, host, pid } = JSON.parse(text)
    if (host !== hostname() || typeof pid !== "number") return false
    if (boot !== readBoot()) return true
    process.kill(pid, 0)
    return false
  } catch (error) {
    return codeOf(error) === "ESRCH"
  }
}

const readLock = (path: string) => readRegularFile(path, { mostBytes: 4_096, followLinks: false })

/** Creates the lock file, unless it exists; resolves to the release. */
const take = async (path: string, stale: number): Promise<(() => Promise<void>) | undefined> => {
  const handle = await catchCode("EEXIST", () => open(path, "wx", 0o600))
  if (handle === undefined) return undefined
  const text = JSON.stringify({ host: hostname(), boot: readBoot(), pid: process.pid, token: randomUUID() })
  const write = () => handle.write(text, 0)
  // A failed renewal counts as missing. The timer does not keep the process alive.
  const timer = setInterval(() => void write().catch(ignore), Math.min(5_000, stale / 3)).unref()
  const release = async (isOwn: (found: string | undefined) => boolean) => {
    clearInterval(timer)
    await handle.close().catch(ignore)
    if (isOwn((await readLock(path))?.text)) await removeFile(path)
  }
  try {
    await write()
  } catch (error) {
    // A full disk creates a file that it cannot write.
    await release(() => true)
    return Promise.reject(error)
  }
  // Another process may have broken the lock and taken it.
  return () => release((found) => found === text)
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
    const { stats, text } = file
    const state = `${stats.ino} ${stats.mtimeMs} ${text}`
    const before = seen.get(path)
    if (before?.state !== state) seen.set(path, { state, since: performance.now() })
    const isStale = before?.state === state && performance.now() - before.since >= stale
    if (isStale || isGone(text)) await removeFile(path)
  }

  const wait = async (path: string, signal: AbortSignal): Promise<() => Promise<void>> => {
    while (!signal.aborted) {
      const release = await take(path, stale)
      if (release !== undefined && !signal.aborted) return release
      await (release === undefined ? breakIfDead(path) : release())
      await new Promise((resolve) => setTimeout(resolve, 10 + Math.random() * 30))
    }
    return Promise.reject(signal.reason)
  }

  return {
    acquire: async (slot, signal) => {
      const path = pathOf(slot)
      const failed = (cause: unknown) =>
        Promise.reject(signal.aborted && cause === signal.reason ? cause : storeErrorOf(cause, path))
      const release = await wait(path, signal).catch(failed)
      return () => release().catch(failed)
    }
  }
}
