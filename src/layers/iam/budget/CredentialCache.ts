/**
 * What this process saw IAM say about credentials, as digests, in bounded memory. It never grants access: every live
 * answer comes from IAM. It separates known credentials from strangers' ones, and repeats recent refusals.
 */
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { digestOf } from "../../../services/Digest.ts"
import type { TokenGrant } from "../../../services/Iam.ts"
import { type Plane, planeId } from "../../../services/Plane.ts"
import type { Place } from "./CallWindows.ts"

/** Entries of either kind; beyond it the one that was written longest ago is forgotten. */
const capacity = 20_000

/**
 * Milliseconds for which a refusal is repeated without asking. An inactive access token or a testing secret may come
 * back to life (a suspension that ends); a refused refresh token never does (identity-service.md 5).
 */
export const refusalMillis = { access: 30_000, refresh: 600_000, secret: 30_000 } as const

/** Milliseconds: IAM knows for certain what it issued that lately, so an inactive answer is a fault of its own. */
const issuedLately = 60_000

/** The tokens of one login, as far as they came through this process. */
interface Family {
  readonly name: string
  owner: string | undefined
}

interface Known {
  readonly family: Family | undefined
  /** The look that completes the login or refresh has not succeeded yet, and its place is kept. */
  readonly unseen?: { readonly issuedAt: number | undefined; readonly look: Place }
}

/** Names a token in its plane. */
export const tokenKey = (plane: Plane, token: Redacted.Redacted): string =>
  `${planeId(plane)} ${digestOf(token)}`

/** Names a testing secret. */
export const secretKey = (secret: Redacted.Redacted): string => `secret ${digestOf(secret)}`

export interface CredentialCache {
  readonly isKnown: (key: string) => boolean
  /** IAM called it live, and named its owner where that is disclosed. */
  readonly vouch: (key: string, owner?: string) => void
  /** A pair that IAM issued. `look` is the place that is kept for the look which completes it. */
  readonly issued: (
    plane: Plane,
    grant: TokenGrant,
    presented: Option.Option<Redacted.Redacted>,
    look: Place,
    now: number
  ) => void
  /** The place for the look that completes a login or refresh; none for any other token. */
  readonly completingLook: (key: string) => Option.Option<Place>
  /** IAM issued it moments ago, and it was neither seen live nor ended since. */
  readonly isJustIssued: (key: string, now: number) => boolean
  /** IAM refused it: answers the same for `millis`. True when this was not known before. */
  readonly refuse: (key: string, millis: number, now: number) => boolean
  readonly isRefused: (key: string, now: number) => boolean
  /** It is no longer known, and no longer just issued. */
  readonly forget: (key: string) => void
  /** Counts the calls of one login together, however often its tokens rotate. */
  readonly budgetKey: (key: string) => string
  /** The actor behind a login, across all of their logins; none before a look named it. */
  readonly ownerOf: (key: string) => string | undefined
  /**
   * Which access tokens may have ended with a refresh token: those of its family, and those of an unknown family in its
   * plane. IAM does not name them.
   */
  readonly kinOf: (plane: Plane, refreshToken: Redacted.Redacted) => (key: string) => boolean
  /** The family ended: none of its tokens is just issued any more. */
  readonly end: (isKin: (key: string) => boolean) => void
}

const put = <A>(map: Map<string, A>, key: string, value: A): void => {
  map.delete(key)
  map.set(key, value)
  for (const oldest of map.keys()) {
    if (map.size <= capacity) break
    map.delete(oldest)
  }
}

export const makeCredentialCache = (): CredentialCache => {
  // Apart, so that a flood of strangers' tokens drives out none that is known.
  const known = new Map<string, Known>()
  const refusedUntil = new Map<string, number>()
  let families = 0

  const issued: CredentialCache["issued"] = (plane, grant, presented, look, now) => {
    const before = Option.getOrUndefined(Option.map(presented, (token) => tokenKey(plane, token)))
    const access = tokenKey(plane, grant.accessToken)
    const refresh = tokenKey(plane, grant.refreshToken)
    // A replayed login stays in the family that its first answer began.
    const family = known.get(before ?? access)?.family ??
      known.get(access)?.family ?? { name: `family ${++families}`, owner: undefined }
    if (before !== undefined) {
      put(known, before, { family })
      refusedUntil.delete(before)
    }
    put(known, refresh, { family })
    // A replay may tell of a pair that has ended since.
    const issuedAt = grant.replayed ? known.get(access)?.unseen?.issuedAt : now
    put(known, access, { family, unseen: { issuedAt, look } })
    for (const key of [access, refresh]) refusedUntil.delete(key)
  }

  const settle = (key: string): void => {
    const { family, unseen } = known.get(key) ?? {}
    if (unseen !== undefined) known.set(key, { family })
  }

  return {
    isKnown: (key) => known.has(key),
    vouch: (key, owner) => {
      const family = known.get(key)?.family
      if (family !== undefined) family.owner = owner
      put(known, key, { family })
    },
    issued,
    completingLook: (key) => Option.fromNullable(known.get(key)?.unseen?.look),
    isJustIssued: (key, now) => {
      const issuedAt = known.get(key)?.unseen?.issuedAt
      return issuedAt !== undefined && now < issuedAt + issuedLately
    },
    refuse: (key, millis, now) => {
      const first = !refusedUntil.has(key)
      known.delete(key)
      put(refusedUntil, key, now + millis)
      return first
    },
    isRefused: (key, now) => (refusedUntil.get(key) ?? now) > now,
    forget: (key) => void known.delete(key),
    budgetKey: (key) => known.get(key)?.family?.name ?? key,
    ownerOf: (key) => known.get(key)?.family?.owner,
    kinOf: (plane, refreshToken) => {
      const family = known.get(tokenKey(plane, refreshToken))?.family
      const within = `${planeId(plane)} `
      return (key) => {
        const own = known.get(key)?.family
        return key.startsWith(within) && (own === undefined || own === family)
      }
    },
    end: (isKin) => {
      for (const [key, { unseen }] of known) if (unseen !== undefined && isKin(key)) settle(key)
    }
  }
}
