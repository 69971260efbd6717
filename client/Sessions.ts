/** Login, logout, and signed calls. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Failure } from "../src/schema/Failure.ts"
import type { LoginSession } from "../src/schema/Session.ts"
import type { DerivedClientError } from "./Attempt.ts"
import type { AnyCallFailure, Calls, DerivedClient, FailureOf } from "./Calls.ts"
import { LoggedOut, type NotLoggedIn, type SessionFailure, StoreFailed } from "./Failures.ts"
import { deriveKey, loginKey, isSingleUse } from "./IdempotencyKeys.ts"
import type { CallOptions, MusicClientOptions } from "./Options.ts"
import type { OptionsProblem } from "./OptionsCheck.ts"
import { requireOwnPlane, type RefreshFailure, type SessionRefresh } from "./Refresh.ts"
import { type Deadline, deadlineIn, monotonicMillis } from "./Deadline.ts"
import type { SessionSlot } from "./SessionSlot.ts"
import type { StoredSession } from "./SessionStore.ts"
import type { LoginInfo, SessionInfo } from "./Types.ts"

/** The longest wait of a report for a refresh: milliseconds, and a part of the time until its deadline. */
const renewal = { most: 5_000, part: 1 / 3 } as const
/** Refreshes for one call with a refused access token: the first may return another program's token that is dead too. */
const renewals = 2

export interface LoginOptions extends CallOptions {
  /** Continues a login that began with this key; default: a key derived from the short-lived token. */
  readonly idempotencyKey?: string
}

export interface LogoutOptions extends CallOptions {
  /** Clear the stored session even when the service cannot be reached. The session then lives until it expires. */
  readonly forget?: boolean
}

export type LoginFailure = FailureOf<DerivedClient["auth"]["login"]> | AnyCallFailure | SessionFailure
export type LogoutFailure = FailureOf<DerivedClient["auth"]["logout"]> | AnyCallFailure | SessionFailure

export interface Sessions {
  readonly login: (slt: string, options?: LoginOptions) => Effect.Effect<LoginInfo, LoginFailure>
  readonly logout: (options?: LogoutOptions) => Effect.Effect<void, LogoutFailure>
  /** The stored session; makes no call. */
  readonly session: Effect.Effect<Option.Option<SessionInfo>, SessionFailure | OptionsProblem>
  /** A call with a bearer. The session is refreshed early, and again when the service refuses the bearer. */
  readonly callSigned: <A, E extends Failure | DerivedClientError>(
    options: CallOptions | undefined,
    use: (client: DerivedClient, organisation: string) => Effect.Effect<A, E>
  ) => Effect.Effect<A, Extract<E, Failure> | AnyCallFailure | RefreshFailure>
  /** A call with a bearer when a session is stored, else without one. */
  readonly callSignedIfPossible: <A, E extends Failure | DerivedClientError>(
    options: CallOptions | undefined,
    use: (client: DerivedClient, organisation: string | undefined) => Effect.Effect<A, E>
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
  `The login succeeded, but its session could not be stored: make the store writable and log in with the same token${more} within 10 minutes.`

const isOver = (failure: { readonly _tag: string }): failure is LoggedOut | NotLoggedIn =>
  failure._tag === "LoggedOut" || failure._tag === "NotLoggedIn"

export const makeSessions = (
  options: MusicClientOptions,
  parts: {
    readonly calls: Calls
    readonly slot: SessionSlot
    readonly refresh: SessionRefresh
    readonly deadlineMilliseconds: number
  }
): Sessions => {
  const { calls, refresh, slot } = parts
  const deadlineOf = (call: CallOptions | undefined) =>
    deadlineIn(call?.deadlineMilliseconds ?? parts.deadlineMilliseconds)

  // The lock comes first: a wait that ends without it has spent no token, and a received session is saved at once.
  const login: Sessions["login"] = (slt, call) =>
    Effect.gen(function* () {
      const key = call?.idempotencyKey ?? (yield* loginKey(slt))
      // The session of this login is stored already: a replay would return a pair that was rotated since.
      const known = Effect.map(
        Effect.option(slot.load),
        Option.filter((stored) => stored.login_key === key)
      )
      const before = yield* known
      if (Option.isSome(before)) return loginInfoOf(before.value)
      const deadline = yield* deadlineOf(call)
      let sentAt = yield* monotonicMillis
      const asked = calls.run({ deadline, uncertain: true }, (client) =>
        Effect.gen(function* () {
          sentAt = yield* monotonicMillis
          return yield* client.auth.login({ headers: { "idempotency-key": key }, payload: { slt } })
        })
      )
      const saved = (session: LoginSession) =>
        slot.save(session, { login_key: key, ting: session.ting }, sentAt).pipe(
          Effect.catchTag("StoreFailed", ({ cause }) => {
            const again = call?.idempotencyKey !== undefined || isSingleUse(slt)
            const hint = unsavedHint(again ? "" : ` and the idempotencyKey ${key}`)
            return Effect.fail(new StoreFailed({ cause, hint }))
          })
        )
      const begun = Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const during = yield* known
          if (Option.isSome(during)) return during.value
          const session = yield* Effect.flatMap(restore(asked), requireOwnPlane(slot))
          // The lock may have been broken during the call: the store may hold a newer session.
          const after = yield* known
          return Option.isSome(after) ? after.value : yield* saved(session)
        })
      )
      return loginInfoOf(yield* slot.withLock(deadline)(begun))
    })

  const logout: Sessions["logout"] = (call) =>
    Effect.gen(function* () {
      const deadline = yield* deadlineOf(call)
      const forget = call?.forget === true
      const revoked = Effect.gen(function* () {
        const stored = yield* slot.load
        const key = yield* deriveKey("logout", stored.refresh_token)
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
      yield* slot.withLock(deadline)(Effect.zipRight(revoked, slot.clear))
    })

  const session: Sessions["session"] = slot.load.pipe(
    Effect.map((stored) => Option.some(infoOf(stored))),
    Effect.catchTag("NotLoggedIn", () => Effect.succeed(Option.none()))
  )

  const signedWith =
    <A, E extends Failure | DerivedClientError>(
      call: CallOptions | undefined,
      deadline: Deadline,
      use: (client: DerivedClient, organisation: string) => Effect.Effect<A, E>
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
                  : Effect.flatMap(refresh.renewSession(stored.access_token, deadline), (next) =>
                      from(next, left - 1)
                    )
            )
          )
      return from(first, renewals)
    }

  const callSigned: Sessions["callSigned"] = (call, use) =>
    Effect.flatMap(deadlineOf(call), (deadline) =>
      Effect.flatMap(refresh.getUsableSession(deadline), signedWith(call, deadline, use))
    )

  const callSignedIfPossible: Sessions["callSignedIfPossible"] = (call, use) =>
    Effect.gen(function* () {
      const deadline = yield* deadlineOf(call)
      const stored = yield* Effect.asSome(slot.load).pipe(
        Effect.catchTag("NotLoggedIn", () => Effect.succeed(Option.none()))
      )
      if (Option.isNone(stored)) return yield* calls.run({ deadline }, (client) => use(client, undefined))
      const now = yield* monotonicMillis
      const patience = Math.min(renewal.most, (deadline - now) * renewal.part)
      // During an outage a report is sent with the old token rather than not at all.
      const best = yield* refresh.getUsableSession(now + patience).pipe(
        Effect.catchIf(
          (failure) => !isOver(failure),
          () => Effect.succeed(stored.value)
        )
      )
      return yield* signedWith(call, deadline, use)(best)
    })

  return { login, logout, session, callSigned, callSignedIfPossible }
}
