/**
 * An exclusive lock between processes: a file that names its holder and beats while the holder lives. No clock is
 * compared, so a wrong one harms nothing. Should a lock be broken under a holder that was merely asleep, no session is
 * lost: every client derives the same key from the same refresh token and compares the store before it saves.
 */
import { randomUUID } from "node:crypto"
import { type FileHandle, open, readFile, unlink } from "node:fs/promises"
import { hostname } from "node:os"
import { performance } from "node:perf_hooks"
import type { SessionLock } from "./SessionStore.ts"

/** Milliseconds between two beats of a holder. */
const beat = 2_000

export interface FileLockOptions {
  /** Milliseconds without a beat after which a holder counts as dead; default 15,000. A dead process of this host is seen at once. */
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

/** Runs and takes one expected error code for an answer. */
const unless = async <A>(code: string, run: () => Promise<A>): Promise<A | undefined> => {
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
  unless("ENOENT", () => readFile(path, "utf8"))

const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

const remove = (path: string) => unless("ENOENT", () => unlink(path))

interface Held {
  readonly handle: FileHandle
  readonly token: string
}

/** Takes the file if nobody has it. */
const take = async (path: string): Promise<Held | undefined> => {
  const handle = await unless("EEXIST", () => open(path, "wx", 0o600))
  if (handle === undefined) return undefined
  const token = randomUUID()
  try {
    await handle.write(`${line({ pid: process.pid, host: hostname(), token }, 0)}\n`, 0)
    return { handle, token }
  } catch (error) {
    // On a full disk a file can be made but not written: left there, it would lock everybody out until it is stale.
    await handle.close()
    await remove(path)
    return Promise.reject(error)
  }
}

// Of one length for a holder, so that a beat overwrites the last one exactly.
const line = (holder: Holder, count: number): string =>
  JSON.stringify({ ...holder, beat: String(count).padStart(12, "0") })

const giveBack = async (path: string, { handle, token }: Held): Promise<void> => {
  await handle.close()
  // Broken under us and taken by another one: theirs.
  if (parsed((await contentOf(path)) ?? "")?.token === token) await remove(path)
}

/** Looks at one file in a wait that began then, and says what stands in it if its holder is dead. */
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
    // Without a token it may be another file that looks alike, as every one does before it is written.
    const silent = performance.now() - (holder?.token === undefined ? Math.max(since, begun) : since)
    return gone || silent >= staleMilliseconds ? content : undefined
  }
}

/** Removes a dead holder's file. The breaker's own file keeps two breakers from removing the next holder's. */
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
    await giveBack(breaker, held)
  }
}

const beating = (path: string, held: Held): (() => Promise<void>) => {
  const holder = { pid: process.pid, host: hostname(), token: held.token }
  let count = 0
  let released = false
  const timer = setInterval(() => {
    count += 1
    // A beat that fails looks like none, which is what it is.
    held.handle.write(`${line(holder, count)}\n`, 0).catch(() => undefined)
  }, beat)
  // The lock alone keeps no process alive.
  timer.unref()
  return async () => {
    if (released) return
    released = true
    clearInterval(timer)
    await giveBack(path, held)
  }
}

/** Locks by files that `pathOf` names; their folder must exist. */
export const fileLock = (pathOf: (slot: string) => string, options: FileLockOptions = {}): SessionLock => {
  // Kept between the waits: callers with less patience than a lock needs to become stale see it become so together.
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
        if (held !== undefined) return beating(path, held)
        const dead = await isDead(begun)
        if (dead === undefined) await pause(10 + Math.random() * 30)
        else await breakLock(path, dead, () => breakerIsDead(begun))
      }
      return Promise.reject(signal.reason)
    }
  }
}
