/**
 * Login exchanges a short-lived token for a session and stores it. Logout revokes the session and clears it, or clears it first.
 */
import { publicIdPattern } from "../../src/schema/Patterns.ts"
import type { LoginOptions, LogoutOptions } from "../Options.ts"
import type { LoginInfo, LogoutInfo } from "../Types.ts"
import { ignore, isText } from "../Values.ts"
import type { AnswerOf } from "../calls/Endpoints.ts"
import { type Deadline, type Moment, type Scope, until } from "../calls/Deadline.ts"
import { deriveKey } from "../calls/Digest.ts"
import { newIdempotencyKey } from "../calls/RandomKey.ts"
import { inTime } from "../calls/Time.ts"
import { clientFailure, failureOf, invalidInput, withFacts } from "../failures/Failures.ts"
import { findSession, type Found, healedEvent, infoOf } from "./SessionRecord.ts"
import type { SessionParts } from "./SessionSlot.ts"
import type { StoredSession } from "../stores/SessionStore.ts"

const unsavedHint =
  "The login succeeded, but its session could not be stored: make the store writable and log in with the same token within 10 minutes."

// The lock comes first: a wait that ends without it has spent no token, and a received session is saved at once.
export const makeLogin = ({ calls, report, slot }: SessionParts) => {
  /**
   * `same`: the session of this very login, of which a replay would return a pair that was rotated since. A program may use a key again for
   * another test public id: that session is not its.
   */
  const find = async (name: string, slt: string, by?: Deadline) => {
    const { corrupt, stored } = await findSession(slot.find(by))
    const isSame =
      stored?.login_key === name && (!publicIdPattern.test(slt) || stored.actor.public_id === slt)
    return { corrupt, stored, same: isSame ? stored : undefined }
  }

  return async (slt: string, call: LoginOptions | undefined, scope: Scope): Promise<LoginInfo> => {
    if (!isText(slt)) return Promise.reject(invalidInput("slt", "must be a text"))
    // Programs without a type checker may pass null.
    const given = call?.idempotencyKey ?? undefined
    // A short-lived token works once, so its digest names the login, under any key. A test public id can log in many times.
    const digest = slt.startsWith("oac_") ? await deriveKey("login", slt) : undefined
    const key = given ?? digest ?? newIdempotencyKey()
    const name = digest ?? key
    const infoOfLogin = (stored: StoredSession, healed = false) => ({
      ...infoOf(stored),
      ting: { ...stored.ting },
      healed
    })
    const before = await find(name, slt, scope.deadline)
    if (before.same !== undefined) return infoOfLogin(before.same)

    /** What was received has time to be saved, also after the deadline and when the caller has left. */
    const save = async (session: AnswerOf<"login">, sent: Moment | undefined) => {
      // The lock may have been broken during the call: the store may hold a newer session.
      const after = await find(name, slt)
      if (after.same !== undefined) return infoOfLogin(after.same)
      const kept = { login_key: name, ting: session.ting }
      const stored = await slot.save(session, kept, sent, after.stored?.refresh_token ?? null)
      slot.noteEnd(undefined)
      if (after.corrupt !== undefined) report(healedEvent(after.corrupt))
      report({ type: "logged_in", session: infoOf(stored) })
      return infoOfLogin(stored, after.corrupt !== undefined)
    }
    return slot.withLock(scope, async () => {
      const during = await find(name, slt, scope.deadline)
      if (during.same !== undefined) return infoOfLogin(during.same)
      const isKeyRandom = given === undefined && digest === undefined
      const facts = { uncertain: true, idempotencyKey: key, isKeyRandom, payload: { slt } }
      const session = await slot.check(await calls.run("login", scope, facts))
      return save(session, scope.noted.sent?.at).catch((cause: unknown) => {
        const failure = failureOf(cause)
        if (failure.code !== "store_failed") return Promise.reject(cause)
        return Promise.reject(withFacts(failure, { hint: unsavedHint, retryable: true }))
      })
    })
  }
}

/** The longest waits of `logout({ forget: true })`, milliseconds. */
const forgetMilliseconds = { lock: 400, store: 300, revocation: 2_000 } as const

export const makeLogout = ({ calls, report, slot, time }: SessionParts) => {
  const revoke = async (stored: StoredSession, scope: Scope, once: boolean): Promise<void> => {
    // A spent token ends the session, too, while a pair that was spoiled on its way ends nothing.
    const token = stored.spent_refresh_token ?? stored.refresh_token
    const idempotencyKey = await deriveKey("logout", token)
    return calls.run("logout", scope, { once, uncertain: true, idempotencyKey, payload: { token } })
  }

  const find = () => findSession(slot.find())

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
      if (now.stored === undefined || now.stored.login_key === stored?.login_key)
        await slot.clear(false, now.stored?.refresh_token)
      return reportEnd(stored !== undefined, found)
    })

  /** Bounds the wait for a store that may never answer. */
  const patiently = <A>(use: Promise<A>): Promise<A> =>
    inTime(time, forgetMilliseconds.store, use, () => clientFailure("timed_out"))

  /** Clears again what a refresh of another program saved at the moment of the first clearing; that ends when its lock is free. */
  const clearAgain = async (scope: Scope, { login_key }: StoredSession): Promise<void> => {
    const clear = () =>
      patiently(slot.find().then((now) => (now?.login_key === login_key ? slot.clear() : undefined))).catch(
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
    const revocation = stored && revoke(stored, last, true).then(() => true)
    const [revoked = false] = await Promise.all([
      revocation?.catch(() => false),
      stored && clearAgain(scope, stored)
    ])
    if (uncleared === undefined) return reportEnd(revoked, found)
    // Its tokens are worthless, but they are still there.
    if (revoked) reportEnd(true, stored === undefined ? {} : { stored })
    return Promise.reject(uncleared.cause)
  }

  return (call: LogoutOptions | undefined, scope: Scope): Promise<LogoutInfo> =>
    call?.forget === true ? forget(scope) : revokeAndClear(scope)
}
