/** Login, logout, and signed calls. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { WireLogin } from "./Answers.ts"
import type { CallFacts, CallFailure, Calls } from "./Calls.ts"
import { type Deadline, deadlineIn, monotonicMillis } from "./Deadline.ts"
import type { EndpointName, AnswerOf } from "./Endpoints.ts"
import type { ReportEvent } from "./Events.ts"
import {
  clientFailure,
  isOver,
  type MusicFailure,
  type OptionsProblem,
  type SessionFailure,
  withFacts
} from "./Failures.ts"
import { deriveKey, isSingleUse, loginKey } from "./IdempotencyKeys.ts"
import type { CallOptions, MusicClientOptions } from "./Options.ts"
import { type RefreshFailure, requireOwnPlane, type SessionRefresh } from "./Refresh.ts"
import { infoOf, isCorrupt, type SessionSlot, type SlotFailure } from "./SessionSlot.ts"
import type { StoredSession } from "./SessionStore.ts"
import type { LoginInfo, LogoutInfo } from "./Types.ts"

/** The longest wait of a report for a refresh: milliseconds, and a part of the time until its deadline. */
const renewal = { most: 5_000, part: 1 / 3 } as const
/** Refreshes for one call with a refused access token: the first may return another program's token that is dead too. */
const renewals = 2
/** `logout({ forget: true })` waits no longer for the lock, nor for the revocation, milliseconds. */
const forgetMilliseconds = { lock: 500, revocation: 2_000 } as const

export interface LoginOptions extends CallOptions {
  /** Continues a login that began with this key; default: a key derived from the short-lived token. */
  readonly idempotencyKey?: string
}

export interface LogoutOptions extends CallOptions {
  /** Clear the stored session first and at once; then revoke it with one attempt of at most 2 s. */
  readonly forget?: boolean
}

export type LoginFailure = CallFailure<"login"> | SessionFailure
export type LogoutFailure = CallFailure<"logout"> | SessionFailure

/** What a signed call sends besides its session. */
export type SignedFacts = Omit<CallFacts, "deadline" | "bearer" | "org">

export interface Sessions {
  readonly login: (slt: string, options?: LoginOptions) => Effect.Effect<LoginInfo, LoginFailure>
  readonly logout: (options?: LogoutOptions) => Effect.Effect<LogoutInfo, LogoutFailure>
  /** A call with a bearer. The session is refreshed early, and again when the service refuses the bearer. */
  readonly callSigned: <Name extends EndpointName>(
    name: Name,
    options: CallOptions | undefined,
    facts: (session: StoredSession) => SignedFacts
  ) => Effect.Effect<AnswerOf<Name>, CallFailure<Name> | RefreshFailure>
  /** The same for a call of any kind. */
  readonly withSession: <A, E extends MusicFailure>(
    options: CallOptions | undefined,
    use: (signature: Signature, deadline: Deadline) => Effect.Effect<A, E>
  ) => Effect.Effect<A, E | RefreshFailure>
  /** The same, and without a session when none is stored. */
  readonly withOptionalSession: <A, E extends MusicFailure>(
    options: CallOptions | undefined,
    use: (signature: Signature | undefined, deadline: Deadline) => Effect.Effect<A, E>
  ) => Effect.Effect<A, E | RefreshFailure>
}

/** The deadline of a call; a time that is none is refused. */
export type DeadlineOf = (call: CallOptions | undefined) => Effect.Effect<Deadline, OptionsProblem>

/** What signs a call. */
export interface Signature {
  readonly bearer: string
  readonly org: string
  readonly session: StoredSession
}

const unsavedHint = (more: string) =>
  `The login succeeded, but its session could not be stored: make the store writable and log in with the same token${more} within 10 minutes.`

