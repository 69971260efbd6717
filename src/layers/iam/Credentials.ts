/**
 * The credentials that this service vouches for, as digests in bounded memory: those that it handed out, by memory or by the digests in
 * the store, and those that IAM confirmed. They only rank calls in the budget for IAM, and never grant access. Beside them those that IAM
 * refused, which are refused again without a call.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { putBounded } from "../../services/combinators/BoundedMap.ts"
import { digestOf } from "../../services/Digest.ts"
import type { TokenGrant } from "../../services/Iam.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import {
  actorDigest,
  type SessionDigests,
  sessionDigest,
  type Stored,
  type StoredToken
} from "../../services/Store.ts"

/** Identifies a token in its plane. */
export const tokenKey = (plane: Plane, token: Redacted.Redacted): string =>
  `${planeId(plane)} ${digestOf(token)}`

/** Identifies a testing secret. */
export const secretKey = (secret: Redacted.Redacted): string => `secret ${digestOf(secret)}`

/** Credentials of each kind that are kept. Beyond it the one with the oldest write is removed. */
const capacity = 20_000
/** For which an answer waits for the store. */
const longestStoreWait = Duration.millis(50)
/** Of the connections of this process to Postgres, ten by default. */
const lookUpsAtOnce = 4
const writesAtOnce = 2

/** IAM does not say when a refresh token ends. */
const refreshTokenLife = Duration.days(30)
/** As long as IAM replays a refresh (identity-service.md 5). */
const replayTime = Duration.minutes(10)

/**
 * For which a refusal is repeated without a call. An inactive access token or a bad testing secret may become active again (a suspension
 * that ends). A dead refresh token never does (identity-service.md 5).
 */
const refusalTimes = {
  access: Duration.seconds(30),
  secret: Duration.seconds(30),
  refresh: Duration.minutes(10)
}
type Kind = keyof typeof refusalTimes

/**
 * After the first receipt of a token, in which an inactive answer counts as a fault of IAM. A replay does not prolong it, so that a session
 * that has ended is refused afterwards.
 */
const receiptTime = Duration.seconds(60)

/** What the tokens of one login have in common, however often they rotate. */
interface Login {
  /** The same after a restart and at other instances. */
  readonly name: string
  actor: string | undefined
}

interface Known {
  readonly login?: Login | undefined
  /** The actor of a token of unknown login, which IAM issued through another process. */
  readonly actor?: string | undefined
  /** Monotonic milliseconds of its first receipt; undefined for one that a call may have ended, or of unknown age. */
  readonly receivedAt?: number | undefined
  /** Its login or refresh is not complete: no introspection has confirmed it. */
  readonly isCompleting?: boolean
  /** It was vouched for once. */
  readonly hasEnded?: boolean
}

/**
 * Runs an access to the store and waits for it, both for a place and for the result, 50 ms at most. The access itself goes on and keeps
 * its place: a database that does not answer has at most `atOnce` of them. One that fails, or takes long, is as if there were no row.
 */
const makeBounded = (atOnce: number) => {
  const places = Effect.unsafeMakeSemaphore(atOnce)
  return <A>(access: Stored<A>): Effect.Effect<Option.Option<A>> =>
    Effect.uninterruptible(access).pipe(
      places.withPermits(1),
      Effect.disconnect,
      Effect.timeoutOption(longestStoreWait),
      // The store logs what an operator has to know.
      Effect.catchAllCause(() => Effect.succeedNone)
    )
}

