/** Logout: revokes the session and clears it, or clears it first. */
import { type Scope, until } from "../calls/Deadline.ts"
import { deriveKey } from "../calls/Digest.ts"
import { inTime } from "../calls/Time.ts"
import { clientFailure, failureOf } from "../failures/Failures.ts"
import type { LogoutOptions } from "../Options.ts"
import type { StoredSession } from "../stores/SessionStore.ts"
import type { LogoutInfo } from "../Types.ts"
import { ignore } from "../Values.ts"
import { type Found, findSession, healedEvent } from "./SessionRecord.ts"
import type { SessionParts } from "./SessionSlot.ts"

/** The longest waits of `logout({ forget: true })`, milliseconds. */
const forgetMilliseconds = { lock: 400, store: 300, revocation: 2_000 } as const

export const makeLogout = ({ calls, report, slot, time }: SessionParts) => {
  const revoke = async (stored: StoredSession, scope: Scope, once: boolean): Promise<void> =>
    calls.run("logout", scope, {
      once,
      uncertain: true,
      idempotencyKey: await deriveKey("logout", stored.refresh_token),
      payload: { token: stored.refresh_token }
    })

  const find = () => findSession(slot.load())

  const reportEnd = (revoked: boolean, { corrupt, stored }: Found): LogoutInfo => {
    slot.noteEnd(undefined)
    if (corrupt !== undefined) report(healedEvent(corrupt))
    if (stored !== undefined)
      report({ type: "logged_out", reason: revoked ? "logout" : "forgotten", requestId: null })
    return { revoked, healed: corrupt !== undefined }
  }

  const revokeAndClear = (scope: Scope): Promise<LogoutInfo> =>
    slot.withLock(scope, async () => {
      const found = await find()
      const { stored } = found
      if (stored !== undefined) await revoke(stored, scope, false)
      // The lock may have been broken during the call: the session of a later login stays.
      const now = await find()
      if (now.stored === undefined || now.stored.login_key === stored?.login_key) await slot.clear()
      return reportEnd(stored !== undefined, found)
    })

  /** Bounds the wait for a store that may never answer. */
  const patiently = <A>(use: Promise<A>): Promise<A> =>
    inTime(time, forgetMilliseconds.store, use, () => clientFailure("timed_out"))

  /** Clears again what a refresh of another program saved at the moment of the first clearing; that ends when its lock is free. */
  const clearAgain = async (scope: Scope, { login_key }: StoredSession): Promise<void> => {
    const clear = () =>
      patiently(slot.load().then((now) => (now.login_key === login_key ? slot.clear() : undefined))).catch(
        ignore
      )
    let isDone = false
    const patience = until(scope, time.monotonic() + forgetMilliseconds.lock)
    const locked = slot.withLock(patience, () => {
      isDone = true
      return clear()
    })
    await locked.catch(() => (isDone ? undefined : clear()))
  }

  /**
   * Clears first, whatever is stored and without the lock: its holder finds the store cleared and saves nothing, or has saved when the
   * store is cleared again.
   */
  const forget = async (scope: Scope): Promise<LogoutInfo> => {
    const found = await patiently(find()).catch((cause: unknown): Found | Promise<never> => {
      const failure = failureOf(cause)
      if (failure.code === "timed_out") return {}
      return failure.code === "store_failed" ? { corrupt: failure } : Promise.reject(cause)
    })
    const uncleared = await patiently(slot.clear()).then(ignore, (cause: unknown) => ({ cause }))
    const { stored } = found
    const last = until(scope, time.monotonic() + forgetMilliseconds.revocation)
    const isRevoked = async () => {
      if (stored === undefined) return false
      return revoke(stored, last, true).then(
        () => true,
        () => false
      )
    }
    const [revoked] = await Promise.all([isRevoked(), stored && clearAgain(scope, stored)])
    if (uncleared === undefined) return reportEnd(revoked, found)
    // Its tokens are worthless, but they are still there.
    if (revoked) reportEnd(true, stored === undefined ? {} : { stored })
    return Promise.reject(uncleared.cause)
  }

  return (call: LogoutOptions | undefined, scope: Scope): Promise<LogoutInfo> =>
    call?.forget === true ? forget(scope) : revokeAndClear(scope)
}
