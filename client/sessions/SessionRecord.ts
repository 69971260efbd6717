/** A stored session: its form, what callers see of it, and the failures of its store. Plain functions. */
import { fits, type Shape } from "../calls/Answers.ts"
import { type Session, shapes } from "../Contract.ts"
import type { ClientEvent } from "../Events.ts"
import type { ErrorOf, MusicError, SessionInfo, TingOutcome } from "../Types.ts"
import { isNumber, isRecord, present } from "../Values.ts"
import { clientFailure, failureOf, isFailure, reasonedFailure } from "../failures/Failures.ts"
import { storeErrorOf } from "../failures/StoreFailures.ts"
import type { StoredSession } from "../stores/SessionStore.ts"

type StoreFailed = ErrorOf<"store_failed">

/** The failure of a store or lock. The cause of a spoiled session may quote a credential, so it is not kept. */
export const storeFailed = (cause: unknown): MusicError => {
  if (isFailure(cause)) return cause
  const { code, hint, message, path, reason, retryable } = storeErrorOf(cause)
  return clientFailure("store_failed", {
    ...{ message, hint, retryable },
    cause: reason === "corrupt" ? undefined : cause,
    details: { reason, ...present({ path, code }) }
  })
}

export const healedEvent = ({ details }: StoreFailed): ClientEvent => ({
  type: "session_healed",
  ...present({ path: details.path })
})

/** The store has something that is no session: a login replaces it, a logout removes it. */
const isCorrupt = (failure: MusicError): failure is StoreFailed =>
  failure.code === "store_failed" && failure.details.reason === "corrupt"

/** What a store has: a session, what is no session, or nothing. */
export interface Found {
  readonly stored?: StoredSession
  readonly corrupt?: StoreFailed
}

/** Rejects only when the store cannot say. */
export const findSession = (finding: Promise<StoredSession | undefined>): Promise<Found> =>
  finding.then(
    (stored) => present({ stored }),
    (cause: unknown) => {
      const failure = failureOf(cause)
      return isCorrupt(failure) ? { corrupt: failure } : Promise.reject(cause)
    }
  )

/** A store may hold what an earlier version took from the service: what an answer gains later must be optional here. */
const storedShape: Shape = {
  ...shapes["POST /api/v1/auth/login"],
  slot: "string",
  obtained_at: "number",
  login_key: "string",
  "spent_refresh_token?": "string"
}

const isSession = (value: unknown): value is StoredSession =>
  fits(storedShape, value) && (value as StoredSession).version === 1

/** A later version of the client keeps its sessions in another form; a login of this one must not replace them. */
const isOfLaterVersion = (found: unknown): boolean =>
  isRecord(found) && isNumber(found.version) && found.version > 1

/** A store that never answers must not keep a call for ever. */
export const silentStore: StoreFailed = clientFailure("store_failed", {
  message: "The session store did not answer.",
  details: { reason: "unavailable" }
})

/** A session as a store returned it, of one slot and plane; or what is wrong with it. */
export const readStored = (
  found: unknown,
  slot: string,
  isOwn: (session: StoredSession) => boolean
): StoredSession | StoreFailed => {
  if (isOfLaterVersion(found))
    return reasonedFailure("store_failed", "misconfigured", {
      message: "The stored session is of a newer version of the client.",
      hint: "Update this program, or give it a session store of its own."
    })
  if (!isSession(found)) return reasonedFailure("store_failed", "corrupt")
  if (found.slot === slot && isOwn(found)) return found
  return reasonedFailure("store_failed", "misconfigured", {
    message: "The store returned the session of another server or plane.",
    hint: "Use a store that keeps one session for each slot, or clear the store."
  })
}

/** The known members as copies: what a later service adds is not stored, and a caller that changes one must not change the stored one. */
const membersOf = (session: Session) => ({
  access_token: session.access_token,
  refresh_token: session.refresh_token,
  expires_in: session.expires_in,
  scope: session.scope,
  actor: { type: session.actor.type, public_id: session.actor.public_id },
  org_id: session.org_id,
  org_ids: [...session.org_ids],
  testing_environment_id: session.testing_environment_id
})

const tingOf = ({ error, subscribed, subscription_id }: TingOutcome): TingOutcome =>
  present({ subscribed, subscription_id, error })

/**
 * Characters of a login or of a refresh, which have about one thousand. A refresh keeps the `ting` of its login, so a record has at most
 * twice as many. No store has to take more, and each must load what it took.
 */
const mostCharacters = 131_072

/** `ting` is of a login. */
export const isStorable = (session: Session & { readonly ting?: TingOutcome }): boolean =>
  JSON.stringify([membersOf(session), session.ting && tingOf(session.ting)]).length <= mostCharacters

/** What a session keeps from the one that it replaces. */
export type KeptMembers = Pick<StoredSession, "login_key" | "ting" | "spent_refresh_token">

/** A session to store. `obtainedAt` is in milliseconds since the epoch. */
export const toStored = (
  session: Session,
  slot: string,
  obtainedAt: number,
  { login_key, spent_refresh_token, ting }: KeptMembers
): StoredSession => ({
  version: 1,
  slot,
  ...membersOf(session),
  obtained_at: obtainedAt,
  login_key,
  ...present({ spent_refresh_token }),
  ting: tingOf(ting)
})

/** The longest time that a `Date` can hold, milliseconds. */
const latest = 8.64e15

/** A session without its tokens. */
export const infoOf = (stored: StoredSession): SessionInfo => {
  const { access_token: _access, expires_in, refresh_token: _refresh, ...known } = membersOf(stored)
  // A store may return any numbers.
  const end = Math.max(-latest, Math.min(latest, stored.obtained_at + expires_in * 1_000))
  return { ...known, expires_at: new Date(end).toISOString() }
}
