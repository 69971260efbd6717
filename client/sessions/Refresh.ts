/**
 * Keeps a session usable: one refresh for all callers, early, under the lock, with a key derived from the token.
 * The old pair stays stored until the new one is saved. An outage never ends a session.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import type { WireSession } from "../calls/Answers.ts"
import { currentMetadata } from "../calls/Attempt.ts"
import type { DeadlineOf } from "../calls/CallDeadline.ts"
import type { CallFailure, Calls } from "../calls/Calls.ts"
import { type Deadline, deadlineAt, monotonicMillis, within } from "../calls/Deadline.ts"
import type { ReportEvent } from "../Events.ts"
import {
  clientFailure,
  isOver,
  type MusicFailure,
  type SessionFailure,
  withFacts
} from "../failures/Failures.ts"
import { deriveKey } from "../calls/IdempotencyKeys.ts"
import { isRetryable, worthwhile } from "../calls/Retry.ts"
import { infoOf } from "./SessionRecord.ts"
import type { SessionSlot } from "./SessionSlot.ts"
import type { StoredSession } from "../stores/SessionStore.ts"
import type { LoggedOutReason } from "../Types.ts"

/** Milliseconds that a call waits for an early refresh while its access token is still valid. */
const earlyWait = 5_000
/** Milliseconds between failed early refreshes. */
const earlyPause = 5_000
/** Milliseconds for which the service replays a rotation. */
const replayMilliseconds = 600_000
/** Milliseconds that a rate limit is remembered, also when an intermediary asks for more. */
const longestRefusal = 900_000

export type RefreshFailure = CallFailure<"refresh"> | SessionFailure

/** A refresh that runs, shared by all callers that wait for it. */
interface RunningRefresh {
  readonly landed: Deferred.Deferred<StoredSession, RefreshFailure>
  readonly deadline: Deadline
}

/** A token pair that was received and is not saved yet. */
interface UnsavedPair {
  /** The refresh token that was spent for it. */
  readonly from: string
  readonly session: WireSession
  readonly sentAt: number
}

/**
 * A rate limit with its `Retry-After`, for one refresh token. Other failures are not remembered: an outage may end sooner
 * than its `Retry-After`, while each request beyond a rate limit counts against it.
 */
interface Refusal {
  readonly token: string
  readonly until: number
  readonly failure: MusicFailure<"rate_limited">
}

export interface SessionRefresh {
  /** The stored session, refreshed first when its access token is about to expire. */
  readonly getUsableSession: (deadline: Deadline) => Effect.Effect<StoredSession, RefreshFailure>
  /** A session with another access token than the refused one. */
  readonly renewSession: (refused: string, deadline: Deadline) => Effect.Effect<StoredSession, RefreshFailure>
}

/** The service has refused the refresh token itself. */
const isRefused = (
  failure: RefreshFailure
): failure is MusicFailure<"unauthenticated" | "idempotency_response_expired"> =>
  failure.code === "unauthenticated" || failure.code === "idempotency_response_expired"

const isMissing = (failure: MusicFailure): failure is MusicFailure<"not_logged_in"> =>
  failure.code === "not_logged_in"

const lostHint =
  "The answer to the last refresh was lost more than 10 minutes ago, so the session is lost: log in with a new short-lived token."

