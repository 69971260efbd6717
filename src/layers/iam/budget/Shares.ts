/**
 * The shares of the budget for IAM: which share a call belongs to, and the part of a path's budget that each share may
 * fill. Plain bookkeeping without effects; times are monotonic milliseconds.
 */
import { makeQuota } from "../../../services/Quota.ts"
import { siteOf } from "../../../services/Site.ts"
import { putBounded } from "../BoundedMap.ts"
import type { Purpose } from "./Purpose.ts"

/**
 * Highest priority first.
 * - `essential`: keeps or completes a session (refresh, the introspection after a login or refresh, logout of a known token)
 * - `known`: other calls for a credential that IAM confirmed; logins from an address without a recent refusal
 * - `newcomer`: a credential that this process does not know
 * - `suspect`: the same, from an address whose credentials IAM refused recently
 */
export const shares = ["essential", "known", "newcomer", "suspect"] as const
export type Share = (typeof shares)[number]

/** Part of the budget up to which the calls of a share may fill a path. */
const parts: Readonly<Record<Share, number>> = {
  essential: 1,
  known: 0.85,
  newcomer: 0.5,
  suspect: 0.3
}
/** Newcomers get this part even above their own, so that known credentials cannot shut them out. */
const newcomerFloor = 0.1
/** Suspects never hold more than this part of the budget. */
const suspectCap = 0.08

/** Whole calls in a part of the budget, one at least. */
export const partOf = (budget: number, fraction: number): number => Math.max(1, Math.floor(budget * fraction))

/**
 * Places up to which a call of this share may fill a path. All places that are taken count, of every share: the rest of the
 * budget stays free for the shares above. 0 when suspects hold all that they may.
 *
 * `held`: places that the share itself holds. `leave`: places to leave to other credentials.
 */
export const ceilingOf = (share: Share, budget: number, held: number, leave: number): number => {
  if (share === "suspect" && held >= partOf(budget, suspectCap)) return 0
  const above = share === "newcomer" && held < partOf(budget, newcomerFloor) ? "known" : share
  return Math.max(1, partOf(budget, parts[above]) - leave)
}

/** Places that the calls of a share may hold at most. */
export const placesOf = (share: Share, budget: number): number =>
  partOf(budget, share === "suspect" ? suspectCap : parts[share])

/** The share of the introspection that completes a login or refresh of this share. */
export const completingShare = (share: Share): Share => (share === "known" ? "essential" : share)

/**
 * Distinct credentials of one site that IAM refused; one is forgotten every 50 s. At the quota the site's unknown credentials
 * become `suspect`. Logins and tokens are counted separately, so that an office whose sessions ended can log in.
 */
const refusalsOfNetwork = { name: "suspicion", quota: 6, windowSeconds: 300 }
/** Milliseconds after a refused login for which the logins of its network are `newcomer` instead of `known`. */
const refusedLoginMillis = 300_000
/** Networks whose refused logins are kept. Beyond it the one with the oldest write is removed. */
const capacity = 50_000

export interface Membership {
  /** The share of a call. `isKnown`: whether IAM issued the call's credential, or called it live, through this process. */
  readonly shareOf: (purpose: Purpose, isKnown: boolean, network: string, now: number) => Share
  /** IAM refused a credential of this network that it had not refused before. */
  readonly recordRefusal: (use: Purpose["use"], network: string, now: number) => void
}

/** `countAddresses` is off where a gateway limits: then many clients may share its address. */
export const makeMembership = ({ countAddresses }: { readonly countAddresses: boolean }): Membership => {
  const logins = makeQuota(refusalsOfNetwork)
  const tokens = makeQuota(refusalsOfNetwork)
  const refusedLoginAt = new Map<string, number>()
  const hasRefusedLogin = (network: string, now: number): boolean =>
    now < (refusedLoginAt.get(siteOf(network)) ?? Number.NEGATIVE_INFINITY) + refusedLoginMillis
  const refusalsOf = (use: Purpose["use"]) => (use === "login" ? logins : tokens)

  return {
    shareOf: ({ completing, credential, use }, isKnown, network, now) => {
      if (completing === true) return "essential"
      if (credential === undefined) return "known"
      if (isKnown) return use === undefined ? "known" : "essential"
      const refused = refusalsOf(use).used(siteOf(network), now)
      if (refused >= refusalsOfNetwork.quota) return "suspect"
      return use === "login" && !hasRefusedLogin(network, now) ? "known" : "newcomer"
    },
    recordRefusal: (use, network, now) => {
      if (!countAddresses) return
      refusalsOf(use).take(siteOf(network), now)
      if (use === "login") putBounded(refusedLoginAt, siteOf(network), now, capacity)
    }
  }
}
