/**
 * The budget of calls to IAM (docs/api.md, "The budget for IAM"): every call says what it is for, and goes out, or is
 * refused here with 429 before IAM has to refuse everybody.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import { iamCallsRefused, recordNow } from "../../../services/Metrics.ts"
import { monotonicMillis } from "../../../services/MonotonicTime.ts"
import { type Plane, planeId } from "../../../services/Plane.ts"
import { makeQuota } from "../../../services/Quota.ts"
import { RequestContext } from "../../../services/RequestContext.ts"
import { Refused, type UpstreamFailure } from "../../../services/Upstream.ts"
import { type Claim, makeCallWindows, type Place, type Priority, priorities } from "./CallWindows.ts"
import type { CredentialCache } from "./CredentialCache.ts"

/** Below `/api/v1`. */
export type IamPath =
  | "/app-auth/tokens"
  | "/oauth/introspect"
  | "/oauth/revoke"
  | "/obo-access/exchanges"
  | "/application/testing-context"
  | `/obo-access/applications/${string}/endpoints`

/** What a call is for. */
export interface Purpose {
  /** The credential that the call is about, as `CredentialCache` names it; none for the application's own calls. */
  readonly credential?: string
  /** `login` presents a credential that is unknown by nature; `session` keeps or ends a session; the default is everything else. */
  readonly use?: "login" | "session"
  /** Without it a session that IAM has issued is lost. */
  readonly completing?: boolean
  /** A place that was kept for it. */
  readonly place?: Place
}

/** The code of a refusal that IAM has not seen. */
export const overBudget = "over_budget"

/** Calls in a minute about one credential, of a budget of 110; another budget has them in proportion. */
const boundOf = (path: IamPath): number => (path === "/app-auth/tokens" || path === "/oauth/revoke" ? 8 : 30)
const usualBudget = 110

/**
 * Different credentials of one address that IAM refused in five minutes: with the last one the address is suspect. A dead
 * session is one of them, so its neighbours are not.
 */
const suspicion = { name: "suspicion", quota: 6, windowSeconds: 300 }
/** The same of logins alone: with the first one further logins lose their lead. */
const failedLogins = { name: "failed logins", quota: 1, windowSeconds: 300 }

/** A path of a plane, or of a testing secret whose plane is not known yet: what IAM counts together. */
export interface Counted {
  readonly plane: string
  readonly path: IamPath
}

export interface IamBudget {
  /** Runs the call, or fails with 429 and the seconds after which its credential finds a place. */
  readonly within: (
    counted: Counted,
    purpose: Purpose
  ) => <A>(call: Effect.Effect<A, UpstreamFailure>) => Effect.Effect<A, UpstreamFailure>
  /**
   * Keeps the place for the look that completes a login or refresh while `spend` runs; a spend that fails gives it back.
   * Nothing is spent when there is none. Strangers get no better place for it than for their credential.
   */
  readonly withLook: <A>(
    plane: Plane,
    purpose: Purpose,
    spend: (look: Place) => Effect.Effect<A, UpstreamFailure>
  ) => Effect.Effect<A, UpstreamFailure>
  /** IAM refused a credential of the request in hand: it is not asked about again for `millis`. */
  readonly refuse: (credential: string, millis: number, use?: Purpose["use"]) => Effect.Effect<void>
}

export const introspectPath: IamPath = "/oauth/introspect"

/** The look that completes what `priority` began. */
const completing = (priority: Priority): Priority => (priority === "known" ? "essential" : priority)

const windowOf = ({ path, plane }: Counted): string => `${plane} ${path}`

export const makeIamBudget = (
  options: {
    readonly callsPerMinute: number
    /** Off where a gateway limits: then many clients may share its address. */
    readonly countAddresses: boolean
  },
  credentials: CredentialCache
): IamBudget => {
  const { callsPerMinute, countAddresses } = options
  const windows = makeCallWindows(callsPerMinute)
  // So that the first refusal is an increase: its series is there already.
  for (const priority of priorities) recordNow(iamCallsRefused({ priority }), 0)
  const refusals = makeQuota(suspicion)
  const refusedLogins = makeQuota(failedLogins)

  const priorityOf = ({ completing, credential, use }: Purpose, network: string, now: number): Priority => {
    if (completing === true) return "essential"
    if (credential === undefined) return "known"
    if (credentials.isKnown(credential)) return use === "session" ? "essential" : "known"
    if (refusals.used(network, now) >= suspicion.quota) return "suspect"
    return use === "login" && refusedLogins.used(network, now) === 0 ? "known" : "newcomer"
  }

  const claimOf = (counted: Counted, purpose: Purpose, priority: Priority): Claim => ({
    window: windowOf(counted),
    priority,
    key: purpose.credential === undefined ? undefined : credentials.budgetKey(purpose.credential),
    bound: Math.max(1, Math.ceil((boundOf(counted.path) * callsPerMinute) / usualBudget)),
    promise: purpose.credential !== undefined && credentials.isKnown(purpose.credential),
    place: purpose.place
  })

  const take = (
    counted: Counted,
    purpose: Purpose,
    raise: (priority: Priority) => Priority = identity
  ): Effect.Effect<Place, Refused> =>
    Effect.gen(function* () {
      const now = yield* monotonicMillis
      const { clientNetwork } = yield* RequestContext
      const claim = claimOf(counted, purpose, raise(priorityOf(purpose, clientNetwork, now)))
      const admission = windows.admit(claim, now)
      if (admission._tag === "Admitted") return admission.place
      yield* Metric.increment(iamCallsRefused({ priority: claim.priority }))
      const { retryAfterSeconds } = admission
      return yield* new Refused({ dependency: "iam", status: 429, code: overBudget, retryAfterSeconds })
    })

  const settle =
    (counted: Counted) =>
    (place: Place, exit: Exit.Exit<unknown, UpstreamFailure>): Effect.Effect<void> =>
      Effect.map(monotonicMillis, (now) => {
        const window = windowOf(counted)
        const failure = Exit.isSuccess(exit)
          ? undefined
          : Option.getOrUndefined(Cause.failureOption(exit.cause))
        // IAM never saw it, and so did not count it.
        if (failure?._tag === "NotExecuted") return windows.cancel(window, place)
        windows.release(place, now)
        if (Exit.isSuccess(exit)) windows.unblock(window, place)
        else if (failure?._tag === "Refused" && failure.status === 429)
          windows.block(window, failure.retryAfterSeconds ?? 1, now)
      })

  const within: IamBudget["within"] = (counted, purpose) => (call) =>
    Effect.acquireUseRelease(take(counted, purpose), () => call, settle(counted))

  const withLook: IamBudget["withLook"] = (plane, purpose, spend) => {
    const looks: Counted = { plane: planeId(plane), path: introspectPath }
    return Effect.acquireUseRelease(take(looks, purpose, completing), spend, (look, exit) =>
      Exit.isSuccess(exit)
        ? Effect.map(monotonicMillis, (now) => windows.reserve(look, now))
        : Effect.sync(() => windows.cancel(windowOf(looks), look))
    )
  }

  const refuse: IamBudget["refuse"] = (credential, millis, use) =>
    Effect.gen(function* () {
      const now = yield* monotonicMillis
      const { clientNetwork } = yield* RequestContext
      // Repeating one dead credential makes no stranger of its neighbours.
      if (!credentials.refuse(credential, millis, now) || !countAddresses) return
      refusals.take(clientNetwork, now)
      if (use === "login") refusedLogins.take(clientNetwork, now)
    })

  return { within, withLook, refuse }
}
