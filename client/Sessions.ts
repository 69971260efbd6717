/** Logging in and out, and calls in somebody's name. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Failure } from "../src/schema/Failure.ts"
import type { LoginSession } from "../src/schema/Session.ts"
import type { Raw } from "./Attempt.ts"
import type { AnyCallFailure, Calls, Derived, FailureOf } from "./Calls.ts"
import { LoggedOut, type NotLoggedIn, type SessionFailure, StoreFailed } from "./Failures.ts"
import { derivedKey, loginKey, namesItsLogin } from "./IdempotencyKeys.ts"
import type { CallOptions, MusicClientOptions } from "./Options.ts"
import type { OptionsProblem } from "./OptionsCheck.ts"
import { ownPlane, type RefreshFailure, type Refreshing } from "./Refresh.ts"
import { type Deadline, deadlineIn, monotonic } from "./Retry.ts"
import type { Slot } from "./SessionSlot.ts"
import type { StoredSession } from "./SessionStore.ts"
import type { LoginInfo, SessionInfo } from "./Types.ts"

/** How long a report waits for a fresh token: milliseconds, and a part of the time that it has. */
const renewal = { most: 5_000, part: 1 / 3 } as const
/** A refused access token is renewed so often for one call: the first may be another program's token that is dead too. */
const renewals = 2

export interface LoginOptions extends CallOptions {
  /** Continues a login that was begun with this key; by default a short-lived token names its own. */
  readonly idempotencyKey?: string
}

export interface LogoutOptions extends CallOptions {
  /** Forget the session here even when the service cannot be told. It then lives on until it expires. */
  readonly forget?: boolean
}

export type LoginFailure = FailureOf<Derived["auth"]["login"]> | AnyCallFailure | SessionFailure
export type LogoutFailure = FailureOf<Derived["auth"]["logout"]> | AnyCallFailure | SessionFailure

export interface Sessions {
  readonly login: (slt: string, options?: LoginOptions) => Effect.Effect<LoginInfo, LoginFailure>
  readonly logout: (options?: LogoutOptions) => Effect.Effect<void, LogoutFailure>
  /** The stored session; asks nobody. */
  readonly session: Effect.Effect<Option.Option<SessionInfo>, SessionFailure | OptionsProblem>
  /** A call with a bearer: renewed early, and once more when the service refuses it. */
  readonly signed: <A, E extends Failure | Raw>(
    options: CallOptions | undefined,
    use: (client: Derived, organisation: string) => Effect.Effect<A, E>
  ) => Effect.Effect<A, Extract<E, Failure> | AnyCallFailure | RefreshFailure>
  /** A call that goes with a bearer when there is a session, however old, and without one when there is none. */
  readonly signedIfPossible: <A, E extends Failure | Raw>(
    options: CallOptions | undefined,
    use: (client: Derived, organisation: string | undefined) => Effect.Effect<A, E>
  ) => Effect.Effect<A, Extract<E, Failure> | AnyCallFailure | RefreshFailure>
}

const infoOf = (stored: StoredSession): SessionInfo => ({
  actor: stored.actor,
  org_id: stored.org_id,
  org_ids: stored.org_ids,
  scope: stored.scope,
  testing_environment_id: stored.testing_environment_id
})

const loginInfoOf = (stored: StoredSession): LoginInfo => ({ ...infoOf(stored), ting: stored.ting })

const unsavedHint = (more: string) =>
  `The login was done, but its session could not be stored: make the store writable and log in with the same token${more} within 10 minutes.`

const isOver = (failure: { readonly _tag: string }): failure is LoggedOut | NotLoggedIn =>
  failure._tag === "LoggedOut" || failure._tag === "NotLoggedIn"

