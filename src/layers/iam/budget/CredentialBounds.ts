/**
 * How many calls one credential has in a minute, and which calls count against it. All tokens of one login have the same key
 * (`KnownCredentials.budgetKey`), so they count as one credential. Plain functions; times are monotonic milliseconds.
 */
import { productionId } from "../../../services/Plane.ts"
import type { Counted, Purpose } from "./Purpose.ts"
import { partOf, type Share } from "./Shares.ts"

/** The budget for which the bounds are written; another budget scales them. */
const usualBudget = 110

/** A bound at the usual budget, in proportion to this budget; one call at least. */
export const scaled = (calls: number, callsPerMinute: number): number =>
  Math.max(1, Math.ceil((calls * callsPerMinute) / usualBudget))

/** In a testing plane an actor's id is a reusable login token (identity-service.md 5). */
const usualBoundOf = ({ path, plane }: Counted, use: Purpose["use"]): number => {
  if (path !== "/app-auth/tokens" && path !== "/oauth/revoke") return 30
  return use === "login" && plane !== productionId ? 30 : 8
}

/** Calls a minute of one credential to this path. */
export const boundOf = (counted: Counted, use: Purpose["use"], callsPerMinute: number): number =>
  scaled(usualBoundOf(counted, use), callsPerMinute)

/** A call, as far as it counts against its credential. */
export interface CredentialCall {
  readonly share: Share
  /** Monotonic milliseconds until which it counts against the bound of its key. */
  readonly ownUntil: number
}

const answeredMillis = 60_000
/** Short, so that an outage has no aftermath. */
const unansweredMillis = 15_000

/** The time until which a call that ended now counts against its credential. */
export const countsUntil = (now: number, isAnswered: boolean): number =>
  now + (isAnswered ? answeredMillis : unansweredMillis)

/**
 * Those of the calls of a credential that count against its next call. Against an essential call (a refresh, the introspection that
 * completes it) only essential calls count, so that frequent introspection cannot block a refresh.
 */
export const ownCalls = <Call extends CredentialCall>(
  calls: Iterable<Call>,
  share: Share,
  now: number
): ReadonlyArray<Call> =>
  [...calls].filter((call) => call.ownUntil > now && (share !== "essential" || call.share === "essential"))

/** The time at which a credential that has made all of its calls may make the next; undefined while it has calls left. */
export const boundOpensAt = (
  own: ReadonlyArray<CredentialCall>,
  bound: number,
  now: number
): number | undefined =>
  own.length < bound
    ? undefined
    : own.reduce((earliest, { ownUntil }) => Math.min(earliest, ownUntil), now + answeredMillis)

/** A credential with more calls than this in a minute leaves part of the budget to credentials with fewer. */
const busyAbove = 3
/** The same for an actor, over all logins: many logins with few calls each would leave nothing to other actors. */
const busyActorAbove = 10
const leftPart = 0.2

/** Calls in a minute of the credential, and of its actor. */
export interface RecentCalls {
  readonly own: number
  readonly ofOwner: number
}

export const isBusy = ({ ofOwner, own }: RecentCalls): boolean => own > busyAbove || ofOwner > busyActorAbove

/** Places that a credential with so many calls leaves to others. */
export const leftToOthers = (calls: RecentCalls, budget: number): number =>
  isBusy(calls) ? partOf(budget, leftPart) : 0
