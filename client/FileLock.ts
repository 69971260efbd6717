/**
 * An exclusive lock between processes: a file that names its holder and changes with each heartbeat. Clocks of processes
 * are never compared. If a lock is broken while its holder was only suspended, no session is lost: every client derives the same
 * key from the same refresh token, and compares the store before it saves.
 */
import { randomUUID } from "node:crypto"
import { type FileHandle, open, readFile, unlink } from "node:fs/promises"
import { hostname } from "node:os"
import { performance } from "node:perf_hooks"
import type { SessionLock } from "./SessionStore.ts"

/** Milliseconds between two heartbeats. */
const heartbeatMillis = 2_000

export interface FileLockOptions {
  /** Milliseconds without a heartbeat after which a holder counts as dead; default 15,000. A dead process of this host is detected at once. */
  readonly staleMilliseconds?: number
}

interface Holder {
  readonly pid: number
  readonly host: string
  readonly token: string
}

const codeOf = (error: unknown): string | undefined =>
  typeof error === "object" && error !== null && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined

/** Runs, and returns undefined for one expected error code. */
const catchCode = async <A>(code: string, run: () => Promise<A>): Promise<A | undefined> => {
  try {
    return await run()
  } catch (error) {
    return codeOf(error) === code ? undefined : Promise.reject(error)
  }
}

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

const contentOf = (path: string): Promise<string | undefined> =>
  catchCode("ENOENT", () => readFile(path, "utf8"))

const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

const remove = (path: string) => catchCode("ENOENT", () => unlink(path))

interface Held {
  readonly handle: FileHandle
  readonly token: string
}

/** Creates the lock file, unless it exists. */
const take = async (path: string): Promise<Held | undefined> => {
  const handle = await catchCode("EEXIST", () => open(path, "wx", 0o600))
  if (handle === undefined) return undefined
  const token = randomUUID()
  try {
    await handle.write(`${line({ pid: process.pid, host: hostname(), token }, 0)}\n`, 0)
    return { handle, token }
  } catch (error) {
    // On a full disk a file can be created but not written: without removal it would block every process until it is stale.
    await handle.close()
    await remove(path)
    return Promise.reject(error)
  }
}

// One length for each holder, so that a heartbeat overwrites the previous one exactly.
const line = (holder: Holder, count: number): string =>
  JSON.stringify({ ...holder, beat: String(count).padStart(12, "0") })

const release = async (path: string, { handle, token }: Held): Promise<void> => {
  await handle.close()
  // Another process may have broken the lock and taken it.
  if (parsed((await contentOf(path)) ?? "")?.token === token) await remove(path)
}

/** Checks one lock file for a wait that began at `begun`; returns its content if its holder is dead. */
type Watcher = (begun: number) => Promise<string | undefined>

const watcher = (path: string, staleMilliseconds: number): Watcher => {
  let last: string | undefined
  let since = performance.now()
  return async (begun) => {
    const content = await contentOf(path)
    if (content === undefined) return undefined
    if (content !== last) {
      last = content
      since = performance.now()
    }
    const holder = parsed(content)
    const gone = typeof holder?.pid === "number" && holder.host === hostname() && isGone(holder.pid)
    // Content without a token may belong to a new file that is not written yet.
    const silent = performance.now() - (holder?.token === undefined ? Math.max(since, begun) : since)
    return gone || silent >= staleMilliseconds ? content : undefined
  }
}

/** Removes a dead holder's file. A lock of its own prevents that two breakers remove the next holder's file. */
const breakLock = async (path: string, dead: string, breakerIsDead: () => Promise<string | undefined>) => {
  const breaker = `${path}.break`
  const held = await take(breaker)
  if (held === undefined) {
    if ((await breakerIsDead()) !== undefined) await remove(breaker)
    return
  }
  try {
    if ((await contentOf(path)) === dead) await remove(path)
  } finally {
    await release(breaker, held)
  }
}

const startHeartbeat = (path: string, held: Held): (() => Promise<void>) => {
  const holder = { pid: process.pid, host: hostname(), token: held.token }
  let count = 0
  let released = false
  const timer = setInterval(() => {
    count += 1
    // A failed heartbeat counts as missing.
    held.handle.write(`${line(holder, count)}\n`, 0).catch(() => undefined)
  }, heartbeatMillis)
  // The timer does not keep the process alive.
  timer.unref()
  return async () => {
    if (released) return
    released = true
    clearInterval(timer)
    await release(path, held)
  }
}

/** Locks with the files that `pathOf` names; their folder must exist. */
export const fileLock = (pathOf: (slot: string) => string, options: FileLockOptions = {}): SessionLock => {
  // Kept between waits, so that callers with short deadlines detect a stale lock together.
  const watchers = new Map<string, Watcher>()
  const watched = (path: string) => {
    const known = watchers.get(path) ?? watcher(path, options.staleMilliseconds ?? 15_000)
    watchers.set(path, known)
    return known
  }
  return {
    acquire: async (slot, signal) => {
      const path = pathOf(slot)
      const begun = performance.now()
      const isDead = watched(path)
      const breakerIsDead = watched(`${path}.break`)
      while (!signal.aborted) {
        const held = await take(path)
        if (held !== undefined) return startHeartbeat(path, held)
        const dead = await isDead(begun)
        if (dead === undefined) await pause(10 + Math.random() * 30)
        else await breakLock(path, dead, () => breakerIsDead(begun))
      }
      return Promise.reject(signal.reason)
    }
  }
}
