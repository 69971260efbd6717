/**
 * The credentials that this service vouches for, as digests in bounded memory: those that it handed out, by memory or by the digests in
 * the store, and those that IAM confirmed. They only rank calls in the budget for IAM, and never grant access. Beside them those that IAM
 * refused, which are refused again without a call.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { putBounded } from "../../services/BoundedMap.ts"
import { digestOf } from "../../services/Digest.ts"
import type { Introspection, TokenGrant } from "../../services/Iam.ts"
import { monotonicMillis, unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import { actorDigest, type SessionDigests, sessionDigest, type Stored } from "../../services/Store.ts"
import type { Place } from "./Window.ts"

/** Identifies a token in its plane. */
export const tokenKey = (plane: Plane, token: Redacted.Redacted): string =>
  `${planeId(plane)} ${digestOf(token)}`

/** Identifies a testing secret. */
export const secretKey = (secret: Redacted.Redacted): string => `secret ${digestOf(secret)}`

/** Credentials of each kind that are kept. Beyond it the one with the oldest write is removed. */
const capacity = 20_000
/** Milliseconds for which an answer waits for the store. */
const longestStoreWait = 50
/** Of the connections of this process to Postgres, ten by default. */
const lookUpsAtOnce = 4
const writesAtOnce = 2

/** IAM does not say when a refresh token ends. */
const refreshTokenMillis = Duration.toMillis("30 days")
/** As long as IAM replays a refresh (identity-service.md 5). */
const replayMillis = Duration.toMillis("10 minutes")

/**
 * Milliseconds for which a refusal is repeated without a call. An inactive access token or a bad testing secret may become active again
 * (a suspension that ends). A dead refresh token never does (identity-service.md 5).
 */
const refusalMillis = {
  inactive_access_token: 30_000,
  bad_testing_secret: 30_000,
  dead_refresh_token: 600_000
} as const

/**
 * Milliseconds after the first receipt of a token in which an inactive answer counts as a fault of IAM. A replay does not prolong it, so
 * that a session that has ended is refused afterwards.
 */
const justReceivedMillis = 60_000

/** What the tokens of one login have in common, however often they rotate. */
interface Login {
  /** The same after a restart and at other instances. */
  readonly name: string
  actor: string | undefined
}

interface Vouched {
  readonly login: Login | undefined
  /** The actor of a token of unknown login, which IAM issued through another process. */
  readonly actor?: string | undefined
  /** Monotonic milliseconds of its first receipt; undefined for one that a call ended, or of unknown age. */
  readonly receivedAt?: number | undefined
  /** For the introspection that completes its login or refresh, until that succeeds. */
  readonly kept?: Place | undefined
}

export interface Credentials {
  readonly isVouched: (key: string) => boolean
  /** The name of its login; the key itself where that is not known. */
  readonly loginOf: (key: string) => string
  readonly actorOf: (key: string) => string | undefined
  /** The place for the introspection that completes its login or refresh. */
  readonly keptPlace: (key: string) => Place | undefined
  /** Whether it was received within the last minute, its login or refresh is not complete, and no call ended it. */
  readonly isJustReceived: (key: string, now: number) => boolean
  /** Matches the tokens of the login of this token, and those of its plane whose login is not known: IAM does not name what it ends. */
  readonly inLoginOf: (plane: Plane, token: Redacted.Redacted) => (key: string) => boolean
  /** Runs the call; before it looks in the store for a token that memory does not know. */
  readonly recalling: <A, E>(key: string, call: Effect.Effect<A, E>) => Effect.Effect<A, E>
  /** IAM issued or replayed a pair; `presented` is the refresh token of a refresh. */
  readonly recordGrant: (
    plane: Plane,
    grant: TokenGrant,
    presented: Option.Option<Redacted.Redacted>,
    kept: Place | undefined
  ) => Effect.Effect<void>
  /** IAM confirmed it. */
  readonly confirm: (key: string) => void
  /** An introspection confirmed a token of the plane. */
  readonly recordLive: (plane: Plane, key: string, introspection: Introspection) => Effect.Effect<void>
  /** A call may have ended this token, or with it its login: what it may have ended no longer counts as just received. */
  readonly endReceipt: (key: string, isLogin: boolean) => void
  /** IAM refused it. It is no longer vouched for, and a dead refresh token ends its login. */
  readonly recordRefusal: (key: string, refusal: keyof typeof refusalMillis) => Effect.Effect<void>
  /** It is no longer vouched for. */
  readonly forget: (key: string) => void
  /** This access token ended. */
  readonly endAccessToken: (key: string) => Effect.Effect<void>
  /** The login of this token was revoked. */
  readonly endLogin: (key: string) => Effect.Effect<void>
  /** Runs the call, or `repeated` while IAM's refusal of the credential is repeated. */
  readonly unlessRefused: <A, E>(
    key: string,
    repeated: Effect.Effect<A, E>
  ) => <B, E2>(call: Effect.Effect<B, E2>) => Effect.Effect<A | B, E | E2>
}

