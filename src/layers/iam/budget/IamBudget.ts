/**
 * The budget of calls to IAM (docs/api.md, "The budget for IAM"). Every call declares its purpose. A call beyond the budget
 * is refused here with 429, before IAM blocks the whole application.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import { iamCallsRefused, recordNow } from "../../../services/Metrics.ts"
import { monotonicMillis } from "../../../services/MonotonicTime.ts"
import { type Plane, planeId, productionId } from "../../../services/Plane.ts"
import { makeQuota, type QuotaPolicy } from "../../../services/Quota.ts"
import { RequestContext } from "../../../services/RequestContext.ts"
import { Refused, type UpstreamFailure } from "../../../services/UpstreamFailure.ts"
import {
  type Admission,
  type Claim,
  makeCallWindows,
  type Place,
  type Priority,
  priorities
} from "./CallWindows.ts"
import type { CredentialCache } from "./CredentialCache.ts"

/** Below `/api/v1`. */
export type IamPath =
  | "/app-auth/tokens"
  | "/oauth/introspect"
  | "/oauth/revoke"
  | "/obo-access/exchanges"
  | "/application/testing-context"
  | `/obo-access/applications/${string}/endpoints`

/** The purpose of a call, from which its priority and its bounds follow. */
export interface Purpose {
  /** The credential of the call, as a key of `CredentialCache`; none for the application's own calls. */
  readonly credential?: string
  /** `login` exchanges an SLT, which is never known before; `refresh` keeps a session; `session` ends one, or selects a plane. */
  readonly use?: "login" | "refresh" | "session"
  /** The call completes a login or refresh. Without it a session that IAM issued is lost. */
  readonly completing?: boolean
  /** The place reserved for it. */
  readonly place?: Place
}

/** The code of a refusal by the budget; the call did not reach IAM. */
const overBudget = "over_budget"

/**
 * Calls per minute and credential at the usual budget of 110; another budget scales them. In a testing plane an actor's id
 * is a reusable login token (identity-service.md 5).
 */
const boundOf = ({ path, plane }: Counted, { use }: Purpose): number => {
  if (path !== "/app-auth/tokens" && path !== "/oauth/revoke") return 30
  return use === "login" && plane !== productionId ? 30 : 8
}
const usualBudget = 110

/** Milliseconds for which a call without a response counts against its credential. Short, so that an outage has no aftermath. */
const unansweredMillis = 15_000

/**
 * Distinct credentials of one network that IAM refused in five minutes. At the quota the network's unknown credentials
 * become `suspect`. From the first refused login on, its logins are `newcomer` instead of `known`. Logins and tokens are
 * counted separately, so that an office whose sessions ended can log in.
 */
const refusalsOfNetwork = { name: "suspicion", quota: 6, windowSeconds: 300 }
/** Logins of one network, and refreshes of one actor over all logins: a burst as large as an office, then a part of the budget. */
const loginsOfNetwork = { name: "logins", quota: 60, windowSeconds: 90 }
const refreshesOfActor = { name: "refreshes", quota: 60, windowSeconds: 120 }

/** What IAM counts together: a path in a plane, or for a testing secret whose plane is not known yet. */
export interface Counted {
  readonly plane: string
  readonly path: IamPath
}

export interface IamBudget {
  /** Runs the call, or fails with 429 and the seconds after which there is a place for its credential. */
  readonly within: (
    counted: Counted,
    purpose: Purpose
  ) => <A>(call: Effect.Effect<A, UpstreamFailure>) => Effect.Effect<A, UpstreamFailure>
  /**
   * Reserves the place for the introspection that completes a login or refresh, then runs `spend`. Without a place nothing
   * is spent; a failed `spend` returns the place. A `known` call reserves as `essential`; others keep their priority.
   */
  readonly reserveIntrospection: <A>(
    plane: Plane,
    purpose: Purpose,
    spend: (place: Place) => Effect.Effect<A, UpstreamFailure>
  ) => Effect.Effect<A, UpstreamFailure>
  /** IAM refused a credential of the current request: no further call for it during `millis`. */
  readonly recordRefusal: (credential: string, millis: number, use?: Purpose["use"]) => Effect.Effect<void>
}

export const introspectPath: IamPath = "/oauth/introspect"

/** The unit by which refusals are counted. With IPv6 it is a site, a /48, because a site has 65,536 networks. */
const siteOf = (network: string): string =>
  network.includes(":") ? network.split(":", 3).join(":") : network

