/** Calls that are signed with the session. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { DeadlineOf } from "../calls/CallDeadline.ts"
import type { CallFacts, CallFailure, Calls } from "../calls/Calls.ts"
import { type Deadline, deadlineAt, monotonicMillis, within } from "../calls/Deadline.ts"
import type { AnswerOf, EndpointName } from "../calls/Endpoints.ts"
import type { ReportEvent } from "../Events.ts"
import { clientFailure, isOver, type MusicFailure } from "../failures/Failures.ts"
import type { CallOptions, MusicClientOptions } from "../Options.ts"
import type { RefreshFailure, SessionRefresh } from "./Refresh.ts"
import type { SessionSlot } from "./SessionSlot.ts"
import type { StoredSession } from "../stores/SessionStore.ts"

/** The longest wait of a report for a refresh: milliseconds, and a part of the time until its deadline. */
const renewal = { most: 5_000, part: 1 / 3 } as const
/** Milliseconds that a call waits at most for the end of the record of a spent token. */
const confirmation = 1_000
/** Refreshes for one call with a refused access token: the first may return another program's token that is dead too. */
const renewals = 2

/** What a signed call sends besides its session. */
export type SignedFacts = Omit<CallFacts, "deadline" | "bearer" | "org">

/** What signs a call. */
export interface Signature {
  readonly bearer: string
  readonly org: string
  readonly session: StoredSession
}

export interface SignedCalls {
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

export const makeSignedCalls = (
  options: MusicClientOptions,
  parts: {
    readonly calls: Calls
    readonly slot: SessionSlot
    readonly refresh: SessionRefresh
    readonly report: ReportEvent
    readonly deadlineOf: DeadlineOf
  }
): SignedCalls => {
  const { calls, deadlineOf, refresh, report, slot } = parts
  let refusedLogin: string | undefined
  let confirmed: string | undefined

  const signatureOf = (call: CallOptions | undefined, session: StoredSession): Signature => ({
    bearer: session.access_token,
    org: call?.org ?? options.org ?? session.org_id,
    session
  })

  /** The session stays stored, so each call finds it refused; that is reported once for each login. */
  const refuse = ({ login_key }: StoredSession, requestId: string | null) => {
    if (refusedLogin !== login_key) report({ type: "logged_out", reason: "refused", requestId })
    refusedLogin = login_key
    return clientFailure("logged_out", { requestId, details: { reason: "refused" } })
  }

  /**
   * The service took the pair, so the token that was spent for it is not needed any more. Tried once for each pair: a failure is none
   * of the call.
   */
  const confirm = (stored: StoredSession, deadline: Deadline) =>
    Effect.suspend(() => {
      const { refresh_token, spent_refresh_token } = stored
      if (spent_refresh_token === undefined || confirmed === refresh_token) return Effect.void
      confirmed = refresh_token
      return Effect.flatMap(monotonicMillis, (now) => {
        const patience = deadlineAt(Math.min(deadline.at, now + confirmation))
        return within(patience)(slot.withLock(patience)(slot.confirm(stored))).pipe(Effect.ignore)
      })
    })

  /** Runs a call, and again with a new access token when the service refuses the present one. */
  const runSigned = <A, E extends MusicFailure>(
    call: CallOptions | undefined,
    deadline: Deadline,
    use: (signature: Signature, deadline: Deadline) => Effect.Effect<A, E>
  ) => {
    const from = (stored: StoredSession, left: number): Effect.Effect<A, E | RefreshFailure> =>
      Effect.catchAll(
        Effect.zipLeft(use(signatureOf(call, stored), deadline), confirm(stored, deadline)),
        (failure): Effect.Effect<A, E | RefreshFailure> => {
          if (failure.code !== "unauthenticated") return Effect.fail(failure)
          return left === 0
            ? Effect.fail(refuse(stored, failure.requestId))
            : Effect.flatMap(refresh.renewSession(stored.access_token, deadline), (next) =>
                from(next, left - 1)
              )
        }
      )
    return (first: StoredSession) => from(first, renewals)
  }

  const withSession: SignedCalls["withSession"] = (call, use) =>
    Effect.gen(function* () {
      const deadline = yield* deadlineOf(call)
      const session = yield* refresh.getUsableSession(deadline)
      return yield* runSigned(call, deadline, use)(session)
    })

  const withOptionalSession: SignedCalls["withOptionalSession"] = (call, use) =>
    Effect.gen(function* () {
      const deadline = yield* deadlineOf(call)
      const stored = yield* Effect.asSome(slot.loadBy(deadline)).pipe(
        Effect.catchIf(
          (failure) => failure.code === "not_logged_in",
          () => Effect.succeed(Option.none<StoredSession>())
        )
      )
      if (Option.isNone(stored)) return yield* use(undefined, deadline)
      const now = yield* monotonicMillis
      const patience = deadlineAt(now + Math.min(renewal.most, (deadline.at - now) * renewal.part))
      // During an outage a report is sent with the old token rather than not at all.
      const best = yield* refresh.getUsableSession(patience).pipe(
        Effect.catchIf(
          (failure) => !isOver(failure),
          () => Effect.succeed(stored.value)
        )
      )
      return yield* runSigned(call, deadline, use)(best)
    })

  const callSigned: SignedCalls["callSigned"] = (name, call, facts) =>
    withSession(call, ({ bearer, org, session }, deadline) =>
      calls.run(name, { ...facts(session), deadline, bearer, org })
    )

  return { callSigned, withSession, withOptionalSession }
}
