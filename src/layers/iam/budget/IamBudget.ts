/**
 * The budget of calls to IAM (docs/api.md, "The budget for IAM"). Every call declares its purpose. A call beyond the budget
 * is refused here with 429, before IAM blocks the whole application. The rules are in the files beside this one; here they
 * are applied in front of every call.
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
import { RequestContext } from "../../../services/RequestContext.ts"
import { Refused, type UpstreamFailure } from "../../../services/UpstreamFailure.ts"
import { type Admission, type Claim, makeCallWindows, type Place } from "./CallWindows.ts"
import { boundOf } from "./CredentialBounds.ts"
import type { KnownCredentials } from "./KnownCredentials.ts"
import { makeNetworkAndActorQuotas } from "./NetworkAndActorQuotas.ts"
import { type Counted, introspectPath, type Purpose } from "./Purpose.ts"
import type { Refusal, RefusedCredentials } from "./RefusedCredentials.ts"
import { completingShare, makeMembership, type Share, shares } from "./Shares.ts"

/** The code of a refusal by the budget; the call did not reach IAM. */
const overBudget = "over_budget"

export interface IamBudget {
  /** Runs the call, or fails with 429 and the seconds after which there is a place for its credential. */
  readonly within: (
    counted: Counted,
    purpose: Purpose
  ) => <A>(call: Effect.Effect<A, UpstreamFailure>) => Effect.Effect<A, UpstreamFailure>
  /**
   * Reserves the place for the introspection that completes a login or refresh, then runs `spend`. Without a place nothing
   * is spent; a failed `spend` returns the place. A `known` call reserves as `essential`; others keep their share.
   */
  readonly reserveIntrospection: <A>(
    plane: Plane,
    purpose: Purpose,
    spend: (place: Place) => Effect.Effect<A, UpstreamFailure>
  ) => Effect.Effect<A, UpstreamFailure>
  /** Runs the call, or `repeated` while IAM's refusal of the credential is repeated (`RefusedCredentials`). Outside of `within`. */
  readonly unlessRefused: <A, E>(
    credential: string,
    repeated: Effect.Effect<A, E>
  ) => <B, E2>(call: Effect.Effect<B, E2>) => Effect.Effect<A | B, E | E2>
  /** IAM refused a credential of the current request. */
  readonly recordRefusal: (credential: string, refusal: Refusal, use?: Purpose["use"]) => Effect.Effect<void>
}

export const makeIamBudget = (
  options: {
    readonly callsPerMinute: number
    /** Off where a gateway limits: then many clients may share its address. */
    readonly countAddresses: boolean
  },
  known: KnownCredentials,
  refused: RefusedCredentials
): IamBudget => {
  const windows = makeCallWindows(options.callsPerMinute)
  const membership = makeMembership(options)
  const quotas = makeNetworkAndActorQuotas(options, known.ownerOf)
  // Creates the series, so that the first refusal shows as an increase.
  for (const share of shares) recordNow(iamCallsRefused({ priority: share }), 0)

  const isKnown = ({ credential }: Purpose): boolean => credential !== undefined && known.isKnown(credential)

  /**
   * IAM counts by path and plane. A known testing secret has the window of its plane; all secrets whose plane is not known
   * yet share one window.
   */
  const windowOf = ({ path, plane }: Counted, purpose: Purpose): string =>
    `${plane ?? (isKnown(purpose) ? purpose.credential : "unresolved")} ${path}`

  /** The place reserved for this call, if it is the introspection that completes a login or refresh. */
  const reservedPlace = ({ path }: Counted, { credential }: Purpose): Place | undefined =>
    path === introspectPath && credential !== undefined
      ? Option.getOrUndefined(known.completingPlace(credential))
      : undefined

  const take = (
    window: string,
    counted: Counted,
    purpose: Purpose,
    place: Place | undefined,
    adjust: (share: Share) => Share = identity
  ): Effect.Effect<Place, Refused> =>
    Effect.gen(function* () {
      const now = yield* monotonicMillis
      const { clientNetwork } = yield* RequestContext
      const completing = purpose.completing === true || place !== undefined
      const claim: Claim = {
        window,
        share: adjust(membership.shareOf({ ...purpose, completing }, isKnown(purpose), clientNetwork, now)),
        key: purpose.credential === undefined ? undefined : known.budgetKey(purpose.credential),
        bound: boundOf(counted, purpose.use, options.callsPerMinute),
        promise: isKnown(purpose),
        place
      }
      const quota = quotas.take(counted, purpose, clientNetwork, now)
      const admission: Admission =
        quota.retryAfterSeconds > 0
          ? { _tag: "Refused", retryAfterSeconds: quota.retryAfterSeconds }
          : windows.admit(claim, now)
      if (admission._tag === "Admitted") return admission.place
      quota.giveBack()
      yield* Metric.increment(iamCallsRefused({ priority: claim.share }))
      const { retryAfterSeconds } = admission
      return yield* new Refused({ dependency: "iam", status: 429, code: overBudget, retryAfterSeconds })
    })

  const settle =
    (window: string) =>
    (place: Place, exit: Exit.Exit<unknown, UpstreamFailure>): Effect.Effect<void> =>
      Effect.map(monotonicMillis, (now) => {
        const failure = Exit.isSuccess(exit)
          ? undefined
          : Option.getOrUndefined(Cause.failureOption(exit.cause))
        // The call did not reach IAM, so IAM did not count it.
        if (failure?._tag === "NotExecuted") return windows.cancel(window, place)
        windows.release(place, now, failure?._tag !== "Unknown")
        if (Exit.isSuccess(exit)) windows.unblock(window, place)
        else if (failure?._tag === "Refused" && failure.status === 429)
          windows.block(window, failure.retryAfterSeconds ?? 1, now)
      })

  const within: IamBudget["within"] = (counted, purpose) => (call) =>
    Effect.suspend(() => {
      // Read once: the credential may become known during the call.
      const window = windowOf(counted, purpose)
      return Effect.acquireUseRelease(
        take(window, counted, purpose, reservedPlace(counted, purpose)),
        () => call,
        settle(window)
      )
    })

  const reserveIntrospection: IamBudget["reserveIntrospection"] = (plane, purpose, spend) => {
    const introspection: Counted = { plane: planeId(plane), path: introspectPath }
    const window = windowOf(introspection, purpose)
    return Effect.acquireUseRelease(
      take(window, introspection, purpose, undefined, completingShare),
      spend,
      (place, exit) =>
        Exit.isSuccess(exit)
          ? Effect.map(monotonicMillis, (now) => windows.reserve(place, now))
          : Effect.sync(() => windows.cancel(window, place))
    )
  }

  const unlessRefused: IamBudget["unlessRefused"] =
    <A, E>(credential: string, repeated: Effect.Effect<A, E>) =>
    <B, E2>(call: Effect.Effect<B, E2>) =>
      Effect.flatMap(
        monotonicMillis,
        (now): Effect.Effect<A | B, E | E2> => (refused.isRefused(credential, now) ? repeated : call)
      )

  const recordRefusal: IamBudget["recordRefusal"] = (credential, refusal, use) =>
    Effect.gen(function* () {
      const now = yield* monotonicMillis
      const { clientNetwork } = yield* RequestContext
      known.forget(credential)
      // One dead credential that is repeated does not make its network suspect.
      if (refused.record(credential, refusal, now)) membership.recordRefusal(use, clientNetwork, now)
    })

  return { within, reserveIntrospection, unlessRefused, recordRefusal }
}
