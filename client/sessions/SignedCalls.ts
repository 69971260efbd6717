/** Calls that are signed with the session. */
import type { CallOptions, MusicClientOptions } from "../Options.ts"
import type { ErrorOf } from "../Types.ts"
import type { CallFacts } from "../calls/Calls.ts"
import { type Scope, until, within } from "../calls/Deadline.ts"
import type { AnswerOf, EndpointName } from "../calls/Endpoints.ts"
import { clientFailure, failureOf, isOver } from "../failures/Failures.ts"
import type { SessionRefresh } from "./Refresh.ts"
import type { SessionParts } from "./SessionSlot.ts"
import type { StoredSession } from "../stores/SessionStore.ts"

/** The longest wait of a report for a refresh: milliseconds, and a part of the time until its deadline. */
const renewal = { most: 5_000, part: 1 / 3 } as const
/** Milliseconds that a call waits at most for the end of the record of a spent token. */
const confirmation = 1_000
/** Refreshes for one call with a refused access token: the first may return another program's token that is dead too. */
const renewals = 2

/** What signs a call. */
export interface Signature {
  readonly bearer: string
  readonly org: string
}

export const makeSignedCalls = (
  options: MusicClientOptions,
  { calls, report, slot, time }: SessionParts,
  refresh: SessionRefresh
) => {
  let refusedLogin: string | undefined
  let confirmed: string | undefined

  /** The session stays stored, so each call finds it refused; that is reported once for each login. */
  const refuse = ({ login_key }: StoredSession, requestId: string | null): ErrorOf<"logged_out"> => {
    if (refusedLogin !== login_key) report({ type: "logged_out", reason: "refused", requestId })
    refusedLogin = login_key
    return clientFailure("logged_out", { requestId, details: { reason: "refused" } })
  }

  /** Forgets the token that was spent for a pair which the service took. Tried once for each pair; it never fails the call. */
  const confirm = async (stored: StoredSession, scope: Scope): Promise<void> => {
    const { refresh_token, spent_refresh_token } = stored
    if (spent_refresh_token === undefined || confirmed === refresh_token) return
    confirmed = refresh_token
    const patience = until(scope, time.monotonic() + confirmation)
    const saved = slot.withLock(patience, () => slot.confirm(stored))
    await within(time, patience.deadline, saved).catch(() => undefined)
  }

  type Use<A> = (signature: Signature, session: StoredSession) => Promise<A>

  /** Runs a call in an organisation, and again with a new access token when the service refuses the present one. */
  const runSigned = async <A>(
    org: string | undefined,
    scope: Scope,
    use: Use<A>,
    stored: StoredSession,
    left: number = renewals
  ): Promise<A> => {
    try {
      const signature = { bearer: stored.access_token, org: org ?? options.org ?? stored.org_id }
      return await use(signature, stored)
    } catch (cause) {
      const failure = failureOf(cause)
      if (failure.code !== "unauthenticated") return Promise.reject(cause)
      if (left === 0) return Promise.reject(refuse(stored, failure.requestId))
      const next = await refresh.renewSession(stored, scope)
      return runSigned(org, scope, use, next, left - 1)
    }
  }

  const withSession = async <A>(org: string | undefined, scope: Scope, use: Use<A>): Promise<A> =>
    runSigned(org, scope, use, await refresh.getUsableSession(scope))

  /** The same, and without a session when none is stored. */
  const withOptionalSession = async <A>(
    org: string | undefined,
    scope: Scope,
    use: (signature: Signature | undefined) => Promise<A>
  ): Promise<A> => {
    const { deadline } = scope
    const stored = await slot.find(deadline)
    if (stored === undefined) return use(undefined)
    const now = time.monotonic()
    const patience = until(scope, now + Math.min(renewal.most, (deadline.at - now) * renewal.part))
    // During an outage a report is sent with the old token rather than not at all.
    const best = await refresh
      .getUsableSession(patience)
      .catch((cause: unknown) => (isOver(failureOf(cause)) ? Promise.reject(cause) : stored))
    return runSigned(org, scope, use, best)
  }

  /**
   * A call with a bearer. The session is refreshed early, and again when the service refuses the bearer. Its success proves the pair. That
   * of a report proves none, nor that of a raw call: the service may not have asked for the bearer, or not have been able to check it.
   */
  const callSigned = <Name extends EndpointName>(
    name: Name,
    call: CallOptions | undefined,
    scope: Scope,
    facts: (session: StoredSession) => Omit<CallFacts, "bearer" | "org">
  ): Promise<AnswerOf<Name>> =>
    withSession(call?.org, scope, async (signature, session) => {
      const answer = await calls.run(name, scope, { ...facts(session), ...signature })
      await confirm(session, scope)
      return answer
    })

  return { callSigned, withSession, withOptionalSession }
}
