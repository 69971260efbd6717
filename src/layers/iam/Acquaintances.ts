/**
 * Which credentials IAM vouched for, and which access tokens it called dead: what this process saw, in bounded memory, as
 * digests. Nobody is let in by it. It saves calls, and says who need not stand in line with strangers.
 */
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { digestOf } from "../../services/Digest.ts"
import type { TokenGrant } from "../../services/Iam.ts"
import { type Plane, planeId } from "../../services/Plane.ts"

/** Of either kind: beyond it the one that was told longest ago is forgotten. */
const capacity = 20_000

/**
 * For so long a token that IAM called inactive is not asked about again. It hardly ever comes back to life (a suspended
 * application or person can, identity-service.md 6), and then a daemon that polls with it is let in this much later.
 */
const deadMillis = 30_000

/** The tokens of one login, as far as they came through here. Compared by identity. */
type Family = object

/** Of one token in one plane. */
export const tokenKey = (plane: Plane, token: Redacted.Redacted): string =>
  `${planeId(plane)} ${digestOf(token)}`

export interface Acquaintances {
  readonly vouch: (key: string) => void
  readonly isVouched: (key: string) => boolean
  /** A pair that IAM issued, for an SLT or for another refresh token. */
  readonly granted: (plane: Plane, grant: TokenGrant, presented: Option.Option<Redacted.Redacted>) => void
  readonly refused: (key: string) => void
  /** An access token; see `deadMillis`. */
  readonly died: (key: string, now: number) => void
  readonly isDead: (key: string, now: number) => boolean
  /**
   * Which access tokens may have ended with this refresh token: those of its family, and those of which nobody here knows
   * the family, in its plane. IAM does not name them.
   */
  readonly kinOf: (plane: Plane, refreshToken: Redacted.Redacted) => (key: string) => boolean
}

const put = <A>(map: Map<string, A>, key: string, value: A): void => {
  map.delete(key)
  map.set(key, value)
  for (const oldest of map.keys()) {
    if (map.size <= capacity) break
    map.delete(oldest)
  }
}

export const makeAcquaintances = (): Acquaintances => {
  // Apart, so that a flood of strangers' tokens drives nobody out who is known.
  const good = new Map<string, Family | undefined>()
  const deadUntil = new Map<string, number>()
  return {
    vouch: (key) => put(good, key, good.get(key)),
    isVouched: (key) => good.has(key),
    granted: (plane, grant, presented) => {
      const before = Option.map(presented, (token) => tokenKey(plane, token))
      const family: Family = Option.getOrUndefined(Option.map(before, (key) => good.get(key))) ?? {}
      for (const key of [
        ...Option.toArray(before),
        tokenKey(plane, grant.accessToken),
        tokenKey(plane, grant.refreshToken)
      ]) {
        put(good, key, family)
        deadUntil.delete(key)
      }
    },
    refused: (key) => void good.delete(key),
    died: (key, now) => {
      good.delete(key)
      put(deadUntil, key, now + deadMillis)
    },
    isDead: (key, now) => (deadUntil.get(key) ?? now) > now,
    kinOf: (plane, refreshToken) => {
      const family = good.get(tokenKey(plane, refreshToken))
      const within = `${planeId(plane)} `
      return (key) => {
        const own = good.get(key)
        return key.startsWith(within) && (own === undefined || own === family)
      }
    }
  }
}