export const makeSessions = (
  options: MusicClientOptions,
  parts: {
    readonly calls: Calls
    readonly slot: Slot
    readonly refreshing: Refreshing
    readonly deadlineMilliseconds: number
  }
): Sessions => {
  const { calls, refreshing, slot } = parts
  const deadlineOf = (call: CallOptions | undefined) =>
    deadlineIn(call?.deadlineMilliseconds ?? parts.deadlineMilliseconds)

  // The lock comes first: a wait for it that ends in vain has spent no token, and what was received is saved at once.
  const login: Sessions["login"] = (slt, call) =>
    Effect.gen(function* () {
      const key = call?.idempotencyKey ?? (yield* loginKey(slt))
      // A replay would bring back the pair that this session has long renewed.
      const known = Effect.map(
        Effect.option(slot.load),
        Option.filter((stored) => stored.login_key === key)
      )
      const before = yield* known
      if (Option.isSome(before)) return loginInfoOf(before.value)
      const deadline = yield* deadlineOf(call)
      let sentAt = yield* monotonic
      const asked = calls.run({ deadline, uncertain: true }, (client) =>
        Effect.gen(function* () {
          sentAt = yield* monotonic
          return yield* client.auth.login({ headers: { "idempotency-key": key }, payload: { slt } })
        })
      )
      const saved = (session: LoginSession) =>
        slot.save(session, { login_key: key, ting: session.ting }, sentAt).pipe(
          Effect.catchTag("StoreFailed", ({ cause }) => {
            const again = call?.idempotencyKey !== undefined || namesItsLogin(slt)
            const hint = unsavedHint(again ? "" : ` and the idempotencyKey ${key}`)
            return Effect.fail(new StoreFailed({ cause, hint }))
          })
        )
      const begun = Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const during = yield* known
          if (Option.isSome(during)) return during.value
          const session = yield* Effect.flatMap(restore(asked), ownPlane(slot))
          // A holder of the lock that overslept may find the store changed.
          const after = yield* known
          return Option.isSome(after) ? after.value : yield* saved(session)
        })
      )
      return loginInfoOf(yield* slot.exclusively(deadline)(begun))
    })

  const logout: Sessions["logout"] = (call) =>
    Effect.gen(function* () {
      const deadline = yield* deadlineOf(call)
      const forget = call?.forget === true
      const revoked = Effect.gen(function* () {
        const stored = yield* slot.load
        const key = yield* derivedKey("logout", stored.refresh_token)
        yield* calls.run({ deadline, uncertain: true }, (client) =>
          client.auth.logout({
            headers: { "idempotency-key": key },
            payload: { token: stored.refresh_token }
          })
        )
      }).pipe(
        Effect.catchAll((failure) =>
          forget || failure._tag === "NotLoggedIn" ? Effect.void : Effect.fail(failure)
        )
      )
      yield* slot.exclusively(deadline)(Effect.zipRight(revoked, slot.clear))
    })

  const session: Sessions["session"] = slot.load.pipe(
    Effect.map((stored) => Option.some(infoOf(stored))),
    Effect.catchTag("NotLoggedIn", () => Effect.succeed(Option.none()))
  )

  const signedWith =
    <A, E extends Failure | Raw>(
      call: CallOptions | undefined,
      deadline: Deadline,
      use: (client: Derived, organisation: string) => Effect.Effect<A, E>
    ) =>
    (first: StoredSession): Effect.Effect<A, Extract<E, Failure> | AnyCallFailure | RefreshFailure> => {
      const from = (
        stored: StoredSession,
        left: number
      ): Effect.Effect<A, Extract<E, Failure> | AnyCallFailure | RefreshFailure> =>
        calls
          .run({ deadline, bearer: stored.access_token }, (client) =>
            use(client, call?.org ?? options.org ?? stored.org_id)
          )
          .pipe(
            Effect.catchIf(
              (failure) => failure._tag === "Unauthenticated",
              (): Effect.Effect<A, Extract<E, Failure> | AnyCallFailure | RefreshFailure> =>
                left === 0
                  ? Effect.fail(new LoggedOut({ reason: "refused" }))
                  : Effect.flatMap(refreshing.renewed(stored.access_token, deadline), (next) =>
                      from(next, left - 1)
                    )
            )
          )
      return from(first, renewals)
    }

  const signed: Sessions["signed"] = (call, use) =>
    Effect.flatMap(deadlineOf(call), (deadline) =>
      Effect.flatMap(refreshing.usable(deadline), signedWith(call, deadline, use))
    )

  const signedIfPossible: Sessions["signedIfPossible"] = (call, use) =>
    Effect.gen(function* () {
      const deadline = yield* deadlineOf(call)
      const stored = yield* Effect.asSome(slot.load).pipe(
        Effect.catchTag("NotLoggedIn", () => Effect.succeed(Option.none()))
      )
      if (Option.isNone(stored)) return yield* calls.run({ deadline }, (client) => use(client, undefined))
      const now = yield* monotonic
      const patience = Math.min(renewal.most, (deadline - now) * renewal.part)
      // An outage that lets no token be renewed must not stop what was written because of it.
      const best = yield* refreshing.usable(now + patience).pipe(
        Effect.catchIf(
          (failure) => !isOver(failure),
          () => Effect.succeed(stored.value)
        )
      )
      return yield* signedWith(call, deadline, use)(best)
    })

  return { login, logout, session, signed, signedIfPossible }
}
