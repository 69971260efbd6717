/**
 * The credentials that this service vouches for, as digests in bounded memory: those that it handed out, by memory or by the digests in
 * the store, and those that IAM confirmed. They only rank calls in the budget for IAM, and never grant access. Beside them those that IAM
 * refused, which are refused again without a call.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { putBounded } from "../../services/combinators/BoundedMap.ts"
import { digestOf } from "../../services/Digest.ts"
import type { TokenGrant } from "../../services/Iam.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import { actorDigest, type SessionDigests, sessionDigest, type Stored } from "../../services/Store.ts"
import type { Refused, UpstreamFailure } from "../../services/UpstreamFailure.ts"

/** Identifies a token, or the secret of a testing plane, in its plane. */
export const tokenKey = (plane: Plane, token: Redacted.Redacted): string =>
  `${planeId(plane)} ${digestOf(token)}`

/** Credentials of each kind that are kept. Beyond it the one with the oldest write is removed. */
const capacity = 20_000
/** Milliseconds for which an answer waits for the store. */
const longestStoreWait = 50
/** Of the connections of this process to Postgres, ten by default. */
const accessesAtOnce = 5

/** IAM does not say when a refresh token ends. */
const refreshTokenSeconds = 30 * 24 * 3_600
/** As long as IAM replays a refresh (identity-service.md 5). */
const replaySeconds = 600

/**
 * Seconds for which a refusal is repeated without a call. An inactive access token or a bad testing secret may become active again (a
 * suspension that ends). A dead refresh token never does (identity-service.md 5).
 */
const refusalSeconds = { access: 30, secret: 30, refresh: 600 }
type Kind = keyof typeof refusalSeconds

/**
 * Milliseconds after the first receipt of a token in which an inactive answer counts as a fault of IAM. A replay does not prolong them, so
 * that a session that has ended is refused afterwards.
 */
const receiptMillis = 60_000

/** What the tokens of one login have in common, however often they rotate. */
interface Login {
  /** Its name, the same after a restart and at other instances. */
  readonly login: string
  actor: string | null
  /** Of a token that this service did not hand out: those of its login are not known. */
  readonly isForeign?: true
}

interface Known {
  readonly login: Login
  /** Monotonic milliseconds of its first receipt; undefined where its age is not known. */
  readonly receivedAt?: number | undefined
  /** Its login or refresh is not complete: no introspection has confirmed it. */
  readonly isCompleting?: boolean
}

/**
 * Runs an access to the store and waits for it, both for a place and for the result, so many milliseconds at most. The access itself goes
 * on and keeps its place: a database that does not answer has at most `atOnce` of them. One that fails, or takes long, is as if there were
 * no row.
 */
export const makeBounded = (atOnce: number, millis = longestStoreWait) => {
  const places = Effect.unsafeMakeSemaphore(atOnce)
  return <A>(access: Stored<A>): Effect.Effect<Option.Option<A>> =>
    Effect.uninterruptible(access).pipe(
      places.withPermits(1),
      Effect.disconnect,
      Effect.timeoutOption(millis),
      // The store logs what an operator has to know.
      Effect.catchAllCause(() => Effect.succeedNone)
    )
}

