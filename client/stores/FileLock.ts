/**
 * An exclusive lock between processes: a file that names its holder and changes with each heartbeat. Clocks of processes
 * are never compared; the age of a heartbeat is the difference of two times that the file system itself has set. If a lock is
 * broken while its holder was only suspended, no session is lost: every client derives the same key from the same refresh token,
 * and compares the store before it saves.
 */
import { randomUUID } from "node:crypto"
import { constants } from "node:fs"
import { type FileHandle, lutimes, open, unlink } from "node:fs/promises"
import { hostname } from "node:os"
import { performance } from "node:perf_hooks"
import { threadId } from "node:worker_threads"
import { catchCode, codeOf, readRegularFile } from "./RegularFiles.ts"
import type { SessionLock } from "./SessionStore.ts"
import { describeStoreFailure, SessionStoreError, storeErrorOf } from "../failures/StoreFailures.ts"

/** Milliseconds without a heartbeat after which a lock is stale. */
export const defaultStaleMilliseconds = 15_000
/** Milliseconds between two heartbeats. */
const heartbeatMillis = 1_000
/**
 * Milliseconds that a process itself observes a holder before it trusts the age of the heartbeat, because a clock may be set:
 * one and a half heartbeats of an older client, which writes one every 2,000.
 */
const leastObservation = 3_000
/**
 * A file without a holder's token was created by a process that was killed before it wrote; writing takes a few milliseconds.
 * Milliseconds after which it is stale, and of observation before its age is trusted.
 */
const unwritten = { stale: 2_000, observation: 200 } as const
/** Milliseconds between two measurements of that age. */
const leastPause = 100
/** Bytes; a lock file is much smaller. */
const mostBytes = 4_096

export interface FileLockOptions {
  /**
   * Milliseconds without a heartbeat after which a holder counts as dead; default 15,000. A heartbeat is written every 1,000.
   * A dead process of this host is detected at once.
   */
  readonly staleMilliseconds?: number
}

interface Holder {
  readonly pid: number
  readonly host: string
  /** Worker threads share the process number. Absent in the files of older clients. */
  readonly thread: number
  readonly token: string
}

const registry = Symbol.for("music-client/held-file-locks")

/** The tokens of the locks that this thread holds. Two copies of this module, CommonJS and ESM, share them. */
const heldTokens: Set<unknown> = (() => {
  const known: unknown = Reflect.get(globalThis, registry)
  if (known instanceof Set) return known
  const made = new Set<unknown>()
  Reflect.set(globalThis, registry, made)
  return made
})()

const parsed = (text: string): Partial<Record<keyof Holder, unknown>> | undefined => {
  try {
    const value: unknown = JSON.parse(text.trim())
    return typeof value === "object" && value !== null ? value : undefined
  } catch {
    return undefined
  }
}

const isGone = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return codeOf(error) === "ESRCH"
  }
}

/** Whether a holder is dead without doubt: its process is gone, or it had the number of this process before this one. */
const isDeadProcess = (holder: Partial<Record<keyof Holder, unknown>> | undefined): boolean => {
  if (typeof holder?.pid !== "number" || holder.host !== hostname()) return false
  // A restarted container has the same host name and process number again.
  if (holder.pid === process.pid) return holder.thread === threadId && !heldTokens.has(holder.token)
  return isGone(holder.pid)
}

interface LockFile {
  /** The same text means the same heartbeat of the same holder. */
  readonly heartbeat: string
  readonly holder: Partial<Record<keyof Holder, unknown>> | undefined
  /** Milliseconds, on the clock of the file system. */
  readonly writtenAt: number
}

const readLock = async (path: string): Promise<LockFile | undefined> => {
  const file = await readRegularFile(path, { mostBytes, followLinks: false })
  if (file === undefined) return undefined
  const { stats, text = "" } = file
  const holder = parsed(text)
  // A file without a token may be new and not written yet: another one must not look the same.
  const heartbeat = holder?.token === undefined ? `${stats.ino} ${stats.mtimeMs} ${text}` : text
  return { heartbeat, holder, writtenAt: stats.mtimeMs }
}

const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

const remove = (path: string) => catchCode("ENOENT", () => unlink(path))

interface Held {
  readonly handle: FileHandle
  readonly holder: Holder
}

// One length for each holder, so that a heartbeat overwrites the previous one exactly.
const line = (holder: Holder, count: number): string =>
  `${JSON.stringify({ ...holder, beat: String(count).padStart(12, "0") })}\n`

/** Creates the lock file, unless it exists. */
const take = async (path: string): Promise<Held | undefined> => {
  const handle = await catchCode("EEXIST", () => open(path, "wx", 0o600))
  if (handle === undefined) return undefined
  const holder = { pid: process.pid, host: hostname(), thread: threadId, token: randomUUID() }
  heldTokens.add(holder.token)
  try {
    await handle.writeFile(line(holder, 0))
    return { handle, holder }
  } catch (error) {
    heldTokens.delete(holder.token)
    // On a full disk a file can be created but not written: without removal it would block every process until it is stale.
    await handle.close().catch(() => undefined)
    await remove(path)
    return Promise.reject(error)
  }
}

const release = async (path: string, { handle, holder }: Held): Promise<void> => {
  try {
    await handle.close().catch(() => undefined)
    // Another process may have broken the lock and taken it.
    if ((await readLock(path))?.holder?.token === holder.token) await remove(path)
  } finally {
    heldTokens.delete(holder.token)
  }
}

