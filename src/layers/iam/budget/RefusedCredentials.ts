/**
 * The credentials that IAM refused recently, as digests, in bounded memory. Such a credential is refused again without a
 * call, and before any limit of the budget (`IamBudget.unlessRefused`).
 */
import { putBounded } from "../BoundedMap.ts"

/** Refusals that are kept. Beyond it the one with the oldest write is removed. */
const capacity = 20_000

/**
 * Milliseconds for which a refusal is repeated without a call. An inactive access token or a bad testing secret may become
 * active again (a suspension that ends). A dead refresh token never does (identity-service.md 5). A refusal that is about
 * one call only, as of an SLT, is not repeated.
 */
const refusalMillis = {
  inactive_access_token: 30_000,
  bad_testing_secret: 30_000,
  dead_refresh_token: 600_000,
  this_call: 0
} as const

/** What IAM refused. */
export type Refusal = keyof typeof refusalMillis

export interface RefusedCredentials {
  /** True for the first refusal of this credential. `now` is monotonic milliseconds. */
  readonly record: (key: string, refusal: Refusal, now: number) => boolean
  /** Whether IAM's refusal is still repeated. */
  readonly isRefused: (key: string, now: number) => boolean
  /** IAM issued or accepted the credential. */
  readonly clear: (key: string) => void
}

export const makeRefusedCredentials = (): RefusedCredentials => {
  const refusedUntil = new Map<string, number>()
  return {
    record: (key, refusal, now) => {
      const first = !refusedUntil.has(key)
      putBounded(refusedUntil, key, now + refusalMillis[refusal], capacity)
      return first
    },
    isRefused: (key, now) => (refusedUntil.get(key) ?? now) > now,
    clear: (key) => void refusedUntil.delete(key)
  }
}
