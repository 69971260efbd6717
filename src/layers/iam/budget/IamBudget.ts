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

/** What a call is for. */
export interface Purpose {
  /** The credential that the call is about, as `CredentialCache` names it; none for the application's own calls. */
  readonly credential?: string
  /** `login` spends an SLT, which is unknown by nature; `refresh` keeps a session; `session` ends one, or selects a plane. */
  readonly use?: "login" | "refresh" | "session"
  /** Without it a session that IAM has issued is lost. */
  readonly completing?: boolean
  /** A place that was kept for it. */
  readonly place?: Place
}

/** The code of a refusal that IAM has not seen. */
const overBudget = "over_budget"

/**
 * Calls in a minute about one credential, of a budget of 110; another budget has them in proportion. In a testing plane an
 * actor's id is a login token that is used again (identity-service.md 5).
 */
const boundOf = ({ path, plane }: Counted, { use }: Purpose): number => {
  if (path !== "/app-auth/tokens" && path !== "/oauth/revoke") return 30
  return use === "login" && plane !== productionId ? 30 : 8
}
const usualBudget = 110

/** Milliseconds for which a call without an answer counts against its credential: an outage must not outlast itself. */
const unansweredMillis = 15_000

/**
 * Different credentials of one network that IAM refused in five minutes. With the last one its strangers are suspect, and
 * with the first refused login its logins lose their lead. Logins and tokens are counted apart: an office whose sessions
 * ended can log in.
 */
const suspicion = { name: "suspicion", quota: 6, windowSeconds: 300 }
/** Logins of one network, and refreshes of one actor with however many logins: a whole office at once, then a part of the budget. */
const loginsOfNetwork = { name: "logins", quota: 60, windowSeconds: 90 }
const refreshesOfActor = { name: "refreshes", quota: 60, windowSeconds: 120 }

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

/** Whom refusals are counted by: a site has a /48 of IPv6, and so 65,536 networks. */
const siteOf = (network: string): string =>
  network.includes(":") ? network.split(":", 3).join(":") : network

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
  const scaled = (policy: QuotaPolicy): QuotaPolicy => ({
    ...policy,
    quota: Math.max(1, Math.ceil((policy.quota * callsPerMinute) / usualBudget))
  })
  const refusals = { login: makeQuota(suspicion), token: makeQuota(suspicion) }
  const logins = makeQuota(scaled(loginsOfNetwork))
  const refreshes = makeQuota(scaled(refreshesOfActor))

  const priorityOf = ({ completing, credential, use }: Purpose, network: string, now: number): Priority => {
    if (completing === true) return "essential"
    if (credential === undefined) return "known"
    if (credentials.isKnown(credential)) return use === undefined ? "known" : "essential"
    const refused = refusals[use === "login" ? "login" : "token"].used(siteOf(network), now)
    if (refused >= suspicion.quota) return "suspect"
    return use === "login" && refused === 0 ? "known" : "newcomer"
  }

  /** What one network or one actor may spend of the tokens path; none for other calls. */
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
    raise: (priority: Priority) => Priority = identity
  ): Effect.Effect<Place, Refused> =>
    Effect.gen(function* () {
      const now = yield* monotonicMillis
      const { clientNetwork } = yield* RequestContext
      const claim = claimOf(counted, purpose, raise(priorityOf(purpose, clientNetwork, now)))
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
        // IAM never saw it, and so did not count it.
        if (failure?._tag === "NotExecuted") return windows.cancel(window, place)
        windows.release(place, now, failure?._tag === "Unknown" ? unansweredMillis : undefined)
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
      refusals[use === "login" ? "login" : "token"].take(siteOf(clientNetwork), now)
    })

  return { within, withLook, refuse }
}
