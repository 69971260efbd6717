/**
 * The credentials that this process knows, as digests, in bounded memory: those that IAM issued or called live through it.
 * It caches no answers and never grants access. It also keeps which tokens belong to one login, and which of them an
 * introspection has not confirmed yet.
 */
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { digestOf } from "../../../services/Digest.ts"
import type { TokenGrant } from "../../../services/Iam.ts"
import { type Plane, planeId } from "../../../services/Plane.ts"
import { sessionDigest, type StoredLogin } from "../../../services/Store.ts"
import { putBounded } from "../BoundedMap.ts"
import type { Place } from "./Places.ts"
import type { RefusedCredentials } from "./RefusedCredentials.ts"

/** Credentials that are kept. Beyond it the one with the oldest write is removed. */
const capacity = 20_000

/** The tokens of one login. Its name is the same after a restart and at other instances. */
interface Family {
  readonly name: string
  owner: string | undefined
}

interface Known {
  readonly family: Family | undefined
  /** The actor of a token of unknown family, which IAM issued through another process. */
  readonly owner?: string | undefined
  /** The time at which IAM gave it to this process for the first time; undefined for one that a call ended, or of unknown age. */
  readonly receivedAt?: number | undefined
  /** The place reserved for the introspection that completes the login or refresh, until that succeeds. */
  readonly reserved?: Place
}

/** Identifies a token in its plane. */
export const tokenKey = (plane: Plane, token: Redacted.Redacted): string =>
  `${planeId(plane)} ${digestOf(token)}`

/** Identifies a testing secret. */
export const secretKey = (secret: Redacted.Redacted): string => `secret ${digestOf(secret)}`

export interface KnownCredentials {
  readonly isKnown: (key: string) => boolean
  /** IAM called it live. `owner` is its actor, if disclosed. True when its login gets this actor by it. */
  readonly markLive: (key: string, owner?: string) => boolean
  /**
   * IAM issued or replayed a pair of tokens. `place` is reserved for the introspection that completes the login or refresh.
   * `owner` is the actor, where the grant names it.
   */
  readonly recordGrant: (
    plane: Plane,
    grant: TokenGrant,
    presented: Option.Option<Redacted.Redacted>,
    place: Place,
    now: number,
    owner?: string
  ) => void
  /** The store knows it as a token of this login. */
  readonly restore: (key: string, login: StoredLogin) => void
  /** The login of a token that IAM issued; undefined for any other. */
  readonly loginOf: (key: string) => StoredLogin | undefined
  /** The place reserved for the introspection that completes a login or refresh; none for any other token. */
  readonly completingPlace: (key: string) => Option.Option<Place>
  /** When this process first received a token whose login or refresh is not complete; undefined for any other, and for an ended one. */
  readonly receivedAt: (key: string) => number | undefined
  /** It is no longer known. */
  readonly forget: (key: string) => void
  /** It ended, and is no longer known. A replay of its pair does not count as just received. */
  readonly end: (key: string) => void
  /** The same for all tokens of one login, however often they rotate, so that their calls share a bound. */
  readonly budgetKey: (key: string) => string
  /** The actor of a token, the same for all of the actor's logins; undefined until an introspection discloses it. */
  readonly ownerOf: (key: string) => string | undefined
  /**
   * Matches the access tokens that may end with a refresh token: those of its family, and those of unknown family in its
   * plane, because IAM does not name the tokens that it ends.
   */
  readonly inFamilyOf: (plane: Plane, refreshToken: Redacted.Redacted) => (key: string) => boolean
  /** The family ended: none of the matching tokens counts as just received. */
  readonly endFamily: (matches: (key: string) => boolean) => void
}

/** What IAM issues or accepts is no longer in `refused`. */
export const makeKnownCredentials = (refused: Pick<RefusedCredentials, "clear">): KnownCredentials => {
  // Apart from the refused ones, so that a flood of unknown tokens evicts no known one.
  const known = new Map<string, Known>()
  const ended = new Map<string, true>()

  const put = (key: string, value: Known): void => putBounded(known, key, value, capacity)

  const recordGrant: KnownCredentials["recordGrant"] = (plane, grant, presented, place, now, owner) => {
    const before = Option.getOrUndefined(Option.map(presented, (token) => tokenKey(plane, token)))
    const access = tokenKey(plane, grant.accessToken)
    const refresh = tokenKey(plane, grant.refreshToken)
    // A replayed login stays in the family of its first response.
    const family = known.get(before ?? access)?.family ??
      known.get(access)?.family ?? { name: sessionDigest(before ?? refresh), owner: undefined }
    family.owner ??= owner
    if (before !== undefined) {
      put(before, { family })
      refused.clear(before)
    }
    put(refresh, { family })
    // IAM also replays a pair that has ended. It does not say when it issued the pair.
    const earlier = known.get(access)
    const first = ended.has(access) || ended.has(refresh) ? undefined : now
    const receivedAt = earlier?.family === undefined ? first : earlier.receivedAt
    put(access, { family, receivedAt, reserved: place })
    for (const key of [access, refresh]) refused.clear(key)
  }

  return {
    isKnown: (key) => known.has(key),
    markLive: (key, owner) => {
      const { family, receivedAt } = known.get(key) ?? {}
      const isNew = family !== undefined && owner !== undefined && family.owner !== owner
      if (isNew) family.owner = owner
      put(key, { family, receivedAt, owner })
      return isNew
    },
    recordGrant,
    restore: (key, { actor, login }) => put(key, { family: { name: login, owner: actor } }),
    loginOf: (key) => {
      const { family } = known.get(key) ?? {}
      return family && { login: family.name, actor: family.owner }
    },
    completingPlace: (key) => Option.fromNullable(known.get(key)?.reserved),
    receivedAt: (key) => {
      const { receivedAt, reserved } = known.get(key) ?? {}
      return reserved === undefined ? undefined : receivedAt
    },
    forget: (key) => void known.delete(key),
    end: (key) => {
      known.delete(key)
      putBounded(ended, key, true, capacity)
    },
    budgetKey: (key) => known.get(key)?.family?.name ?? key,
    ownerOf: (key) => {
      const { family, owner } = known.get(key) ?? {}
      return family === undefined ? owner : family.owner
    },
    inFamilyOf: (plane, refreshToken) => {
      const family = known.get(tokenKey(plane, refreshToken))?.family?.name
      const within = `${planeId(plane)} `
      return (key) => {
        const own = known.get(key)?.family?.name
        return key.startsWith(within) && (own === undefined || own === family)
      }
    },
    endFamily: (matches) => {
      for (const [key, { family, receivedAt }] of known)
        if (receivedAt !== undefined && matches(key)) known.set(key, { family })
    }
  }
}
