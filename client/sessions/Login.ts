/** Login: exchanges a short-lived token for a session and stores it. */
import { isText } from "../Values.ts"
import type { Scope } from "../calls/Deadline.ts"
import { deriveKey, isSingleUse } from "../calls/Digest.ts"
import { newIdempotencyKey } from "../calls/RandomKey.ts"
import { failureOf, invalidInput, withFacts } from "../failures/Failures.ts"
import type { LoginOptions } from "../Options.ts"
import type { StoredSession } from "../stores/SessionStore.ts"
import type { LoginInfo } from "../Types.ts"
import { healedEvent, infoOf, isCorrupt, isMissing, type StoreFailed } from "./SessionRecord.ts"
import type { SessionParts } from "./SessionSlot.ts"

const unsavedHint = (more: string) =>
  `The login succeeded, but its session could not be stored: make the store writable and log in with the same token${more} within 10 minutes.`

/** What the store has of a login. */
interface Found {
  /** The session of this very login: a replay would return a pair that was rotated since. */
  readonly same?: StoredSession
  /** The refresh token of the session that this login replaces. */
  readonly replaced: string | null
  readonly corrupt?: StoreFailed
}

// The lock comes first: a wait that ends without it has spent no token, and a received session is saved at once.
export const makeLogin = ({ calls, report, slot }: SessionParts) => {
  const find = async (key: string, load: () => Promise<StoredSession>): Promise<Found> => {
    try {
      const stored = await load()
      return { replaced: stored.refresh_token, ...(stored.login_key === key ? { same: stored } : {}) }
    } catch (cause) {
      const failure = failureOf(cause)
      if (isCorrupt(failure)) return { replaced: null, corrupt: failure }
      return isMissing(failure) ? { replaced: null } : Promise.reject(cause)
    }
  }

  return async (slt: string, call: LoginOptions | undefined, scope: Scope): Promise<LoginInfo> => {
    if (!isText(slt)) return Promise.reject(invalidInput("slt", "must be a text"))
    // Programs without a type checker may pass null.
    const given = call?.idempotencyKey ?? undefined
    const isDerived = given === undefined && isSingleUse(slt)
    const key = given ?? (isDerived ? await deriveKey("login", slt) : newIdempotencyKey())
    const infoOfLogin = (stored: StoredSession, healed = false) => ({
      ...infoOf(stored),
      ting: { ...stored.ting },
      healed
    })
    const loadBy = () => slot.loadBy(scope.deadline)
    const before = await find(key, loadBy)
    if (before.same !== undefined) return infoOfLogin(before.same)

    /** What was received has time to be saved, also after the deadline and when the caller has left. */
    const save = async (session: Awaited<ReturnType<typeof request>>, sentAt: number) => {
      // The lock may have been broken during the call: the store may hold a newer session.
      const after = await find(key, () => slot.load())
      if (after.same !== undefined) return infoOfLogin(after.same)
      const kept = { login_key: key, ting: session.ting }
      const stored = await slot.save(session, kept, sentAt, after.replaced)
      slot.noteEnd(undefined)
      if (after.corrupt !== undefined) report(healedEvent(after.corrupt))
      report({ type: "logged_in", session: infoOf(stored) })
      return infoOfLogin(stored, after.corrupt !== undefined)
    }
    const sent = { at: 0 }
    const request = async () => {
      const session = await calls.run("login", scope, {
        sent,
        uncertain: true,
        idempotencyKey: key,
        isKeyRandom: given === undefined && !isDerived,
        payload: { slt }
      })
      return slot.check(session)
    }
    return slot.withLock(scope, async () => {
      const during = await find(key, loadBy)
      if (during.same !== undefined) return infoOfLogin(during.same)
      const session = await request()
      return save(session, sent.at).catch((cause: unknown) => {
        const failure = failureOf(cause)
        if (failure.code !== "store_failed") return Promise.reject(cause)
        const hint = unsavedHint(given !== undefined || isDerived ? "" : ` and the idempotencyKey ${key}`)
        return Promise.reject(withFacts(failure, { hint, retryable: true }))
      })
    })
  }
}
