/**
 * The budget of calls to IAM (docs/limits.md, "The budget for IAM"). IAM allows the application 120 calls in 60 s for each plane and path,
 * and blocks every caller beyond that (identity-service.md 1). A call takes a place in the window of its plane and path when it begins,
 * and the place is free again 60 s after the answer, so that no 60 s of IAM's clock contain more calls than the budget.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import { constTrue } from "effect/Function"
import * as Option from "effect/Option"
import { putBounded } from "../../services/BoundedMap.ts"
import { iamCallsRefused, recordNow } from "../../services/Metrics.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import type { PlaneId } from "../../services/Plane.ts"
import { makeQuota } from "../../services/Quota.ts"
import { RequestContext } from "../../services/RequestContext.ts"
import { siteOf } from "../../services/Site.ts"
import { Refused, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import type { Credentials } from "./Credentials.ts"
import {
  type CallClass,
  callClasses,
  type Claim,
  makeWindow,
  type Place,
  turnGrace,
  type Window
} from "./Window.ts"

/** Below `/api/v1`. */
export type IamPath =
  | "/app-auth/tokens"
  | "/oauth/introspect"
  | "/oauth/revoke"
  | "/obo-access/exchanges"
  | "/application/testing-context"
  | `/obo-access/applications/${string}/endpoints`

export const introspectPath: IamPath = "/oauth/introspect"

/** What IAM counts together. The plane of a testing secret is undefined until IAM resolves it. */
export interface Counted {
  readonly plane: PlaneId | undefined
  readonly path: IamPath
}

export interface Purpose {
  /** The key of the credential (`Credentials`); none for the application's own calls. */
  readonly credential?: string
  /** `login` exchanges an SLT; the others present a token of the session. */
  readonly use?: "login" | "refresh" | "logout"
}

/** A place that is taken, by the name of its window, with the milliseconds until it is free at the latest. */
export interface TakenPlace {
  readonly window: string
  readonly millis: number
}

/** A credential that was refused for lack of a place: since when, when it may come back, and until when it is in time. */
interface Wait {
  readonly since: number
  readonly at: number
  readonly until: number
}

interface Held {
  readonly window: Window
  readonly place: Place
}

export interface Budget {
  /**
   * Runs the call, or fails with 429 and the seconds after which it finds a place. `accepts`: whether an answer shows that IAM accepts the
   * credential.
   */
  readonly within: <A>(
    counted: Counted,
    purpose: Purpose,
    accepts?: (answer: A) => boolean
  ) => (call: Effect.Effect<A, UpstreamFailure>) => Effect.Effect<A, UpstreamFailure>
  /**
   * The same for an exchange. The place of the introspection that completes it is taken with its own, is kept for 60 s after a success,
   * and is given back after a failure.
   */
  readonly withinExchange: <A>(
    counted: Counted,
    purpose: Purpose,
    call: (kept: Place | undefined) => Effect.Effect<A, UpstreamFailure>
  ) => Effect.Effect<A, UpstreamFailure>
  /** IAM refused a login of the current request. */
  readonly recordRefusedLogin: Effect.Effect<void>
  readonly taken: (now: number) => ReadonlyArray<TakenPlace>
  /** Takes places for calls that another process made. */
  readonly occupy: (calls: ReadonlyArray<TakenPlace>, now: number) => void
}

const minute = 60_000
/** Milliseconds after a refused login in which the logins of its network are newcomers. */
const refusedLoginMillis = 300_000
/** Entries of a map that callers fill. */
const capacity = 20_000
/** Milliseconds from the first refusal of a credential that is not vouched for in which it waits: then a short-lived token has ended. */
const longestWait = 120_000
/** Milliseconds after which a credential without a turn may come back. More than 15 of one address in a second come later. */
const retryMillis = 5_000
const retryGrace = 2_000
const retriesOfAddress = { name: "retries", quota: 900, windowSeconds: 60 }

const refuse = (millis: number): Refused =>
  new Refused({
    dependency: "iam",
    status: 429,
    code: "over_budget",
    retryAfterSeconds: Math.max(1, Math.ceil(millis / 1_000))
  })