/** The priority of the introspection that completes a login or refresh of this priority. */
const completingPriority = (priority: Priority): Priority => (priority === "known" ? "essential" : priority)

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
  // Creates the series, so that the first refusal shows as an increase.
  for (const priority of priorities) recordNow(iamCallsRefused({ priority }), 0)
  const scaled = (policy: QuotaPolicy): QuotaPolicy => ({
    ...policy,
    quota: Math.max(1, Math.ceil((policy.quota * callsPerMinute) / usualBudget))
  })
  const refusals = { login: makeQuota(refusalsOfNetwork), token: makeQuota(refusalsOfNetwork) }
  const logins = makeQuota(scaled(loginsOfNetwork))
  const refreshes = makeQuota(scaled(refreshesOfActor))

  const priorityOf = ({ completing, credential, use }: Purpose, network: string, now: number): Priority => {
    if (completing === true) return "essential"
    if (credential === undefined) return "known"
    if (credentials.isKnown(credential)) return use === undefined ? "known" : "essential"
    const refused = refusals[use === "login" ? "login" : "token"].used(siteOf(network), now)
    if (refused >= refusalsOfNetwork.quota) return "suspect"
    return use === "login" && refused === 0 ? "known" : "newcomer"
  }

  /** The quota of one network or actor for logins and refreshes; none for other calls. */
  const shareOf = ({ credential, use }: Purpose, network: string) => {
    if (use === "login") return countAddresses ? { quota: logins, key: network } : undefined
    if (use !== "refresh" || credential === undefined) return undefined
    const owner = credentials.ownerOf(credential)
    if (owner !== undefined) return { quota: refreshes, key: owner }
    return countAddresses ? { quota: refreshes, key: network } : undefined
  }

  const claimOf = (counted: Counted, purpose: Purpose, priority: Priority): Claim => ({
    window: windowOf(counted),
    priority,
    key: purpose.credential === undefined ? undefined : credentials.budgetKey(purpose.credential),
    bound: Math.max(1, Math.ceil((boundOf(counted, purpose) * callsPerMinute) / usualBudget)),
    promise: purpose.credential !== undefined && credentials.isKnown(purpose.credential),
    place: purpose.place
  })

  const take = (
    counted: Counted,
    purpose: Purpose,
    adjust: (priority: Priority) => Priority = identity
  ): Effect.Effect<Place, Refused> =>
    Effect.gen(function* () {
      const now = yield* monotonicMillis
      const { clientNetwork } = yield* RequestContext
      const claim = claimOf(counted, purpose, adjust(priorityOf(purpose, clientNetwork, now)))
      const share = counted.path === introspectPath ? undefined : shareOf(purpose, clientNetwork)
      const reading = share?.quota.take(`${counted.plane} ${share.key}`, now)
      const admission: Admission =
        reading !== undefined && reading.retryAfterSeconds > 0
          ? { _tag: "Refused", retryAfterSeconds: reading.retryAfterSeconds }
          : windows.admit(claim, now)
      if (admission._tag === "Admitted") return admission.place
      if (reading?.retryAfterSeconds === 0) share?.quota.giveBack(`${counted.plane} ${share.key}`)
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
        // The call did not reach IAM, so IAM did not count it.
        if (failure?._tag === "NotExecuted") return windows.cancel(window, place)
        windows.release(place, now, failure?._tag === "Unknown" ? unansweredMillis : undefined)
        if (Exit.isSuccess(exit)) windows.unblock(window, place)
        else if (failure?._tag === "Refused" && failure.status === 429)
          windows.block(window, failure.retryAfterSeconds ?? 1, now)
      })

  const within: IamBudget["within"] = (counted, purpose) => (call) =>
    Effect.acquireUseRelease(take(counted, purpose), () => call, settle(counted))

  const reserveIntrospection: IamBudget["reserveIntrospection"] = (plane, purpose, spend) => {
    const introspection: Counted = { plane: planeId(plane), path: introspectPath }
    return Effect.acquireUseRelease(take(introspection, purpose, completingPriority), spend, (place, exit) =>
      Exit.isSuccess(exit)
        ? Effect.map(monotonicMillis, (now) => windows.reserve(place, now))
        : Effect.sync(() => windows.cancel(windowOf(introspection), place))
    )
  }

  const recordRefusal: IamBudget["recordRefusal"] = (credential, millis, use) =>
    Effect.gen(function* () {
      const now = yield* monotonicMillis
      const { clientNetwork } = yield* RequestContext
      // One dead credential that is repeated does not make its network suspect.
      if (!credentials.recordRefusal(credential, millis, now) || !countAddresses) return
      refusals[use === "login" ? "login" : "token"].take(siteOf(clientNetwork), now)
    })

  return { within, reserveIntrospection, recordRefusal }
}
