/**
 * Keeps a session usable: renewed early, once for all callers, under the lock, with a key that a crash cannot lose.
 * The old pair stays stored until the new one is; an outage is never taken for the end of a session.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import { IdempotencyResponseExpired, RateLimited, Unauthenticated } from "../src/schema/Failure.ts"
import type { Session } from "../src/schema/Session.ts"
import type { AnyCallFailure, Calls, Derived, FailureOf } from "./Calls.ts"
import { exchangeOf, LoggedOut, type SessionFailure, UnexpectedAnswer, withExchange } from "./Failures.ts"
import { derivedKey } from "./IdempotencyKeys.ts"
import { type Deadline, deadlineIn, mayPass, monotonic, within } from "./Retry.ts"
import type { Slot } from "./SessionSlot.ts"
import type { StoredSession } from "./SessionStore.ts"

/** How long a call waits for an early renewal while its token still lives, milliseconds. */
const earlyWait = 5_000
/** Between early renewals that failed, milliseconds. */
const earlyPause = 5_000
/** So much more time than a failed flight had makes another one worth it, milliseconds. */
const worthwhile = 1_000

export type RefreshFailure = FailureOf<Derived["auth"]["refresh"]> | AnyCallFailure | SessionFailure

/** One refresh and everybody who waits for it. */
interface Flight {
  readonly landed: Deferred.Deferred<StoredSession, RefreshFailure>
  /** It goes on until then. */
  readonly deadline: Deadline
}

/** A pair that was received and could not be saved. */
interface Unsaved {
  /** The refresh token that it was given for. */
  readonly from: string
  readonly session: Session
  readonly sentAt: number
}

/**
 * The service's "not before", for one refresh token. Only rate limits are remembered: they count each request, while an
 * outage may end sooner than its `Retry-After`, and whoever calls again wants to see.
 */
interface Refusal {
  readonly token: string
  readonly until: number
  readonly failure: RateLimited
}

export interface Refreshing {
  /** The stored session, renewed first when its access token is near its end. */
  readonly usable: (deadline: Deadline) => Effect.Effect<StoredSession, RefreshFailure>
  /** A session with another access token than the one that was refused. */
  readonly renewed: (refused: string, deadline: Deadline) => Effect.Effect<StoredSession, RefreshFailure>
}

/** An answer of another plane is nobody's session: production and testing never stand in for each other. */
export const ownPlane =
  (slot: Slot) =>
  <A extends Session>(session: A): Effect.Effect<A, UnexpectedAnswer> =>
    slot.isOwn(session)
      ? Effect.succeed(session)
      : Effect.fail(
          new UnexpectedAnswer({
            status: 200,
            hint: "The service answered for another plane: check testingKey."
          })
        )

const lostHint =
  "The answer to the last refresh was lost more than 10 minutes ago, and so was the session: log in with a new short-lived token."

