/**
 * Keeps a session usable: one refresh for all callers, early, under the lock, with a key derived from the token.
 * The old pair stays stored until the new one is saved. An outage never ends a session.
 */
import { present } from "../Values.ts"
import { deadlineMillisecondsOf, type MusicClientOptions } from "../Options.ts"
import type { ErrorOf, LoggedOutReason, MusicError } from "../Types.ts"
import type { Session } from "../Contract.ts"
import { type Backoff, isRetryable, pauseAfter, worthwhile } from "../calls/Calls.ts"
import { type Deadline, type Moment, ownScope, type Scope, until, within } from "../calls/Deadline.ts"
import { deriveKey } from "../calls/Digest.ts"
import { sleep } from "../calls/Time.ts"
import { clientFailure, failureOf, failWith, isOver, withFacts } from "../failures/Failures.ts"
import { infoOf } from "./SessionRecord.ts"
import type { SessionParts } from "./SessionSlot.ts"
import type { StoredSession } from "../stores/SessionStore.ts"

/** Milliseconds that a call waits for an early refresh while its access token is still valid, and between failed ones. */
const earlyWait = 5_000
/** Between a failed refresh and another for the callers that joined it: meanwhile another program gets the lock. */
const sharedBackoff: Backoff = { first: 200, longest: 200 }
/** Milliseconds for which the service replays a rotation. */
const replayMilliseconds = 600_000
/** Milliseconds that a rate limit is remembered, also when an intermediary asks for more. */
const longestRefusal = 900_000

/** A refresh that runs, shared by all callers that wait for it. */
interface RunningRefresh {
  readonly landed: Promise<StoredSession>
  readonly deadline: Deadline
  /** Of the pause after it: the same for all callers, so that one of them starts the next for all. */
  jitter?: number
}

/** A token pair that was received and is not saved yet. */
interface UnsavedPair {
  /** The refresh token that was spent for it. */
  readonly from: string
  readonly session: Session
  readonly sent: Moment | undefined
}

/**
 * A rate limit with its `Retry-After`, for one refresh token. Other failures are not remembered: an outage may end sooner
 * than its `Retry-After`, while each request beyond a rate limit counts against it.
 */
interface Refusal {
  readonly token: string
  readonly until: number
  readonly failure: ErrorOf<"rate_limited">
}

/** The service has refused the refresh token itself. */
const isRefused = (failure: MusicError): boolean =>
  failure.code === "unauthenticated" || failure.code === "idempotency_response_expired"

const lostHint =
  "The answer to the last refresh was lost more than 10 minutes ago, so the session is lost: log in with a new short-lived token."

const notLoggedIn = (): Promise<never> => failWith(clientFailure("not_logged_in"))

export type SessionRefresh = ReturnType<typeof makeSessionRefresh>