export const makeSessions = (
  options: MusicClientOptions,
  parts: {
    readonly calls: Calls
    readonly slot: SessionSlot
    readonly refresh: SessionRefresh
    readonly report: ReportEvent
    readonly deadlineOf: DeadlineOf
  }
): Sessions => {
  const { calls, deadlineOf, refresh, report, slot } = parts

  const reportHealed = ({ details }: MusicFailure<"store_failed">) =>
    report({ type: "session_healed", ...(details.path === undefined ? {} : { path: details.path }) })

  // The lock comes first: a wait that ends without it has spent no token, and a received session is saved at once.
  const login: Sessions["login"] = (slt, call) =>
    Effect.gen(function* () {
      const deadline = yield* deadlineOf(call)
      const key = call?.idempotencyKey ?? (yield* loginKey(slt))
      let corrupt: MusicFailure<"store_failed"> | undefined
      // The session of this login may be stored already: a replay would return a pair that was rotated since.
      const known = slot.load.pipe(
        Effect.map((stored) => (stored.login_key === key ? stored : undefined)),
        Effect.catchAll((failure) => {
          if (failure.code === "not_logged_in") return Effect.succeed(undefined)
          if (!isCorrupt(failure)) return Effect.fail(failure)
          corrupt = failure
          return Effect.succeed(undefined)
        })
      )
      const before = yield* known
      if (before !== undefined) return { ...infoOf(before), ting: before.ting, healed: false }
      const sent = { at: 0 }
      const asked = calls.run("login", {
        deadline,
        sent,
        uncertain: true,
        idempotencyKey: key,
        payload: { slt }
      })
      const saved = (session: WireLogin) =>
        slot.save(session, { login_key: key, ting: session.ting }, sent.at).pipe(
          Effect.mapError((failure) => {
            if (failure.code !== "store_failed") return failure
            const again = call?.idempotencyKey !== undefined || isSingleUse(slt)
            return withFacts(failure, {
              hint: unsavedHint(again ? "" : ` and the idempotencyKey ${key}`),
              retryable: true
            })
          })
        )
      const begun = Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const during = yield* known
          if (during !== undefined) return during
          const session = yield* Effect.flatMap(restore(asked), requireOwnPlane(slot))
          // The lock may have been broken during the call: the store may hold a newer session.
          const after = yield* known
          if (after !== undefined) return after
          const stored = yield* saved(session)
          slot.noteEnd(undefined)
          if (corrupt !== undefined) reportHealed(corrupt)
          report({ type: "logged_in", session: infoOf(stored) })
          return stored
        })
      )
      const stored = yield* slot.withLock(deadline)(begun)
      return { ...infoOf(stored), ting: stored.ting, healed: corrupt !== undefined }
    })

  const revoke = (stored: StoredSession, deadline: Deadline, once: boolean) =>
    Effect.flatMap(deriveKey("logout", stored.refresh_token), (key) =>
      calls.run("logout", {
        deadline,
        once,
        uncertain: true,
        idempotencyKey: key,
        payload: { token: stored.refresh_token }
      })
    )

  /** The session to end; undefined when there is none that can be read. */
  interface Found {
    readonly stored?: StoredSession
    readonly corrupt?: MusicFailure<"store_failed">
  }
  const loadForLogout = slot.load.pipe(
    Effect.map((stored): Found => ({ stored })),
    Effect.catchAll((failure): Effect.Effect<Found, SlotFailure> => {
      if (failure.code === "not_logged_in") return Effect.succeed({})
      return isCorrupt(failure) ? Effect.succeed({ corrupt: failure }) : Effect.fail(failure)
    })
  )

  const reportEnd = (revoked: boolean, corrupt: MusicFailure<"store_failed"> | undefined, had: boolean) =>
    Effect.sync((): LogoutInfo => {
      slot.noteEnd(undefined)
      if (corrupt !== undefined) reportHealed(corrupt)
      if (had) report({ type: "logged_out", reason: revoked ? "logout" : "forgotten", requestId: null })
      return { revoked, healed: corrupt !== undefined }
    })

  const revokeAndClear = (deadline: Deadline) =>
    slot.withLock(deadline)(
      Effect.gen(function* () {
        const { corrupt, stored } = yield* loadForLogout
        if (stored !== undefined) yield* revoke(stored, deadline, false)
        yield* slot.clear
        return yield* reportEnd(stored !== undefined, corrupt, stored !== undefined)
      })
    )

  /** Clears first. A held lock is not waited for: whoever holds it finds the store cleared and saves nothing. */
  const forget = Effect.gen(function* () {
    const cleared = Effect.gen(function* () {
      // A session that cannot be read is removed all the same.
      const found = yield* Effect.option(loadForLogout)
      yield* slot.clear
      return Option.getOrElse(found, (): Found => ({}))
    })
    const patience = yield* deadlineIn(forgetMilliseconds.lock)
    const { corrupt, stored } = yield* slot
      .withLock(patience)(Effect.either(cleared))
      .pipe(
        Effect.flatten,
        Effect.catchIf(
          (failure) => failure.code === "timed_out" || failure.code === "store_failed",
          () => cleared
        )
      )
    const deadline = yield* deadlineIn(forgetMilliseconds.revocation)
    const revoked = stored === undefined ? false : yield* Effect.isSuccess(revoke(stored, deadline, true))
    return yield* reportEnd(revoked, corrupt, stored !== undefined)
  })

  const logout: Sessions["logout"] = (call) =>
    Effect.flatMap(deadlineOf(call), (deadline) =>
      call?.forget === true ? forget : revokeAndClear(deadline)
    )

  const signatureOf = (call: CallOptions | undefined, session: StoredSession): Signature => ({
    bearer: session.access_token,
    org: call?.org ?? options.org ?? session.org_id,
    session
  })

  /** Runs a call, and again with a new access token when the service refuses the present one. */
  const runSigned = <A, E extends MusicFailure>(
    call: CallOptions | undefined,
    deadline: Deadline,
    use: (signature: Signature, deadline: Deadline) => Effect.Effect<A, E>
  ) => {
    const from = (stored: StoredSession, left: number): Effect.Effect<A, E | RefreshFailure> =>
      Effect.catchAll(
        use(signatureOf(call, stored), deadline),
        (failure): Effect.Effect<A, E | RefreshFailure> => {
          if (failure.code !== "unauthenticated") return Effect.fail(failure)
          return left === 0
            ? Effect.fail(
                clientFailure("logged_out", { requestId: failure.requestId, details: { reason: "refused" } })
              )
            : Effect.flatMap(refresh.renewSession(stored.access_token, deadline), (next) =>
                from(next, left - 1)
              )
        }
      )
    return (first: StoredSession) => from(first, renewals)
  }

  const withSession: Sessions["withSession"] = (call, use) =>
    Effect.gen(function* () {
      const deadline = yield* deadlineOf(call)
      const session = yield* refresh.getUsableSession(deadline)
      return yield* runSigned(call, deadline, use)(session)
    })

  const withOptionalSession: Sessions["withOptionalSession"] = (call, use) =>
    Effect.gen(function* () {
      const deadline = yield* deadlineOf(call)
      const stored = yield* Effect.asSome(slot.load).pipe(
        Effect.catchIf(
          (failure) => failure.code === "not_logged_in",
          () => Effect.succeed(Option.none<StoredSession>())
        )
      )
      if (Option.isNone(stored)) return yield* use(undefined, deadline)
      const now = yield* monotonicMillis
      const patience: Deadline = {
        at: now + Math.min(renewal.most, (deadline.at - now) * renewal.part),
        last: undefined
      }
      // During an outage a report is sent with the old token rather than not at all.
      const best = yield* refresh.getUsableSession(patience).pipe(
        Effect.catchIf(
          (failure) => !isOver(failure),
          () => Effect.succeed(stored.value)
        )
      )
      return yield* runSigned(call, deadline, use)(best)
    })

  const callSigned: Sessions["callSigned"] = (name, call, facts) =>
    withSession(call, ({ bearer, org, session }, deadline) =>
      calls.run(name, { ...facts(session), deadline, bearer, org })
    )

  return { login, logout, callSigned, withSession, withOptionalSession }
}