export const makeRefreshing = (calls: Calls, slot: Slot, deadlineMilliseconds: number): Refreshing => {
  let flight: Flight | undefined
  let pausedUntil = 0
  let unsaved: Unsaved | undefined
  let refusal: Refusal | undefined

  const refusalOf = (stored: StoredSession) => (refusal?.token === stored.refresh_token ? refusal : undefined)

  /** Waits as long as the service asked for, or says it again when the deadline leaves no room for that. */
  const awaited = (stored: StoredSession, deadline: Deadline) =>
    Effect.gen(function* () {
      const running = refusalOf(stored)
      const now = yield* monotonic
      if (running === undefined || running.until <= now) return
      const { failure, until } = running
      if (until < deadline) return yield* Effect.sleep(until - now)
      const retryAfterSeconds = Math.ceil((until - now) / 1_000)
      return yield* Effect.fail(withExchange(failure, { ...exchangeOf(failure), retryAfterSeconds }))
    })

  const remembered = (stored: StoredSession) => (failure: RefreshFailure) =>
    Effect.map(monotonic, (now) => {
      const { retryAfterSeconds } = exchangeOf(failure)
      refusal =
        failure instanceof RateLimited && retryAfterSeconds !== undefined
          ? { token: stored.refresh_token, until: now + retryAfterSeconds * 1_000, failure }
          : undefined
    })

  const exchanged = (stored: StoredSession, deadline: Deadline) =>
    Effect.gen(function* () {
      const key = yield* derivedKey("refresh", stored.refresh_token)
      let sentAt = yield* monotonic
      const session = yield* calls.run({ deadline, uncertain: true }, (client) =>
        Effect.gen(function* () {
          sentAt = yield* monotonic
          return yield* client.auth.refresh({
            headers: { "idempotency-key": key },
            payload: { refresh_token: stored.refresh_token }
          })
        })
      )
      return { from: stored.refresh_token, session: yield* ownPlane(slot)(session), sentAt }
    })

  /** Nothing is rotated onto a store that cannot be written. */
  const asked = (stored: StoredSession, deadline: Deadline): Effect.Effect<Unsaved, RefreshFailure> =>
    awaited(stored, deadline).pipe(
      Effect.zipRight(slot.probe(stored)),
      Effect.zipRight(Effect.tapError(exchanged(stored, deadline), remembered(stored)))
    )

  /** What the store says after an answer: whoever changed it in between knows better. */
  const changedSince = (stored: StoredSession) =>
    slot.load.pipe(
      Effect.map((now) => (now.refresh_token === stored.refresh_token ? undefined : now)),
      Effect.catchTag("NotLoggedIn", () => Effect.fail(new LoggedOut({ reason: "replaced" })))
    )

  const ended = (failure: Unauthenticated | IdempotencyResponseExpired) =>
    Effect.zipRight(
      slot.clear,
      Effect.fail(
        withExchange(
          failure instanceof Unauthenticated
            ? new LoggedOut({ reason: "revoked" })
            : new LoggedOut({ reason: "lost", hint: lostHint }),
          exchangeOf(failure)
        )
      )
    )

  const rotated = (refused: string, deadline: Deadline): Effect.Effect<StoredSession, RefreshFailure> =>
    Effect.gen(function* () {
      const stored = yield* slot.load
      // Another program was first.
      if (stored.access_token !== refused && !(yield* slot.isDue(stored))) return stored
      const kept = unsaved?.from === stored.refresh_token ? unsaved : undefined
      const answer = yield* Effect.either(kept === undefined ? asked(stored, deadline) : Effect.succeed(kept))
      // Until it is stored a new pair is held here: asked for again, it may come no more.
      unsaved = Option.getOrUndefined(Either.getRight(answer))
      const changed = yield* changedSince(stored)
      if (changed !== undefined) {
        unsaved = undefined
        return changed
      }
      if (Either.isRight(answer)) {
        const { sentAt, session } = answer.right
        const saved = yield* slot.save(session, { login_key: stored.login_key, ting: stored.ting }, sentAt)
        unsaved = undefined
        // It may have grown old meanwhile.
        return kept !== undefined && (yield* slot.isDue(saved)) ? yield* rotated(refused, deadline) : saved
      }
      const failure = answer.left
      return failure instanceof Unauthenticated || failure instanceof IdempotencyResponseExpired
        ? yield* ended(failure)
        : yield* Effect.fail(failure)
    })

  /** One for all callers, and for no caller's sake stopped: a pair that nobody waits for is saved all the same. */
  const shared = (refused: string, wanted: Deadline) =>
    Effect.flatMap(
      deadlineIn(deadlineMilliseconds),
      (usual): Effect.Effect<{ readonly own: boolean; readonly flight: Flight }> => {
        if (flight !== undefined) return Effect.succeed({ own: false, flight })
        const deadline = Math.max(usual, wanted)
        const started: Flight = { landed: Deferred.unsafeMake(FiberId.none), deadline }
        flight = started
        return slot
          .exclusively(deadline)(rotated(refused, deadline))
          .pipe(
            Effect.onExit((exit) =>
              Effect.suspend(() => {
                flight = undefined
                return Deferred.done(started.landed, exit)
              })
            ),
            Effect.exit,
            Effect.forkDaemon,
            Effect.as({ own: true, flight: started })
          )
      }
    )

  /**
   * Another caller's flight ended for lack of its own time, and this caller has more. Whatever else it ended in is the
   * answer to all: each asking anew for itself would be a storm.
   */
  const isWorthAnother = (failure: RefreshFailure, { deadline }: Flight, wanted: Deadline) =>
    mayPass(failure, true) &&
    exchangeOf(failure).retryAfterSeconds === undefined &&
    wanted - deadline >= worthwhile

  const joined = (refused: string, deadline: Deadline): Effect.Effect<StoredSession, RefreshFailure> =>
    Effect.flatMap(shared(refused, deadline), ({ flight: current, own }) =>
      own
        ? Deferred.await(current.landed)
        : Deferred.await(current.landed).pipe(
            Effect.catchIf(
              (failure) => isWorthAnother(failure, current, deadline),
              () => joined(refused, deadline)
            ),
            // It was begun for an older token.
            Effect.flatMap((session) =>
              session.access_token === refused ? joined(refused, deadline) : Effect.succeed(session)
            )
          )
    )

  const renewed: Refreshing["renewed"] = (refused, deadline) => within(deadline)(joined(refused, deadline))

  const usable: Refreshing["usable"] = (deadline) =>
    Effect.gen(function* () {
      const stored = yield* slot.load
      if (!(yield* slot.isDue(stored))) return stored
      if ((yield* slot.lifeOf(stored)) <= 0) return yield* renewed(stored.access_token, deadline)
      const now = yield* monotonic
      if (now < Math.max(pausedUntil, refusalOf(stored)?.until ?? 0)) return stored
      return yield* renewed(stored.access_token, Math.min(deadline, now + earlyWait)).pipe(
        Effect.catchAll((failure) => {
          if (failure._tag === "LoggedOut" || failure._tag === "NotLoggedIn") return Effect.fail(failure)
          // The token still lives: what could not be renewed yet is no reason to fail.
          return Effect.map(monotonic, (then) => {
            pausedUntil = then + earlyPause
            return stored
          })
        })
      )
    })

  return { usable, renewed }
}