export const makeCredentials = (sessions: SessionDigests, secret: Redacted.Redacted) => {
  const lookUp = makeBounded(lookUpsAtOnce)
  const write = makeBounded(writesAtOnce)
  // Apart from the refused ones, so that a flood of unknown tokens evicts no vouched one.
  const known = new Map<string, Known>()
  const refusedUntil = new Map<string, number>()

  const put = (key: string, value: Known): void => putBounded(known, key, value, capacity)
  const actorIn = (plane: Plane, publicId: Option.Option<string>): string | undefined =>
    Option.getOrUndefined(Option.map(publicId, (id) => actorDigest(secret, planeId(plane), id)))

  const recall = (key: string): Effect.Effect<void> =>
    Effect.map(lookUp(sessions.find(sessionDigest(key))), (found) => {
      const row = Option.getOrUndefined(Option.flatten(found))
      if (row !== undefined && !known.has(key))
        put(key, { login: { name: row.login, actor: row.actor ?? undefined } })
    })

  /** A call may have ended this token, or with it its login: what it may have ended no longer counts as just received. */
  const endReceipt = (key: string, kind: Kind): void => {
    const ending = kind === "refresh" ? known.get(key)?.login?.name : undefined
    for (const [other, { login, receivedAt }] of known)
      if (receivedAt !== undefined && (other === key || (ending !== undefined && login?.name === ending)))
        known.set(other, { login })
  }

  /** It is no longer vouched for. A refresh token ends its login. */
  const end = (key: string, kind: Kind): Effect.Effect<unknown> =>
    Effect.suspend(() => {
      const found = known.get(key)
      // An unknown token has no row.
      if (found === undefined) return Effect.void
      endReceipt(key, kind)
      put(key, { login: found.login, hasEnded: true })
      if (kind === "access") return write(sessions.forgetToken(sessionDigest(key)))
      return found.login === undefined ? Effect.void : write(sessions.forgetLogin(found.login.name))
    })

  return {
    /** Whether it is vouched for, the name of its login (the key itself where that is not known), and its actor. */
    ranked: (key: string) => {
      const { actor, hasEnded = false, login = { name: key, actor } } = known.get(key) ?? {}
      return { isVouched: known.has(key) && !hasEnded, login: login.name, actor: login.actor }
    },
    /** Whether it was received within the last minute, its login or refresh is not complete, and no call ended it. */
    isJustReceived: (key: string, now: number): boolean => {
      const { isCompleting = false, receivedAt } = known.get(key) ?? {}
      return isCompleting && receivedAt !== undefined && now < receivedAt + Duration.toMillis(receiptTime)
    },
    /**
     * Matches the tokens of the login of this token, and those of its plane whose login is not known; all of its plane, if that of this
     * token is not known. IAM does not name what it ends.
     */
    inLoginOf: (plane: Plane, token: Redacted.Redacted): ((key: string) => boolean) => {
      const login = known.get(tokenKey(plane, token))?.login
      return (key) => {
        const own = known.get(key)?.login
        const mayBeOfLogin = login === undefined || own === undefined || own.name === login.name
        return key.startsWith(`${planeId(plane)} `) && mayBeOfLogin
      }
    },
    /** Runs the call; before it looks in the store for a token that memory does not know. */
    recalling: <A, E>(key: string, call: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.suspend(() => (known.has(key) ? call : Effect.zipRight(recall(key), call))),
    /** IAM issued or replayed a pair; `presented` is the refresh token of a refresh. */
    recordGrant: (plane: Plane, grant: TokenGrant, presented: Redacted.Redacted | undefined) =>
      Effect.clockWith((clock) => {
        const spent = presented && tokenKey(plane, presented)
        const access = tokenKey(plane, grant.accessToken)
        const refresh = tokenKey(plane, grant.refreshToken)
        const earlier = known.get(access)
        // A replayed login stays the login of its first answer.
        const login = known.get(spent ?? access)?.login ??
          earlier?.login ?? { name: sessionDigest(spent ?? refresh), actor: undefined }
        login.actor ??= actorIn(
          plane,
          Option.map(grant.actor, ({ public_id }) => public_id)
        )
        // IAM also replays a pair that has ended. It does not say when it issued the pair.
        const isNew = earlier === undefined && !refusedUntil.has(refresh)
        const receivedAt = isNew ? unsafeMonotonicMillis(clock) : earlier?.receivedAt
        const now = clock.unsafeCurrentTimeMillis()
        const rows: Array<StoredToken> = []
        const remember = (key: string, kind: StoredToken["kind"], life: Duration.Duration, value: Known) => {
          refusedUntil.delete(key)
          put(key, value)
          rows.push({ digest: sessionDigest(key), kind, endsAt: now + Duration.toMillis(life) })
        }
        if (spent !== undefined) remember(spent, "refresh", replayTime, { login })
        remember(refresh, "refresh", refreshTokenLife, { login })
        const life = Duration.seconds(grant.expiresInSeconds)
        remember(access, "access", life, { login, receivedAt, isCompleting: true })
        return write(
          sessions.remember(planeId(plane), { login: login.name, actor: login.actor ?? null }, rows)
        )
      }),
    /** IAM confirmed it, and named its actor if it is a token that discloses one. */
    confirm: (key: string, plane?: Plane, publicId: Option.Option<string> = Option.none()) =>
      Effect.suspend((): Effect.Effect<unknown> => {
        const { login, receivedAt } = known.get(key) ?? {}
        const actor = plane && actorIn(plane, publicId)
        put(key, { login, actor, receivedAt })
        if (login === undefined || actor === undefined || login.actor === actor) return Effect.void
        login.actor = actor
        return write(sessions.nameActor(login.name, actor))
      }),
    endReceipt,
    end,
    /** IAM refused it, or revoked a refresh token. */
    recordRefusal: (key: string, kind: Kind) =>
      Effect.clockWith((clock) => {
        const until = unsafeMonotonicMillis(clock) + Duration.toMillis(refusalTimes[kind])
        putBounded(refusedUntil, key, until, capacity)
        return end(key, kind)
      }),
    /** Runs the call, or `repeated` while IAM's refusal of the credential is repeated. */
    unlessRefused:
      <A, E>(key: string, repeated: Effect.Effect<A, E>) =>
      <B, E2>(call: Effect.Effect<B, E2>) =>
        Effect.clockWith(
          (clock): Effect.Effect<A | B, E | E2> =>
            (refusedUntil.get(key) ?? 0) > unsafeMonotonicMillis(clock) ? repeated : call
        )
  }
}
export type Credentials = ReturnType<typeof makeCredentials>
