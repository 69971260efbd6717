/**
 * The budget of calls to IAM (docs/api.md, "The budget for IAM"). Every call declares its purpose. A call beyond the budget
 * is refused here with 429, before IAM blocks the whole application. The rules are in the files beside this one; here they
 * are applied in front of every call.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import { bracket } from "../../../services/Bracket.ts"
import { clockOf, monotonicNow, requestOf } from "../../../services/FiberContext.ts"
import { iamCallsRefused, recordNow } from "../../../services/Metrics.ts"
import { unsafeMonotonicMillis } from "../../../services/MonotonicTime.ts"
import { type Plane, planeId } from "../../../services/Plane.ts"
import { Refused, type UpstreamFailure } from "../../../services/UpstreamFailure.ts"
import { type Admission, type CallWindows, type Claim, makeCallWindows } from "./CallWindows.ts"
import { boundOf } from "./CredentialBounds.ts"
import type { KnownCredentials } from "./KnownCredentials.ts"
import { makeNetworkAndActorQuotas } from "./NetworkAndActorQuotas.ts"
import type { Place } from "./Places.ts"
import { type Counted, introspectPath, type Purpose } from "./Purpose.ts"
import type { Refusal, RefusedCredentials } from "./RefusedCredentials.ts"
import { completingShare, makeMembership, type Share, shares } from "./Shares.ts"

/** The code of a refusal by the budget; the call did not reach IAM. */
const overBudget = "over_budget"

/** What an admitted call holds. */
interface Taken {
  readonly window: string
  readonly place: Place
  /** Undoes its use of a quota of its network or actor. */
  readonly giveBack: () => void
}

/** Plain code at both ends of a call; `now` in monotonic milliseconds. */
export type CallObserver = (now: number) => (exit: Exit.Exit<unknown, UpstreamFailure>) => void

export interface IamBudget extends Pick<CallWindows, "taken" | "occupy"> {
  /**
   * Runs the call, or fails with 429 and the seconds after which there is a place for its credential. `observe` is called
   * when the call begins, and what it returns when the call ends; not for a call that is refused here.
   */
  readonly within: (
    counted: Counted,
    purpose: Purpose,
    observe?: CallObserver
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
  const quotas = makeNetworkAndActorQuotas(options, known)
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
    { network, now }: { readonly network: string; readonly now: number },
    window: string,
    counted: Counted,
    purpose: Purpose,
    place: Place | undefined,
    adjust: (share: Share) => Share = identity
  ): Either.Either<Taken, Refused> => {
    const completing = purpose.completing === true || place !== undefined
    const claim: Claim = {
      window,
      share: adjust(membership.shareOf({ ...purpose, completing }, isKnown(purpose), network, now)),
      key: purpose.credential === undefined ? undefined : known.budgetKey(purpose.credential),
      owner: purpose.credential === undefined ? undefined : known.ownerOf(purpose.credential),
      bound: boundOf(counted, purpose.use, options.callsPerMinute),
      promise: isKnown(purpose),
      turnOf: isKnown(purpose) ? undefined : options.countAddresses ? network : "",
      place
    }
    const quota = quotas.take(counted, purpose, network, now)
    const admission: Admission =
      quota.retryAfterSeconds > 0
        ? { _tag: "Refused", retryAfterSeconds: quota.retryAfterSeconds }
        : windows.admit(claim, now)
    if (admission._tag === "Admitted")
      return Either.right({ window, place: admission.place, giveBack: quota.giveBack })
    quota.giveBack()
    recordNow(iamCallsRefused({ priority: claim.share }), 1)
    const { retryAfterSeconds } = admission
    return Either.left(new Refused({ dependency: "iam", status: 429, code: overBudget, retryAfterSeconds }))
  }

  const settle = (
    { giveBack, place, window }: Taken,
    exit: Exit.Exit<unknown, UpstreamFailure>,
    now: number
  ): void => {
    const failure = Exit.isSuccess(exit) ? undefined : Option.getOrUndefined(Cause.failureOption(exit.cause))
    // The call did not reach IAM, so IAM did not count it.
    if (failure?._tag === "NotExecuted") {
      windows.cancel(window, place)
      giveBack()
      return
    }
    windows.release(place, now, failure?._tag !== "Unknown")
    if (Exit.isSuccess(exit)) windows.unblock(window, place)
    else if (failure?._tag === "Refused" && failure.status === 429)
      windows.block(window, failure.retryAfterSeconds ?? 1, now)
  }

  const within: IamBudget["within"] = (counted, purpose, observe) => (call) =>
    bracket(
      (fiber) => {
        const clock = clockOf(fiber)
        const now = unsafeMonotonicMillis(clock)
        // Read once: the credential may become known during the call.
        const window = windowOf(counted, purpose)
        const place = reservedPlace(counted, purpose)
        return Either.map(
          take({ network: requestOf(fiber).clientNetwork, now }, window, counted, purpose, place),
          (taken) => ({ clock, taken, end: observe?.(now) })
        )
      },
      () => call,
      ({ clock, end, taken }, exit) => {
        settle(taken, exit, unsafeMonotonicMillis(clock))
        end?.(exit)
      }
    )

  const reserveIntrospection: IamBudget["reserveIntrospection"] = (plane, purpose, spend) => {
    const introspection: Counted = { plane: planeId(plane), path: introspectPath }
    return bracket(
      (fiber) => {
        const clock = clockOf(fiber)
        const window = windowOf(introspection, purpose)
        const caller = { network: requestOf(fiber).clientNetwork, now: unsafeMonotonicMillis(clock) }
        return Either.map(
          take(caller, window, introspection, purpose, undefined, completingShare),
          ({ place }) => ({ clock, window, place })
        )
      },
      ({ place }) => spend(place),
      ({ clock, place, window }, exit) =>
        Exit.isSuccess(exit)
          ? windows.reserve(place, unsafeMonotonicMillis(clock))
          : windows.cancel(window, place)
    )
  }

  const unlessRefused: IamBudget["unlessRefused"] =
    <A, E>(credential: string, repeated: Effect.Effect<A, E>) =>
    <B, E2>(call: Effect.Effect<B, E2>) =>
      Effect.withFiberRuntime<A | B, E | E2>(
        (fiber): Effect.Effect<A | B, E | E2> =>
          refused.isRefused(credential, monotonicNow(fiber)) ? repeated : call
      )

  const recordRefusal: IamBudget["recordRefusal"] = (credential, refusal, use) =>
    Effect.withFiberRuntime((fiber) => {
      const now = monotonicNow(fiber)
      if (refusal === "this_call") known.forget(credential)
      else known.end(credential)
      // One dead credential that is repeated does not make its network suspect.
      if (refused.record(credential, refusal, now))
        membership.recordRefusal(use, requestOf(fiber).clientNetwork, now)
      return Effect.void
    })

  const { occupy, taken } = windows
  return { within, reserveIntrospection, unlessRefused, recordRefusal, occupy, taken }
}