/**
 * Runs an access to the store and waits for it, both for a place and for the result, 50 ms at most. The access itself goes on and keeps
 * its place: a database that does not answer has at most `atOnce` of them. One that fails, or takes long, is as if there were no row.
 */
const makeBounded = (atOnce: number) =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const places = yield* Effect.makeSemaphore(atOnce)
    return <A>(access: Stored<A>): Effect.Effect<Option.Option<A>> =>
      Effect.uninterruptibleMask((restore) =>
        restore(places.take(1)).pipe(
          Effect.zipRight(
            Effect.forkIn(Effect.ensuring(Effect.interruptible(access), places.release(1)), scope)
          ),
          Effect.flatMap((running) => restore(Fiber.join(running)))
        )
      ).pipe(
        Effect.timeoutOption(longestStoreWait),
        // The store logs what an operator has to know.
        Effect.catchAllCause(() => Effect.succeedNone)
      )
  })

export const makeCredentials = (
  sessions: SessionDigests,
  secret: Redacted.Redacted
): Effect.Effect<Credentials, never, Scope.Scope> =>
  Effect.gen(function* () {
    const lookUp = yield* makeBounded(lookUpsAtOnce)
    const write = yield* makeBounded(writesAtOnce)
    // Apart from the refused ones, so that a flood of unknown tokens evicts no vouched one.
    const vouched = new Map<string, Vouched>()
    const refusedUntil = new Map<string, number>()
    /** Tokens that a call ended: a replay of their pair does not count as just received. */
    const ended = new Map<string, true>()

    const put = (key: string, value: Vouched): void => putBounded(vouched, key, value, capacity)
    const ownerOf = (plane: Plane, publicId: Option.Option<string>): string | undefined =>
      Option.getOrUndefined(Option.map(publicId, (id) => actorDigest(secret, planeId(plane), id)))
    const end = (key: string): void => {
      vouched.delete(key)
      putBounded(ended, key, true, capacity)
    }
    const endReceipt: Credentials["endReceipt"] = (key, isLogin) => {
      const ending = isLogin ? vouched.get(key)?.login?.name : undefined
      for (const [other, { login, receivedAt }] of vouched)
        if (receivedAt !== undefined && (other === key || (login !== undefined && login.name === ending)))
          vouched.set(other, { login })
    }
    const endAccessToken: Credentials["endAccessToken"] = (key) =>
      Effect.suspend(() => {
        const isKnown = vouched.has(key)
        end(key)
        // An unknown token has no row.
        return isKnown ? write(sessions.forgetToken(sessionDigest(key))) : Effect.void
      })
    const endLogin: Credentials["endLogin"] = (key) =>
      Effect.suspend(() => {
        const { login } = vouched.get(key) ?? {}
        endReceipt(key, true)
        end(key)
        return login === undefined ? Effect.void : write(sessions.forgetLogin(login.name))
      })

    const loginOfGrant = (presented: string | undefined, access: string, refresh: string): Login =>
      // A replayed login stays the login of its first answer.
      vouched.get(presented ?? access)?.login ??
      vouched.get(access)?.login ?? { name: sessionDigest(presented ?? refresh), actor: undefined }

    return {
      isVouched: (key) => vouched.has(key),
      loginOf: (key) => vouched.get(key)?.login?.name ?? key,
      actorOf: (key) => {
        const { actor, login } = vouched.get(key) ?? {}
        return login === undefined ? actor : login.actor
      },
      keptPlace: (key) => vouched.get(key)?.kept,
      isJustReceived: (key, now) => {
        const { kept, receivedAt } = vouched.get(key) ?? {}
        return kept !== undefined && receivedAt !== undefined && now < receivedAt + justReceivedMillis
      },
      inLoginOf: (plane, token) => {
        const login = vouched.get(tokenKey(plane, token))?.login
        const within = `${planeId(plane)} `
        return (key) => {
          const own = vouched.get(key)?.login
          return key.startsWith(within) && (own === undefined || own.name === login?.name)
        }
      },
      recalling: (key, call) =>
        Effect.suspend(() =>
          vouched.has(key)
            ? call
            : Effect.flatMap(lookUp(sessions.find(sessionDigest(key))), (found) => {
                const login = Option.getOrUndefined(Option.flatten(found))
                if (login !== undefined && !vouched.has(key))
                  put(key, { login: { name: login.login, actor: login.actor } })
                return call
              })
        ),
      recordGrant: (plane, grant, presented, kept) =>
        Effect.clockWith((clock) => {
          const spent = Option.getOrUndefined(Option.map(presented, (token) => tokenKey(plane, token)))
          const access = tokenKey(plane, grant.accessToken)
          const refresh = tokenKey(plane, grant.refreshToken)
          const login = loginOfGrant(spent, access, refresh)
          login.actor ??= ownerOf(
            plane,
            Option.map(grant.actor, ({ public_id }) => public_id)
          )
          // IAM also replays a pair that has ended. It does not say when it issued the pair.
          const earlier = vouched.get(access)
          const first = ended.has(access) || ended.has(refresh) ? undefined : unsafeMonotonicMillis(clock)
          const receivedAt = earlier?.login === undefined ? first : earlier.receivedAt
          if (spent !== undefined) put(spent, { login })
          put(refresh, { login })
          put(access, { login, receivedAt, kept })
          const now = clock.unsafeCurrentTimeMillis()
          const tokens = [
            [spent, "refresh", replayMillis],
            [access, "access", grant.expiresInSeconds * 1_000],
            [refresh, "refresh", refreshTokenMillis]
          ] as const
          for (const [key] of tokens) if (key !== undefined) refusedUntil.delete(key)
          return write(
            sessions.remember(
              planeId(plane),
              { login: login.name, actor: login.actor },
              tokens.flatMap(([key, kind, lifetime]) =>
                key === undefined ? [] : [{ digest: sessionDigest(key), kind, endsAt: now + lifetime }]
              )
            )
          )
        }),
      confirm: (key) => put(key, { login: vouched.get(key)?.login }),
      recordLive: (plane, key, { publicId }) =>
        Effect.suspend(() => {
          const { login, receivedAt } = vouched.get(key) ?? {}
          const actor = ownerOf(plane, publicId)
          put(key, { login, receivedAt, actor })
          if (login === undefined || actor === undefined || login.actor === actor) return Effect.void
          login.actor = actor
          return write(sessions.nameActor(login.name, actor))
        }),
      endReceipt,
      recordRefusal: (key, refusal) =>
        Effect.gen(function* () {
          putBounded(refusedUntil, key, (yield* monotonicMillis) + refusalMillis[refusal], capacity)
          if (refusal === "dead_refresh_token") return yield* endLogin(key)
          if (refusal === "inactive_access_token") return yield* endAccessToken(key)
          end(key)
        }),
      forget: (key) => void vouched.delete(key),
      endAccessToken,
      endLogin,
      unlessRefused:
        <A, E>(key: string, repeated: Effect.Effect<A, E>) =>
        <B, E2>(call: Effect.Effect<B, E2>) =>
          Effect.suspend((): Effect.Effect<A | B, E | E2> => {
            const until = refusedUntil.get(key)
            if (until === undefined) return call
            return Effect.flatMap(
              monotonicMillis,
              (now): Effect.Effect<A | B, E | E2> => (until > now ? repeated : call)
            )
          })
    }
  })
