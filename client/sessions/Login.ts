/** Login: exchanges a short-lived token for a session and stores it. */
import { isText } from "../Values.ts"
import type { Scope } from "../calls/Deadline.ts"
import { deriveKey, isSingleUse } from "../calls/Digest.ts"
import { newIdempotencyKey } from "../calls/RandomKey.ts"
import { failureOf, invalidInput, withFacts } from "../failures/Failures.ts"
import type { LoginOptions } from "../Options.ts"
import type { StoredSession } from "../stores/SessionStore.ts"
import type { LoginInfo } from "../Types.ts"
import { findSession, healedEvent, infoOf } from "./SessionRecord.ts"
import type { SessionParts } from "./SessionSlot.ts"

const unsavedHint = (more: string) =>
  `The login succeeded, but its session could not be stored: make the store writable and log in with the same token${more} within 10 minutes.`

// The lock comes first: a wait that ends without it has spent no token, and a received session is saved at once.
export const makeLogin = ({ calls, report, slot }: SessionParts) => {
  /** `same`: the session of this very login, of which a replay would return a pair that was rotated since. */
  const find = async (key: string, loading: Promise<StoredSession>) => {
    const { corrupt, stored } = await findSession(loading)
    return { corrupt, stored, same: stored?.login_key === key ? stored : undefined }
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
    const before = await find(key, loadBy())
    if (before.same !== undefined) return infoOfLogin(before.same)

    /** What was received has time to be saved, also after the deadline and when the caller has left. */
    const save = async (session: Awaited<ReturnType<typeof request>>, sentAt: number) => {
      // The lock may have been broken during the call: the store may hold a newer session.
      const after = await find(key, slot.load())
      if (after.same !== undefined) return infoOfLogin(after.same)
      const kept = { login_key: key, ting: session.ting }
      const stored = await slot.save(session, kept, sentAt, after.stored?.refresh_token ?? null)
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
      const during = await find(key, loadBy())
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