export const makeSessionRefresh = (parts: {
  readonly calls: Calls
  readonly slot: SessionSlot
  readonly report: ReportEvent
  readonly deadlineOf: DeadlineOf
}): SessionRefresh => {
  const { calls, deadlineOf, report, slot } = parts
  let flight: RunningRefresh | undefined
  let pausedUntil = 0
  let unsaved: UnsavedPair | undefined
  let refusal: Refusal | undefined

  const getRefusal = (stored: StoredSession) =>
    refusal?.token === stored.refresh_token ? refusal : undefined

  /** Waits for the end of a remembered rate limit, or fails with it when the deadline leaves no time for a refresh after it. */
  const waitOutRefusal = (stored: StoredSession, deadline: Deadline) =>
    Effect.gen(function* () {
      const running = getRefusal(stored)
      const now = yield* monotonicMillis
      if (running === undefined || running.until <= now) return
      const { failure, until } = running
      if (until + worthwhile <= deadline.at) return yield* Effect.sleep(until - now)
      return yield* withFacts(failure, { retryAfterSeconds: Math.ceil((until - now) / 1_000) })
    })

  const rememberRefusal = (stored: StoredSession) => (failure: RefreshFailure) =>
    Effect.map(monotonicMillis, (now) => {
      const { retryAfterSeconds } = failure
      refusal =
        failure.code === "rate_limited" && retryAfterSeconds !== undefined
          ? {
              token: stored.refresh_token,
              until: now + Math.min(retryAfterSeconds * 1_000, longestRefusal),
              failure
            }
          : undefined
    })

  /** `from`: the refresh token to spend, or one that was spent under the same key within 10 minutes. */
  const requestRefresh = (from: string, deadline: Deadline) =>
    Effect.gen(function* () {
      const key = yield* deriveKey("refresh", from)
      const sent = { at: 0 }
      const session = yield* calls.run("refresh", {
        deadline,
        sent,
        uncertain: true,
        idempotencyKey: key,
        payload: { refresh_token: from }
      })
      return { from, session: yield* slot.check(session), sentAt: sent.at }
    })

  /** The pair that was received for the spent token may have been spoiled on its way: the service has the real one for 10 minutes. */
  const canRepeat = (stored: StoredSession) =>
    stored.spent_refresh_token === undefined
      ? Effect.succeed(false)
      : Effect.map(slot.age(stored), (age) => age < replayMilliseconds)

  /** The real pair of the last rotation, when the stored one differs from it. */
  const repeatRotation = (stored: StoredSession, deadline: Deadline) =>
    requestRefresh(stored.spent_refresh_token ?? "", deadline).pipe(
      Effect.map((pair) =>
        pair.session.refresh_token === stored.refresh_token &&
        pair.session.access_token === stored.access_token
          ? undefined
          : pair
      ),
      Effect.catchIf(isRefused, () => Effect.succeed(undefined))
    )

  /** Probes the store first: no token is rotated for a store that cannot be written. */
  const requestNewPair = (
    stored: StoredSession,
    deadline: Deadline
  ): Effect.Effect<UnsavedPair, RefreshFailure> =>
    waitOutRefusal(stored, deadline).pipe(
      Effect.zipRight(slot.probe(stored)),
      Effect.zipRight(
        Effect.tapError(requestRefresh(stored.refresh_token, deadline), rememberRefusal(stored))
      )
    )

  /** A new pair for a session whose access token has expired or was refused. */
  const findNewPair = (
    stored: StoredSession,
    isAccessRefused: boolean,
    deadline: Deadline
  ): Effect.Effect<UnsavedPair, RefreshFailure> =>
    Effect.gen(function* () {
      const canAsk = yield* canRepeat(stored)
      const repeated = canAsk && isAccessRefused ? yield* repeatRotation(stored, deadline) : undefined
      if (repeated !== undefined) return repeated
      return yield* requestNewPair(stored, deadline).pipe(
        Effect.catchIf(
          (failure) => isRefused(failure) && canAsk && !isAccessRefused,
          (failure) =>
            Effect.flatMap(repeatRotation(stored, deadline), (pair) =>
              pair === undefined ? Effect.fail(failure) : Effect.succeed(pair)
            )
        )
      )
    })

  /** The session is over: remembered, so that `status` can say why, and reported. */
  const end = (reason: LoggedOutReason, requestId: string | null, hint?: string) => {
    slot.noteEnd(reason)
    report({ type: "logged_out", reason, requestId })
    return clientFailure("logged_out", {
      details: { reason },
      requestId,
      ...(hint === undefined ? {} : { hint })
    })
  }

  /** The session is gone: another program logged out, or this client, which reports that itself. */
  const endIfReplaced = (failure: MusicFailure<"not_logged_in">, clears: number) =>
    Effect.suspend(() => Effect.fail(slot.clears() === clears ? end("replaced", null) : failure))

  /** The stored session if another program changed it meanwhile; its session is newer. */
  const loadIfChanged = (stored: StoredSession, clears: number) =>
    slot.load.pipe(
      Effect.map((now) => (now.refresh_token === stored.refresh_token ? undefined : now)),
      Effect.catchIf(isMissing, (failure) => endIfReplaced(failure, clears))
    )

  /** A logout that does not wait for the lock may clear the store between the check and the end of a save. */
  const clearIfForgotten = (clears: number) =>
    Effect.suspend(() =>
      slot.clears() === clears
        ? Effect.void
        : Effect.zipRight(slot.clear, Effect.fail(clientFailure("not_logged_in")))
    )

  const endSession = ({
    code,
    requestId
  }: MusicFailure<"unauthenticated" | "idempotency_response_expired">) =>
    Effect.zipRight(
      slot.putAside,
      Effect.suspend(() =>
        Effect.fail(code === "unauthenticated" ? end("revoked", requestId) : end("lost", requestId, lostHint))
      )
    )

  /** `clears` counts the clearings of this client before the wait for the lock. */
  const rotate = (
    refused: string,
    deadline: Deadline,
    clears: number
  ): Effect.Effect<StoredSession, RefreshFailure> =>
    Effect.gen(function* () {
      const stored = yield* Effect.catchIf(slot.load, isMissing, (failure) => endIfReplaced(failure, clears))
      // Another program refreshed first.
      if (stored.access_token !== refused && !(yield* slot.isDue(stored))) return stored
      const isOfStored =
        unsaved?.from === stored.refresh_token || unsaved?.from === stored.spent_refresh_token
      const kept = isOfStored ? unsaved : undefined
      const answer = yield* Effect.either(
        kept === undefined
          ? findNewPair(stored, stored.access_token === refused && !(yield* slot.isDue(stored)), deadline)
          : Effect.succeed(kept)
      )
      // A new pair is held in memory until it is saved: the service replays it for 10 minutes only.
      unsaved = Option.getOrUndefined(Either.getRight(answer))
      const changed = yield* loadIfChanged(stored, clears)
      if (changed !== undefined) {
        unsaved = undefined
        return changed
      }
      if (Either.isRight(answer)) {
        const { from, sentAt, session } = answer.right
        const { login_key, refresh_token, ting } = stored
        const members = { login_key, ting, spent_refresh_token: from }
        const save = Effect.either(slot.save(session, members, sentAt, refresh_token))
        const result = yield* save
        if (Either.isLeft(result)) {
          // Another program may have broken the lock while this one was suspended; its session is newer.
          const newer = yield* loadIfChanged(stored, clears)
          if (newer === undefined) return yield* result.left
          unsaved = undefined
          return newer
        }
        const saved = result.right
        unsaved = undefined
        yield* clearIfForgotten(clears)
        report({ type: "refreshed", session: infoOf(saved) })
        // The pair may have expired before it could be saved.
        return kept !== undefined && (yield* slot.isDue(saved))
          ? yield* rotate(refused, deadline, clears)
          : saved
      }
      const failure = answer.left
      return isRefused(failure) ? yield* endSession(failure) : yield* Effect.fail(failure)
    })

  /** Starts a refresh, or joins the running one. It runs in the background: a caller that leaves does not interrupt it, and its pair is saved. */
  const startOrJoin = (refused: string, wanted: Deadline) =>
    Effect.flatMap(
      deadlineOf(undefined),
      (usual): Effect.Effect<{ readonly own: boolean; readonly flight: RunningRefresh }> => {
        if (flight !== undefined) return Effect.succeed({ own: false, flight })
        const deadline = deadlineAt(Math.max(usual.at, wanted.at))
        const started: RunningRefresh = { landed: Deferred.unsafeMake(FiberId.none), deadline }
        flight = started
        return slot
          .withLock(deadline)(rotate(refused, deadline, slot.clears()))
          .pipe(
            Effect.onExit((exit) =>
              Effect.suspend(() => {
                flight = undefined
                return Deferred.done(started.landed, exit)
              })
            ),
            Effect.exit,
            // The exchange of a refresh is not that of the call which needs it.
            Effect.locally(currentMetadata, undefined),
            Effect.forkDaemon,
            Effect.as({ own: true, flight: started })
          )
      }
    )

  /**
   * Whether a caller with a later deadline starts a refresh of its own after a shared one failed. Every other failure is
   * the result of all callers, so that one failed refresh does not cause one request for each of them.
   */
  const isWorthAnother = (failure: RefreshFailure, { deadline }: RunningRefresh, wanted: Deadline) =>
    isRetryable(failure, true) &&
    failure.retryAfterSeconds === undefined &&
    wanted.at - deadline.at >= worthwhile

  const awaitRefresh = (refused: string, deadline: Deadline): Effect.Effect<StoredSession, RefreshFailure> =>
    Effect.flatMap(startOrJoin(refused, deadline), ({ flight: current, own }) =>
      own
        ? Deferred.await(current.landed)
        : Deferred.await(current.landed).pipe(
            Effect.catchIf(
              (failure) => isWorthAnother(failure, current, deadline),
              () => awaitRefresh(refused, deadline)
            ),
            // The shared refresh was started for an older token.
            Effect.flatMap((session) =>
              session.access_token === refused ? awaitRefresh(refused, deadline) : Effect.succeed(session)
            )
          )
    )

  const renewSession: SessionRefresh["renewSession"] = (refused, deadline) =>
    within(deadline, () => flight?.deadline ?? deadline)(awaitRefresh(refused, deadline))

  const getUsableSession: SessionRefresh["getUsableSession"] = (deadline) =>
    Effect.gen(function* () {
      const stored = yield* slot.loadBy(deadline)
      if (!(yield* slot.isDue(stored))) return stored
      if ((yield* slot.millisLeft(stored)) <= 0) return yield* renewSession(stored.access_token, deadline)
      const now = yield* monotonicMillis
      if (now < Math.max(pausedUntil, getRefusal(stored)?.until ?? 0)) return stored
      const patience = deadlineAt(Math.min(deadline.at, now + earlyWait))
      return yield* renewSession(stored.access_token, patience).pipe(
        Effect.catchAll((failure) => {
          if (isOver(failure)) return Effect.fail(failure)
          // The access token is still valid: the failed early refresh is no failure of the call.
          return Effect.map(monotonicMillis, (then) => {
            pausedUntil = then + earlyPause
            return stored
          })
        })
      )
    })

  return { getUsableSession, renewSession }
}
