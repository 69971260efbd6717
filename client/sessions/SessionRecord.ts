/** A stored session: its form, what callers see of it, and the failures of its store. Plain functions. */
import { isTingOutcome, objectOf, optional, storedMembers, type WireSession } from "../calls/Answers.ts"
import { isNumber, isRecord, isText, present } from "../Values.ts"
import type { ClientEvent } from "../Events.ts"
import { clientFailure } from "../failures/Failures.ts"
import { SessionStoreError, storeErrorOf } from "../failures/StoreFailures.ts"
import type { StoredSession } from "../stores/SessionStore.ts"
import type { ErrorOf, MusicError, SessionInfo } from "../Types.ts"

export type StoreFailed = ErrorOf<"store_failed">

/** The failure of a store. The cause of a spoiled session may quote a credential, so it is not kept. */
export const storeFailed = (cause: unknown): StoreFailed => {
  const { code, hint, message, path, reason, retryable } = storeErrorOf(cause)
  return clientFailure("store_failed", {
    ...{ message, hint, retryable },
    cause: reason === "corrupt" ? undefined : cause,
    details: { reason, ...present({ path, code }) }
  })
}

export const healedEvent = ({ details }: StoreFailed): ClientEvent => ({
  type: "session_healed",
  ...(details.path === undefined ? {} : { path: details.path })
})

/** The store has something that is no session: a login replaces it, a logout removes it. */
export const isCorrupt = (failure: MusicError): failure is StoreFailed =>
  failure.code === "store_failed" && failure.details.reason === "corrupt"

const isSession = objectOf<StoredSession>({
  ...storedMembers,
  version: (value): value is 1 => value === 1,
  slot: isText,
  obtained_at: isNumber,
  login_key: isText,
  spent_refresh_token: optional(isText),
  ting: isTingOutcome
})

/** A later version of the client keeps its sessions in another form; a login of this one must not replace them. */
const isOfLaterVersion = (found: unknown): boolean =>
  isRecord(found) && isNumber(found.version) && found.version > 1

const laterSession = clientFailure("store_failed", {
  message: "The stored session is of a newer version of the client.",
  hint: "Update this program, or give it a session store of its own.",
  retryable: false,
  details: { reason: "misconfigured" }
})

const foreignSession = clientFailure("store_failed", {
  message: "The store returned the session of another server or plane.",
  hint: "Use a store that keeps one session for each slot, or clear the store.",
  retryable: false,
  details: { reason: "misconfigured" }
})

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
  if (isOfLaterVersion(found)) return laterSession
  if (!isSession(found)) return storeFailed(new SessionStoreError({ reason: "corrupt" }))
  return found.slot === slot && isOwn(found) ? found : foreignSession
}

/** What a session keeps from the one that it replaces. */
export type KeptMembers = Pick<StoredSession, "login_key" | "ting" | "spent_refresh_token">

/** Characters of a stored session; it has about one thousand. No store has to take more, and each must load what it took. */
const mostCharacters = 262_144

export const isStorable = ({
  actor,
  org_id,
  org_ids,
  scope,
  access_token,
  refresh_token
}: WireSession): boolean =>
  JSON.stringify([actor.type, actor.public_id, org_id, org_ids, scope, access_token, refresh_token]).length <=
  mostCharacters

/** A session to store: the known members, because what a later service adds is not stored. `obtainedAt` is in milliseconds since the epoch. */
export const toStored = (
  session: WireSession,
  slot: string,
  obtainedAt: number,
  { login_key, spent_refresh_token, ting: { error, subscribed, subscription_id } }: KeptMembers
): StoredSession => ({
  version: 1,
  slot,
  access_token: session.access_token,
  refresh_token: session.refresh_token,
  expires_in: session.expires_in,
  obtained_at: obtainedAt,
  scope: session.scope,
  actor: { type: session.actor.type, public_id: session.actor.public_id },
  org_id: session.org_id,
  org_ids: session.org_ids,
  testing_environment_id: session.testing_environment_id,
  login_key,
  ...(spent_refresh_token === undefined ? {} : { spent_refresh_token }),
  ting: {
    subscribed,
    ...(subscription_id === undefined ? {} : { subscription_id }),
    ...(error === undefined ? {} : { error })
  }
})

/** A session without its tokens: a copy, because a caller that changes it must not change the stored one. */
export const infoOf = (stored: StoredSession): SessionInfo => ({
  actor: { ...stored.actor },
  org_id: stored.org_id,
  org_ids: [...stored.org_ids],
  scope: stored.scope,
  testing_environment_id: stored.testing_environment_id,
  expires_at: endOf(stored)
})

/** The longest time that a `Date` can hold, milliseconds. */
const latest = 8.64e15

// A store may return any numbers.
const endOf = ({ expires_in, obtained_at }: StoredSession): string =>
  new Date(Math.max(-latest, Math.min(latest, obtained_at + expires_in * 1_000))).toISOString()