const clockOf = (path: string) => `${path}.clock`

/** The time of the file system: the time of a file that is written now. Undefined when none can be written. */
const fileSystemTime = async (path: string): Promise<number | undefined> => {
  const clock = clockOf(path)
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | (constants.O_NOFOLLOW ?? 0)
  const handle = await open(clock, flags, 0o600).catch(() => undefined)
  if (handle === undefined) return undefined
  try {
    await handle.write(".")
    return (await handle.stat()).mtimeMs
  } catch {
    return undefined
  } finally {
    await handle.close().catch(() => undefined)
    await unlink(clock).catch(() => undefined)
  }
}

/** Milliseconds until a heartbeat is stale, or undefined when this cannot be measured. */
const millisUntilStale = async (
  path: string,
  { writtenAt }: LockFile,
  staleMilliseconds: number
): Promise<number | undefined> => {
  const now = await fileSystemTime(path)
  if (now === undefined) return undefined
  // A clock was set back since. The age counts from now on, for every process; a live holder's next heartbeat changes it again.
  if (writtenAt > now) await lutimes(path, now / 1_000, now / 1_000).catch(() => undefined)
  return staleMilliseconds - Math.max(0, now - writtenAt)
}

/** Reads one lock file; returns its heartbeat if its holder is dead. */
type Watcher = () => Promise<string | undefined>

const watcher = (path: string, staleMilliseconds: number): Watcher => {
  let last: string | undefined
  let since = 0
  let measureAt = 0
  return async () => {
    const file = await readLock(path)
    if (file === undefined) return undefined
    const now = performance.now()
    const isUnwritten = file.holder?.token === undefined
    const limit = isUnwritten ? Math.min(unwritten.stale, staleMilliseconds) : staleMilliseconds
    if (file.heartbeat !== last) {
      last = file.heartbeat
      since = now
      measureAt = now + (isUnwritten ? unwritten.observation : leastObservation)
    }
    if (isDeadProcess(file.holder) || now - since >= limit) return file.heartbeat
    if (now < measureAt) return undefined
    // Processes that end before the limit has passed detect a stale lock by its age.
    const left = await millisUntilStale(path, file, limit)
    measureAt = now + Math.max(leastPause, left ?? heartbeatMillis)
    return left !== undefined && left <= 0 ? file.heartbeat : undefined
  }
}

const breakerOf = (path: string) => `${path}.break`

const removeUnchanged = async (path: string, heartbeat: string): Promise<void> => {
  if ((await readLock(path))?.heartbeat === heartbeat) await remove(path)
}

/**
 * Removes a dead holder's file; returns false when another process is about to. A lock of its own prevents that two breakers
 * remove the next holder's file.
 */
const breakLock = async (path: string, dead: string): Promise<boolean> => {
  const breaker = breakerOf(path)
  const held = await take(breaker)
  if (held === undefined) return false
  try {
    await removeUnchanged(path, dead)
    // Left by a process that was killed.
    await unlink(clockOf(path)).catch(() => undefined)
  } finally {
    await release(breaker, held)
  }
  return true
}

/** Names the file of the failure, which may be the one of a breaker. */
const failureOf = (cause: unknown, path: string): Error =>
  storeErrorOf(cause, describeStoreFailure(cause).path ?? path)

const startHeartbeat = (path: string, held: Held): (() => Promise<void>) => {
  let count = 0
  let released = false
  const timer = setInterval(() => {
    count += 1
    // A failed heartbeat counts as missing.
    held.handle.write(line(held.holder, count), 0).catch(() => undefined)
  }, heartbeatMillis)
  // The timer does not keep the process alive.
  timer.unref()
  return async () => {
    if (released) return
    released = true
    clearInterval(timer)
    await release(path, held).catch((cause) => Promise.reject(failureOf(cause, path)))
  }
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
  // Kept between waits, so that callers with short deadlines detect a stale lock together.
  const watchers = new Map<string, Watcher>()
  const watched = (path: string) => {
    const known = watchers.get(path) ?? watcher(path, options.staleMilliseconds ?? defaultStaleMilliseconds)
    watchers.set(path, known)
    return known
  }

  const wait = async (path: string, signal: AbortSignal): Promise<() => Promise<void>> => {
    const breaker = breakerOf(path)
    const findDeadHolder = watched(path)
    const findDeadBreaker = watched(breaker)
    while (!signal.aborted) {
      const held = await take(path)
      if (held !== undefined) {
        if (!signal.aborted) return startHeartbeat(path, held)
        await release(path, held)
        break
      }
      // A breaker is observed from the beginning too: a process with a short deadline may have to get over both.
      const deadBreaker = await findDeadBreaker()
      if (deadBreaker !== undefined) await removeUnchanged(breaker, deadBreaker)
      const dead = await findDeadHolder()
      if (dead === undefined || !(await breakLock(path, dead))) await pause(10 + Math.random() * 30)
    }
    return Promise.reject(signal.reason)
  }

  return {
    acquire: async (slot, signal) => {
      const problem = findLockOptionsProblem(options)
      if (problem !== undefined) return Promise.reject(problem)
      const path = pathOf(slot)
      return wait(path, signal).catch((cause) =>
        Promise.reject(signal.aborted && cause === signal.reason ? cause : failureOf(cause, path))
      )
    }
  }
}