export const makeSessionRefresh = (
  options: MusicClientOptions,
  { calls, report, slot, time }: SessionParts
) => {
  let flight: RunningRefresh | undefined
  let pausedUntil = 0
  let unsaved: UnsavedPair | undefined
  let refusal: Refusal | undefined

  const refusedUntil = (stored: StoredSession): number =>
    refusal?.token === stored.refresh_token ? refusal.until : 0

  /** Waits for the end of a remembered rate limit, or fails with it when the deadline leaves no time for a refresh after it. */
  const waitOutRefusal = async (stored: StoredSession, { at }: Deadline): Promise<void> => {
    const left = refusedUntil(stored) - time.monotonic()
    if (refusal === undefined || left <= 0) return
    if (refusal.until + worthwhile <= at) return sleep(time, left)
    return failWith(withFacts(refusal.failure, { retryAfterSeconds: Math.ceil(left / 1_000) }))
  }

  const noteRefusal = ({ refresh_token: token }: StoredSession, failure: MusicError): void => {
    const seconds = failure.retryAfterSeconds
    refusal =
      failure.code === "rate_limited" && seconds !== undefined
        ? { token, until: time.monotonic() + Math.min(seconds * 1_000, longestRefusal), failure }
        : undefined
  }

  /** `from`: the refresh token to spend, or one that was spent under the same key within 10 minutes. */
  const requestRefresh = async (from: string, { actor }: StoredSession, scope: Scope) => {
    const session = await calls.run("refresh", scope, {
      uncertain: true,
      isQuick: true,
      idempotencyKey: await deriveKey("refresh", from),
      payload: { refresh_token: from }
    })
    return { from, session: await slot.check(session, actor), sent: scope.noted.sent?.at }
  }

  /**
   * The pair of the rotation before, when its answer was spoiled on the way: the service answers it again for 10 minutes. Undefined when
   * the stored pair is that pair, or when the service does not know the rotation any more.
   */
  const repeatRotation = async (stored: StoredSession, scope: Scope): Promise<UnsavedPair | undefined> => {
    const { spent_refresh_token: from } = stored
    if (from === undefined || slot.age(stored) >= replayMilliseconds) return undefined
    try {
      const pair = await requestRefresh(from, stored, scope)
      const { access_token, refresh_token } = pair.session
      return access_token === stored.access_token && refresh_token === stored.refresh_token ? undefined : pair
    } catch (cause) {
      return isRefused(failureOf(cause)) ? undefined : Promise.reject(cause)
    }
  }

  /** A new pair for a session whose access token has expired or was refused. */
  const findNewPair = async (stored: StoredSession, isAccessRefused: boolean, scope: Scope) => {
    const repeated = isAccessRefused ? await repeatRotation(stored, scope) : undefined
    if (repeated !== undefined) return repeated
    await waitOutRefusal(stored, scope.deadline)
    // No token is rotated for a store that cannot be written.
    await slot.probe(stored)
    try {
      return await requestRefresh(stored.refresh_token, stored, scope)
    } catch (cause) {
      const failure = failureOf(cause)
      noteRefusal(stored, failure)
      if (isAccessRefused || !isRefused(failure)) return Promise.reject(cause)
      return (await repeatRotation(stored, scope)) ?? Promise.reject(cause)
    }
  }

  /** The session is over: remembered, so that `status` can say why, and reported. */
  const end = (reason: LoggedOutReason, requestId: string | null, hint?: string): Promise<never> => {
    slot.noteEnd(reason)
    report({ type: "logged_out", reason, requestId })
    return failWith(clientFailure("logged_out", { details: { reason }, requestId, ...present({ hint }) }))
  }

  const endSession = ({ code, requestId }: MusicError): Promise<never> =>
    code === "unauthenticated" ? end("revoked", requestId) : end("lost", requestId, lostHint)

  /** Loads under the lock. Without a session another program logged out, or this client, which reports that itself. */
  const loadAgain = async (clears: number): Promise<StoredSession> => {
    const stored = await slot.find()
    return stored ?? (slot.clears() === clears ? end("replaced", null) : notLoggedIn())
  }

  /** The stored session if another program changed it meanwhile; its session is newer than any unsaved pair. */
  const loadIfChanged = async (stored: StoredSession, clears: number) => {
    const now = await loadAgain(clears)
    if (now.refresh_token === stored.refresh_token) return undefined
    unsaved = undefined
    return now
  }

  /** Saves a pair that replaces the stored one. A logout that does not wait for the lock may clear the store meanwhile. */
  const savePair = async (pair: UnsavedPair, stored: StoredSession, clears: number) => {
    const { login_key, refresh_token, ting } = stored
    const kept = { login_key, ting, spent_refresh_token: pair.from }
    let saved: StoredSession
    try {
      saved = await slot.save(pair.session, kept, pair.sent, refresh_token)
    } catch (cause) {
      // Another program may have broken the lock while this one was suspended.
      return (await loadIfChanged(stored, clears)) ?? Promise.reject(cause)
    }
    unsaved = undefined
    if (slot.clears() === clears) {
      report({ type: "refreshed", session: infoOf(saved) })
      return saved
    }
    await slot.clear()
    return notLoggedIn()
  }

  /** `clears` counts the clearings of this client before the wait for the lock. */
  const rotate = async (refused: string, scope: Scope, clears: number): Promise<StoredSession> => {
    const stored = await loadAgain(clears)
    const isDue = slot.isDue(stored)
    // Another program refreshed first.
    if (stored.access_token !== refused && !isDue) return stored
    // A new pair is held in memory until it is saved: the service replays it for 10 minutes only.
    const spent = [stored.refresh_token, stored.spent_refresh_token]
    const isKept = unsaved !== undefined && spent.includes(unsaved.from)
    if (!isKept) unsaved = undefined
    let failure: MusicError | undefined
    try {
      unsaved ??= await findNewPair(stored, !isDue, scope)
    } catch (cause) {
      failure = failureOf(cause)
    }
    const changed = await loadIfChanged(stored, clears)
    if (changed !== undefined) return changed
    if (unsaved === undefined) {
      const known = failure ?? clientFailure("client_defect")
      if (!isRefused(known)) return failWith(known)
      return slot.clear(true, stored.refresh_token).then(
        () => endSession(known),
        async (cause: unknown) => (await loadIfChanged(stored, clears)) ?? Promise.reject(cause)
      )
    }
    const saved = await savePair(unsaved, stored, clears)
    // The pair may have expired before it could be saved.
    return isKept && slot.isDue(saved) ? rotate(refused, scope, clears) : saved
  }

  const startRefresh = (refused: string, { at }: Deadline): RunningRefresh => {
    const scope = ownScope({ at: Math.max(time.monotonic() + deadlineMillisecondsOf(options), at) })
    const clears = slot.clears()
    const landed = slot
      .withLock(scope, () => rotate(refused, scope, clears))
      .finally(() => {
        flight = undefined
      })
    flight = { landed, deadline: scope.deadline }
    return flight
  }

  /**
   * The pause after which a caller starts a refresh of its own, because the one that it joined failed. Undefined when that cannot help in
   * its time: then the failure is the result of all callers, so that it does not cause one request for each of them.
   */
  const pauseAfterShared = (failure: MusicError, shared: RunningRefresh, { at }: Deadline) => {
    shared.jitter ??= 0.5 + time.random() / 2
    const pause = pauseAfter(sharedBackoff, 0, failure, shared.jitter)
    const begin = Math.max(shared.deadline.at, time.monotonic() + pause)
    return isRetryable(failure, true) && at - begin >= worthwhile ? pause : undefined
  }

  /**
   * A session with another access token than the refused one, by one refresh for all callers. It ends at the deadline that it starts
   * with, or callers that keep joining would hold the lock for ever. A caller that leaves does not end it, and its pair is saved.
   */
  const renewShared = async (refused: string, scope: Scope): Promise<StoredSession> => {
    const { deadline } = scope
    const clears = slot.clears()
    const joined = flight
    const current = joined ?? startRefresh(refused, deadline)
    try {
      const session = await within(time, deadline, current.landed, () => current.deadline)
      if (joined === undefined || session.access_token !== refused) return session
      // The shared refresh was started for an older token.
    } catch (cause) {
      const pause = joined && pauseAfterShared(failureOf(cause), joined, deadline)
      if (pause === undefined) return Promise.reject(cause)
      await sleep(time, pause, scope.signal)
      if (scope.signal.aborted) return failWith(clientFailure("aborted"))
      // This client has logged out meanwhile: the call is none of a later login, and no other program has ended its session.
      if (slot.clears() !== clears) return notLoggedIn()
    }
    return renewShared(refused, scope)
  }

  /** `renewShared` for the actor of a call. Another program may have logged out and in meanwhile. */
  const renewSession = async (stored: StoredSession, scope: Scope): Promise<StoredSession> => {
    const session = await renewShared(stored.access_token, scope)
    if (session.actor.public_id === stored.actor.public_id) return session
    return failWith(clientFailure("logged_out", { details: { reason: "replaced" } }))
  }

  /** The stored session, refreshed first when its access token is about to expire. */
  const getUsableSession = async (scope: Scope): Promise<StoredSession> => {
    const stored = (await slot.find(scope.deadline)) ?? (await notLoggedIn())
    if (!slot.isDue(stored)) return stored
    if (slot.millisLeft(stored) <= 0) return renewSession(stored, scope)
    const now = time.monotonic()
    if (now < Math.max(pausedUntil, refusedUntil(stored))) return stored
    try {
      return await renewSession(stored, until(scope, now + earlyWait))
    } catch (cause) {
      if (isOver(failureOf(cause))) return Promise.reject(cause)
      // The access token is still valid: the failed early refresh is no failure of the call.
      pausedUntil = time.monotonic() + earlyWait
      return stored
    }
  }

  return { getUsableSession, renewSession }
}
