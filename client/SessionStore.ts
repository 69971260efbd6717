/** Where a session is kept between calls and processes, and who may change it now. */
import type { TingOutcome } from "./Types.ts"

/** What is written down: plain JSON. It holds credentials, so whoever keeps it keeps it private. */
export interface StoredSession {
  readonly version: 1
  /** The slot it belongs to; a session found in another one is refused. */
  readonly slot: string
  readonly access_token: string
  readonly refresh_token: string
  /** Seconds of life that the access token had at `obtained_at`. */
  readonly expires_in: number
  /** Milliseconds since the epoch. */
  readonly obtained_at: number
  readonly scope: string
  readonly actor: { readonly type: "carbon" | "silicon"; readonly public_id: string }
  readonly org_id: string
  readonly org_ids: ReadonlyArray<string>
  readonly testing_environment_id: string | null
  /** Idempotency key of the login that began it, so that the same login is not done twice. */
  readonly login_key: string
  readonly ting: TingOutcome
}

/** One writer at a time among everybody who shares a store. */
export interface SessionLock {
  /**
   * Waits until the slot is free and resolves to its release. When `signal` aborts, the wait ends: the promise rejects,
   * and nothing stays locked. Releasing twice does nothing.
   */
  readonly acquire: (slot: string, signal: AbortSignal) => Promise<() => Promise<void>>
}

/**
 * Keeps one session a slot. A slot is a file-name-safe text, one for each server and plane, so a testing session is
 * never found by a production client, nor the other way round.
 */
export interface SessionStore {
  /** What `save` was given last, or undefined. Rejects when that cannot be told; never undefined for "unreadable". */
  readonly load: (slot: string) => Promise<unknown>
  /** Resolves when a crash can no longer undo it. All or nothing. */
  readonly save: (slot: string, session: StoredSession) => Promise<void>
  readonly clear: (slot: string) => Promise<void>
  /**
   * Rejects when `session` could not be saved now; leaves what is stored alone. Asked before each refresh, so that no
   * pair is fetched that cannot be kept. Default: the stored session is saved once more.
   */
  readonly probe?: (slot: string, session: StoredSession) => Promise<void>
  /** Used unless the client is given another one; without any, the client only excludes itself. */
  readonly lock?: SessionLock
}

const nothing = () => undefined

/** Excludes the callers within one program: enough for a store that nobody else can see. */
export const processLock = (): SessionLock => {
  const tails = new Map<string, Promise<void>>()
  return {
    acquire: async (slot, signal) => {
      const before = tails.get(slot) ?? Promise.resolve()
      let release: () => void = nothing
      const held = new Promise<void>((resolve) => {
        release = resolve
      })
      tails.set(
        slot,
        before.then(() => held)
      )
      const aborted = new Promise<never>((_, reject) => {
        if (signal.aborted) reject(signal.reason)
        signal.addEventListener("abort", () => reject(signal.reason), { once: true })
      })
      try {
        await Promise.race([before, aborted])
      } catch (reason) {
        release()
        return Promise.reject(reason)
      }
      return () => {
        release()
        return Promise.resolve()
      }
    }
  }
}

/** Forgets with the program. */
export const memorySessionStore = (): SessionStore => {
  const sessions = new Map<string, StoredSession>()
  return {
    load: (slot) => Promise.resolve(sessions.get(slot)),
    save: (slot, session) => {
      sessions.set(slot, session)
      return Promise.resolve()
    },
    clear: (slot) => {
      sessions.delete(slot)
      return Promise.resolve()
    },
    lock: processLock()
  }
}