export const makeCredentials = (sessions: SessionDigests, secret: Redacted.Redacted) => {
  const within = makeBounded(accessesAtOnce)
  // Apart from the refused ones, so that a flood of unknown tokens evicts no vouched one.
  const known = new Map<string, Known>()
  const refusedUntil = new Map<string, number>()

  const put = (key: string, value: Known): void => putBounded(known, key, value, capacity)
  const loginOf = (key: string): Login | undefined => known.get(key)?.login
  const actorIn = (plane: Plane, publicId: string | null | undefined): string | null =>
    publicId == null ? null : actorDigest(secret, planeId(plane), publicId)

  /** IAM refused it, or revoked it: it is no longer vouched for. A refresh token ends its login. */
  const recordRefusal = (key: string, kind: Kind): Effect.Effect<unknown> =>
    Effect.clockWith((clock) => {
      putBounded(refusedUntil, key, unsafeMonotonicMillis(clock) + refusalSeconds[kind] * 1_000, capacity)
      const login = loginOf(key)
      // An unknown token has no row.
      if (login === undefined) return Effect.void
      known.delete(key)
      return within(
        kind === "refresh" ? sessions.forgetLogin(login.login) : sessions.forgetToken(sessionDigest(key))
      )
    })

  return {
    /** Whether it is vouched for, the name of its login (the key itself where that is not known), and its actor. */
    ranked: (key: string) => {
      const login = loginOf(key)
      return { isVouched: login !== undefined, login: login?.login ?? key, actor: login?.actor ?? undefined }
    },
    /** Whether it was received within the last minute, and its login or refresh is not complete. */
    isJustReceived: (key: string, now: number): boolean => {
      const { isCompleting = false, receivedAt } = known.get(key) ?? {}
      return isCompleting && receivedAt !== undefined && now < receivedAt + receiptMillis
    },
    /**
     * Matches the tokens of the login of this token, and those of its plane whose login is not known. IAM does not name what it ends. If the
     * login of this token is not known, an answer in flight may be of it; those that are kept stay, because anybody can invent a token.
     */
    inLoginOf: (plane: Plane, token: Redacted.Redacted) => {
      const own = loginOf(tokenKey(plane, token))
      return (key: string, isKept: boolean): boolean => {
        const other = loginOf(key)
        const isOfOwn = own === undefined ? !isKept : own.login === other?.login
        return key.startsWith(`${planeId(plane)} `) && (isOfOwn || (other?.isForeign ?? other === undefined))
      }
    },
    /** Runs the call; before it looks in the store for a token that memory does not know. */
    recalling: <A, E>(key: string, call: Effect.Effect<A, E>): Effect.Effect<A, E> => {
      if (known.has(key)) return call
      return Effect.flatMap(within(sessions.find(sessionDigest(key))), (found) => {
        const row = Option.getOrUndefined(Option.flatten(found))
        if (row !== undefined && !known.has(key)) put(key, { login: { ...row } })
        return call
      })
    },
    /** IAM issued or replayed a pair; `presented` is the refresh token of a refresh. */
    recordGrant: (plane: Plane, grant: TokenGrant, presented: Redacted.Redacted | undefined) =>
      Effect.clockWith((clock) => {
        const spent = presented && tokenKey(plane, presented)
        const access = tokenKey(plane, grant.accessToken)
        const refresh = tokenKey(plane, grant.refreshToken)
        const earlier = known.get(access)
        // A replayed login stays the login of its first answer.
        const login = loginOf(spent ?? access) ??
          earlier?.login ?? { login: sessionDigest(spent ?? refresh), actor: null }
        login.actor ??= actorIn(plane, Option.getOrUndefined(grant.actor)?.public_id)
        // IAM also replays a pair that has ended. It does not say when it issued the pair.
        const hasEnded = refusedUntil.has(access) || refusedUntil.has(refresh)
        const { receivedAt } = earlier ?? { receivedAt: unsafeMonotonicMillis(clock) }
        const tokens = [
          { key: access, seconds: grant.expiresInSeconds },
          { key: refresh, seconds: refreshTokenSeconds },
          ...(spent === undefined ? [] : [{ key: spent, seconds: replaySeconds }])
        ]
        for (const { key } of tokens) {
          refusedUntil.delete(key)
          put(key, { login })
        }
        put(access, { login, receivedAt: hasEnded ? undefined : receivedAt, isCompleting: true })
        const now = clock.unsafeCurrentTimeMillis()
        const rows = tokens.map(({ key, seconds }) => ({
          digest: sessionDigest(key),
          endsAt: now + seconds * 1_000
        }))
        return within(sessions.remember(login, rows))
      }),
    /** IAM confirmed it. A token that this service did not hand out is a login of its own, of the actor that IAM names. */
    confirm: (plane: Plane, key: string, publicId?: string | null): void => {
      const found = known.get(key)
      const own = { login: sessionDigest(key), actor: actorIn(plane, publicId), isForeign: true } as const
      const login = found?.login ?? own
      put(key, { login, receivedAt: found?.receivedAt })
    },
    recordRefusal,
    /** Records the refusal of the credential by the call, where its code says so. */
    recordingRefusal:
      (key: string, kind: Kind, isOfCredential: (refused: Refused) => boolean) =>
      <A>(call: Effect.Effect<A, UpstreamFailure>) =>
        Effect.tapErrorTag(call, "Refused", (refused) =>
          isOfCredential(refused) ? recordRefusal(key, kind) : Effect.void
        ),
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
