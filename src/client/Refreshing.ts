/**
 * Keeps a session usable: renewed early, once for all callers, under the lock, with a key that a crash cannot lose.
 * The old pair stays stored until the new one is; an outage is never taken for the end of a session.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import { IdempotencyResponseExpired, Unauthenticated } from "../schema/Failure.ts"
import type { Session } from "../schema/Session.ts"
import type { AnyCallFailure, Calls, Derived, FailureOf } from "./Calls.ts"
import { exchangeOf, LoggedOut, type SessionFailure, UnexpectedAnswer, withExchange } from "./Failures.ts"
import { derivedKey } from "./Keys.ts"
import { type Deadline, deadlineIn, mayPass, monotonic, within } from "./Retrying.ts"
import type { Slot } from "./Slot.ts"
import type { StoredSession } from "./Store.ts"

/** How long a call waits for an early renewal while its token still lives, milliseconds. */
const earlyWait = 5_000
/** Between early renewals that failed, milliseconds. */
const earlyPause = 5_000

export type RefreshFailure = FailureOf<Derived["auth"]["refresh"]> | AnyCallFailure | SessionFailure

type Flight = Deferred.Deferred<StoredSession, RefreshFailure>

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

  const asked = (stored: StoredSession, deadline: Deadline) =>
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
      return { session: yield* ownPlane(slot)(session), sentAt }
    })

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
    slot.exclusively(deadline)(
      Effect.gen(function* () {
        const stored = yield* slot.load
        // Another program was first.
        if (stored.access_token !== refused && !(yield* slot.isDue(stored))) return stored
        const answer = yield* Effect.either(asked(stored, deadline))
        const changed = yield* changedSince(stored)
        if (changed !== undefined) return changed
        if (Either.isRight(answer)) {
          const { sentAt, session } = answer.right
          return yield* slot.save(session, { login_key: stored.login_key, ting: stored.ting }, sentAt)
        }
        const failure = answer.left
        return failure instanceof Unauthenticated || failure instanceof IdempotencyResponseExpired
          ? yield* ended(failure)
          : yield* Effect.fail(failure)
      })
    )

  /** One for all callers, and for no caller's sake stopped: a pair that nobody waits for is saved all the same. */
  const shared = (refused: string, wanted: Deadline) =>
    Effect.suspend((): Effect.Effect<{ readonly own: boolean; readonly flight: Flight }> => {
      if (flight !== undefined) return Effect.succeed({ own: false, flight })
      const started: Flight = Deferred.unsafeMake(FiberId.none)
      flight = started
      return deadlineIn(deadlineMilliseconds).pipe(
        Effect.flatMap((usual) => rotated(refused, Math.max(usual, wanted))),
        Effect.onExit((exit) =>
          Effect.suspend(() => {
            flight = undefined
            return Deferred.done(started, exit)
          })
        ),
        Effect.exit,
        Effect.forkDaemon,
        Effect.as({ own: true, flight: started })
      )
    })

  const joined = (refused: string, deadline: Deadline): Effect.Effect<StoredSession, RefreshFailure> =>
    Effect.flatMap(shared(refused, deadline), ({ flight: current, own }) =>
      own
        ? Deferred.await(current)
        : Deferred.await(current).pipe(
            // Another caller's flight: begun earlier, so out of time earlier, or for an older token.
            Effect.catchIf(
              (failure) => mayPass(failure, true),
              () => joined(refused, deadline)
            ),
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
      if (now < pausedUntil) return stored
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
