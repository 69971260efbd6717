/** Stores and locks of sessions. */
import { deferred, present } from "../Values.ts"
import type { Actor, TingOutcome } from "../Types.ts"
import { untilAborted } from "../calls/Time.ts"
import { SessionStoreError } from "../failures/StoreFailures.ts"

/** A session as plain JSON. It holds credentials; a store must keep it private. */
export interface StoredSession {
  readonly version: 1
  /** The slot of the session; a session in another slot is refused. */
  readonly slot: string
  readonly access_token: string
  readonly refresh_token: string
  /** Lifetime of the access token at `obtained_at`, seconds. */
  readonly expires_in: number
  /** Milliseconds since the epoch. */
  readonly obtained_at: number
  readonly scope: string
  readonly actor: Actor
  readonly org_id: string
  readonly org_ids: ReadonlyArray<string>
  readonly testing_environment_id: string | null
  /** Idempotency key of its login: a repeated login with this key returns this session. */
  readonly login_key: string
  /**
   * The refresh token that this pair was received for, until a call with the pair has succeeded: if the pair is refused within 10
   * minutes, its answer was spoiled on the way, and the client asks for the same rotation again.
   */
  readonly spent_refresh_token?: string
  readonly ting: TingOutcome
}

/** Mutual exclusion of the writers of a store. */
export interface SessionLock {
  /**
   * Waits until the slot is free; resolves to the function that releases it. When `signal` aborts, the promise rejects
   * and nothing stays locked. A second release does nothing.
   */
  readonly acquire: (slot: string, signal: AbortSignal) => Promise<() => Promise<void>>
}

/**
 * Keeps one session for each slot. A slot is a file-name-safe text, one for each server and plane, so production and
 * testing clients never find each other's sessions. A store that rejects with a `SessionStoreError` names the reason.
 */
export interface SessionStore {
  /** The last saved value, or undefined. Rejects when it cannot be read; "unreadable" is never undefined. */
  readonly load: (slot: string) => Promise<unknown>
  /**
   * Atomic; resolves when the session is durable. `replaced` is the refresh token of the session that is replaced, null when there
   * was none: a store that several programs share rejects when it holds another session by then, because a lock can be broken.
   */
  readonly save: (slot: string, session: StoredSession, replaced?: string | null) => Promise<void>
  /**
   * Removes the session. `aside`: the service has refused it; a store may keep it where no load finds it. `replaced`, when it is given: as
   * that of `save`.
   */
  readonly clear: (slot: string, aside?: boolean, replaced?: string) => Promise<void>
  /**
   * Rejects when `session` could not be saved now; does not change the stored one. Called before each refresh, so that no
   * pair is requested that cannot be saved. Default: the stored session is saved again.
   */
  readonly probe?: (slot: string, session: StoredSession) => Promise<void>
  /**
   * Calls `changed` when another tab or process may have changed the session, until the returned function is called. Does not keep the
   * process alive. Without it, logins and logouts elsewhere show at the next call.
   */
  readonly watch?: (slot: string, changed: () => void) => () => void
  /** Default lock of the client. Without one, only the callers within one client exclude each other. */
  readonly lock?: SessionLock
}

/** A lock within one program, for a store that no other program uses. */
export const processLock = (): SessionLock => {
  const tails = new Map<string, Promise<void>>()
  return {
    acquire: async (slot, signal) => {
      const before = tails.get(slot) ?? Promise.resolve()
      const held = deferred()
      tails.set(
        slot,
        before.then(() => held.promise)
      )
      const release = async () => held.resolve()
      return untilAborted(signal, before).then(
        () => release,
        (reason) => release().then(() => Promise.reject(reason))
      )
    }
  }
}

/** Runs, unless a store holds another session than that of the refresh token, or none. What is no session may be replaced. */
export const unlessReplaced = async <A>(
  found: unknown,
  refreshToken: string | null | undefined,
  run: () => A | Promise<A>,
  path?: string
): Promise<A> => {
  const token: unknown = Object(found).refresh_token
  const isOther = found === undefined ? refreshToken !== null : token !== undefined && token !== refreshToken
  if (refreshToken === undefined || !isOther) return run()
  const message = "Another program has replaced the stored session."
  return Promise.reject(new SessionStoreError({ reason: "locked", ...present({ path }), message }))
}

/** Keeps sessions in memory. */
export const memorySessionStore = (): SessionStore => {
  const sessions = new Map<string, StoredSession>()
  return {
    load: async (slot) => sessions.get(slot),
    save: (slot, session, replaced) =>
      unlessReplaced(sessions.get(slot), replaced, () => void sessions.set(slot, session)),
    clear: (slot, _, replaced) =>
      unlessReplaced(sessions.get(slot), replaced, () => void sessions.delete(slot)),
    lock: processLock()
  }
}