export const makeBudget = (
  options: {
    readonly callsPerMinute: number
    /** Off where a gateway limits: then many clients may share its address. */
    readonly countAddresses: boolean
  },
  credentials: Pick<Credentials, "isVouched" | "loginOf" | "actorOf" | "keptPlace">
): Budget => {
  const windows = new Map<string, Window>()
  const refusedLogins = new Map<string, number>()
  const retries = makeQuota(retriesOfAddress)
  /** Those that are vouched for apart, so that a flood of other ones evicts none of them. */
  const waits = { vouched: new Map<string, Wait>(), other: new Map<string, Wait>() }
  // Creates the series, so that the first refusal shows as an increase.
  for (const priority of callClasses) recordNow(iamCallsRefused({ priority }), 0)

  const open = (name: string, now: number): Window => {
    const found = windows.get(name)
    if (found !== undefined) return found
    // Testing planes come and go.
    for (const [other, window] of windows) if (window.isIdle(now)) windows.delete(other)
    const window = makeWindow(options.callsPerMinute)
    windows.set(name, window)
    return window
  }

  /** A vouched testing secret has the window of its plane; all others share one. */
  const windowOf = ({ path, plane }: Counted, { isVouched, key }: Claim): string =>
    `${plane ?? (isVouched ? key : "unresolved")} ${path}`

  const classOf = (
    { credential, use }: Purpose,
    isVouched: boolean,
    network: string,
    now: number
  ): CallClass => {
    if (credential === undefined) return "known"
    if (isVouched) return use === undefined ? "known" : "essential"
    const refusedAt = refusedLogins.get(siteOf(network)) ?? Number.NEGATIVE_INFINITY
    return use === "login" && now >= refusedAt + refusedLoginMillis ? "known" : "newcomer"
  }

  const sinceOf = (key: string, isVouched: boolean, now: number): number => {
    const wait = waits[isVouched ? "vouched" : "other"].get(key)
    const isWaiting = wait !== undefined && now <= wait.until && (isVouched || now < wait.since + longestWait)
    return isWaiting ? wait.since + Math.max(0, now - wait.at) : now
  }

  const claimOf = (purpose: Purpose, network: string, now: number): Claim => {
    const { credential: key, use } = purpose
    const isVouched = key !== undefined && credentials.isVouched(key)
    return {
      callClass: classOf(purpose, isVouched, network, now),
      key,
      login: key === undefined ? undefined : credentials.loginOf(key),
      actor: key === undefined ? undefined : credentials.actorOf(key),
      address: options.countAddresses ? network : "",
      isVouched,
      use,
      since: key === undefined ? now : sinceOf(key, isVouched, now)
    }
  }

  /** When a call that lacks a place until `at` may come back. */
  const wait = (window: Window, claim: Claim, at: number, now: number): number => {
    const { address, isVouched, key, since } = claim
    if (key === undefined) return Math.min(at, now + minute)
    const turnAt = window.turnOf(key) ?? 0
    if (turnAt > now) return turnAt
    const hasTurn = (isVouched || at < since + longestWait) && window.takeTurn(claim, at, now)
    const { policy, remaining } = retries.take(address, now)
    const seconds = ((policy.quota - remaining) * policy.windowSeconds) / policy.quota
    const next = hasTurn ? at : now + Math.max(retryMillis, 1_000 * Math.ceil(seconds))
    putBounded(
      waits[isVouched ? "vouched" : "other"],
      key,
      { since, at: next, until: next + (hasTurn ? turnGrace : retryGrace) },
      capacity
    )
    return next
  }

  const refuseCounted = (callClass: CallClass, millis: number): Either.Either<never, Refused> => {
    recordNow(iamCallsRefused({ priority: callClass }), 1)
    return Either.left(refuse(millis))
  }

  /** Takes a place in each of the windows, or in none. */
  const take = (
    counted: ReadonlyArray<Counted>,
    purpose: Purpose,
    network: string,
    now: number
  ): Either.Either<ReadonlyArray<Held>, Refused> => {
    const claim = claimOf(purpose, network, now)
    const names = counted.map((one) => windowOf(one, claim))
    for (const name of names) {
      const window = open(name, now)
      const delay = window.delayOf(claim, now)
      if (delay === undefined) continue
      const at = delay.lacksPlace ? wait(window, claim, delay.at, now) : delay.at
      return refuseCounted(claim.callClass, at - now)
    }
    return Either.right(
      names.map((name) => {
        const window = open(name, now)
        return { window, place: window.begin(claim, now) }
      })
    )
  }

  /** The place that is kept for this call, or one of its own. */
  const takeOne = (counted: Counted, purpose: Purpose, network: string, now: number) => {
    const kept = purpose.credential === undefined ? undefined : credentials.keptPlace(purpose.credential)
    if (kept === undefined || counted.path !== introspectPath) return take([counted], purpose, network, now)
    const window = open(windowOf(counted, kept.claim), now)
    const begun = window.beginKept(kept, now)
    if (begun === undefined) return take([counted], purpose, network, now)
    if ("lacksPlace" in begun) return refuseCounted(kept.claim.callClass, begun.at - now)
    return Either.right([{ window, place: begun }])
  }

  const settle = <A>(
    { place, window }: Held,
    exit: Exit.Exit<A, UpstreamFailure>,
    now: number,
    accepts: (answer: A) => boolean
  ): void => {
    const failure = Exit.isSuccess(exit) ? undefined : Option.getOrUndefined(Cause.failureOption(exit.cause))
    // The call did not reach IAM, so IAM did not count it.
    if (failure?._tag === "NotExecuted") {
      window.cancel(place)
      return
    }
    const isAccepted = Exit.isSuccess(exit) && accepts(exit.value)
    window.end(place, now, isAccepted ? "accepted" : failure?._tag === "Unknown" ? "unanswered" : "refused")
    if (place.claim.key !== undefined)
      for (const each of [waits.vouched, waits.other]) each.delete(place.claim.key)
    if (Exit.isSuccess(exit)) window.unblock(place.startedAt)
    else if (failure?._tag === "Refused" && failure.status === 429)
      window.block(failure.retryAfterSeconds ?? 1, now)
  }

  /** Around a call: takes its places, and gives them back at its end. */
  const holding = <A>(
    acquire: (network: string, now: number) => Either.Either<ReadonlyArray<Held>, Refused>,
    call: (held: ReadonlyArray<Held>) => Effect.Effect<A, UpstreamFailure>,
    end: (held: ReadonlyArray<Held>, exit: Exit.Exit<A, UpstreamFailure>, now: number) => void
  ): Effect.Effect<A, UpstreamFailure> =>
    Effect.clockWith((clock) =>
      Effect.acquireUseRelease(
        Effect.flatMap(RequestContext, ({ clientNetwork }) =>
          acquire(clientNetwork, unsafeMonotonicMillis(clock))
        ),
        call,
        (held, exit) => Effect.sync(() => end(held, exit, unsafeMonotonicMillis(clock)))
      )
    )

  return {
    within:
      (counted, purpose, accepts = constTrue) =>
      (call) =>
        holding(
          (network, now) => takeOne(counted, purpose, network, now),
          () => call,
          (all, exit, now) => {
            for (const held of all) settle(held, exit, now, accepts)
          }
        ),
    withinExchange: (counted, purpose, call) =>
      holding(
        (network, now) => take([counted, { ...counted, path: introspectPath }], purpose, network, now),
        ([, kept]) => call(kept?.place),
        ([held, kept], exit, now) => {
          if (held !== undefined) settle(held, exit, now, constTrue)
          if (Exit.isSuccess(exit)) kept?.window.keep(kept.place, now)
          else kept?.window.cancel(kept.place)
        }
      ),
    recordRefusedLogin: Effect.clockWith((clock) =>
      Effect.map(RequestContext, ({ clientNetwork }) => {
        if (options.countAddresses)
          putBounded(refusedLogins, siteOf(clientNetwork), unsafeMonotonicMillis(clock), capacity)
      })
    ),
    taken: (now) =>
      [...windows].flatMap(([window, { freeTimes }]) =>
        freeTimes(now).map((freeAt) => ({ window, millis: Math.min(freeAt - now, minute) }))
      ),
    occupy: (calls, now) => {
      for (const { millis, window } of calls) open(window, now).occupy(now + millis)
    }
  }
}
