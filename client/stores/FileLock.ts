/**
 * An exclusive lock between processes: a file that names its holder, created exclusively and written again every 5 s. It spares second
 * refreshes; that no session is lost rests on the derived keys and on the comparison before each save, also when a lock is broken.
 */
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { link, open, rename, unlink } from "node:fs/promises"
import { hostname } from "node:os"
import { performance } from "node:perf_hooks"
import { threadId } from "node:worker_threads"
import { SessionStoreError, storeErrorOf } from "../failures/StoreFailures.ts"
import { catchCode, codeOf, readRegularFile } from "./RegularFiles.ts"
import type { SessionLock } from "./SessionStore.ts"

/** Milliseconds without a renewal after which a lock is stale, and between two renewals. */
const standard = { stale: 15_000, renewal: 5_000 } as const

export interface FileLockOptions {
  /** Milliseconds without a renewal after which a holder counts as dead; default 15,000. A dead process of this host is detected at once. */
  readonly staleMilliseconds?: number
}

const readBoot = (): string => {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
  } catch {
    return ""
  }
}

/** Names this run of the thread. Two copies of this module share it. */
const runName = (): string => {
  const key = Symbol.for("music-client/file-lock-run")
  const known: unknown = Reflect.get(globalThis, key)
  if (typeof known === "string") return known
  Reflect.set(globalThis, key, randomUUID())
  return runName()
}

/** Whether the process of a lock is gone. Its number means something on the same host since the same start only. */
const isGone = (text: string | undefined): boolean => {
  try {
    const { boot, host, pid, thread, token } = JSON.parse(text ?? "")
    if (host !== hostname() || typeof pid !== "number") return false
    // Older clients name no boot.
    if (boot !== undefined && boot !== readBoot()) return true
    // A restarted container has the same host name and process number again; worker threads share theirs. A lock of this run is not
    // gone: it is held, or its release, which may have happened since it was read, removes it.
    if (pid === process.pid) return thread === threadId && !String(token).startsWith(runName())
    process.kill(pid, 0)
    return false
  } catch (error) {
    return codeOf(error) === "ESRCH"
  }
}

const readLock = (path: string) => readRegularFile(path, { mostBytes: 4_096, followLinks: false })
const remove = (path: string) => catchCode("ENOENT", () => unlink(path))

/** Takes a dead holder's file away. Another process may have done so and taken the lock: its file is put back. */
const breakLock = async (path: string, dead: string | undefined): Promise<void> => {
  const away = `${path}.${randomUUID()}`
  await catchCode("ENOENT", () => rename(path, away))
  const file = await readLock(away)
  if (file !== undefined && file.text !== dead) await link(away, path).catch(() => undefined)
  await remove(away)
}

/** Creates the lock file, unless it exists; resolves to the release. */
const take = async (path: string, stale: number): Promise<(() => Promise<void>) | undefined> => {
  const handle = await catchCode("EEXIST", () => open(path, "wx", 0o600))
  if (handle === undefined) return undefined
  const token = `${runName()} ${randomUUID()}`
  const holder = { pid: process.pid, host: hostname(), boot: readBoot(), thread: threadId, token }
  const write = () => handle.write(JSON.stringify(holder), 0)
  // A failed renewal counts as missing. The timer does not keep the process alive.
  const timer = setInterval(
    () => void write().catch(() => undefined),
    Math.min(standard.renewal, stale / 3)
  ).unref()
  let isReleased = false
  const release = async () => {
    if (isReleased) return
    isReleased = true
    clearInterval(timer)
    await handle.close().catch(() => undefined)
    // Another process may have broken the lock and taken it.
    if ((await readLock(path))?.text?.includes(token) === true) await remove(path)
  }
  return write().then(
    () => release,
    async (error: unknown) => {
      await release()
      // A full disk creates a file that it cannot write.
      await remove(path)
      return Promise.reject(error)
    }
  )
}

/** Describes a wrong option; programs without a type checker may pass any value. */
export const findLockOptionsProblem = (options: FileLockOptions): SessionStoreError | undefined => {
  const stale: unknown = options.staleMilliseconds
  return stale === undefined || (typeof stale === "number" && Number.isFinite(stale) && stale > 0)
    ? undefined
    : new SessionStoreError({
        reason: "misconfigured",
        message: "The option staleMilliseconds of the file lock is no positive number.",
        hint: "Give staleMilliseconds a positive number of milliseconds, or leave it out for 15,000."
      })
}

/**
 * Locks with the files that `pathOf` names; their folder must exist. A failure rejects with a `SessionStoreError`, an aborted wait
 * with the reason of its signal.
 */
export const fileLock = (pathOf: (slot: string) => string, options: FileLockOptions = {}): SessionLock => {
  const stale = options.staleMilliseconds ?? standard.stale
  /** When each lock file was first seen as it is. Clocks of processes are never compared. Kept between waits. */
  const seen = new Map<string, { readonly text: string; readonly since: number }>()

  const breakIfDead = async (path: string): Promise<void> => {
    const file = await readLock(path)
    if (file === undefined) return
    const text = `${file.stats.ino} ${file.stats.mtimeMs} ${file.text}`
    const before = seen.get(path)
    if (before?.text !== text) seen.set(path, { text, since: performance.now() })
    const isStale = before?.text === text && performance.now() - before.since >= stale
    if (isStale || isGone(file.text)) await breakLock(path, file.text)
  }

  const wait = async (path: string, signal: AbortSignal): Promise<() => Promise<void>> => {
    while (!signal.aborted) {
      const release = await take(path, stale)
      if (release !== undefined && !signal.aborted) return release
      await release?.()
      if (!signal.aborted) await breakIfDead(path)
      await new Promise((resolve) => setTimeout(resolve, 10 + Math.random() * 30))
    }
    return Promise.reject(signal.reason)
  }

  return {
    acquire: async (slot, signal) => {
      const problem = findLockOptionsProblem(options)
      if (problem !== undefined) return Promise.reject(problem)
      const path = pathOf(slot)
      const failed = (cause: unknown) => Promise.reject(storeErrorOf(cause, path))
      const release = await wait(path, signal).catch((cause: unknown) =>
        signal.aborted && cause === signal.reason ? Promise.reject(cause) : failed(cause)
      )
      return () => release().catch(failed)
    }
  }
}
