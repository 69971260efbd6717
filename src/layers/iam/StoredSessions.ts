/**
 * The store's memory of sessions, which outlives this process and is shared by all instances. It only makes credentials
 * known to the budget. An access that fails, or takes long, is as if there were no row.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { TokenGrant } from "../../services/Iam.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import {
  type SessionDigests,
  sessionDigest,
  type Stored,
  type StoredLogin,
  type StoredToken
} from "../../services/Store.ts"
import { type KnownCredentials, tokenKey } from "./budget/KnownCredentials.ts"

/** Milliseconds for which an answer waits for the store. */
const longestWait = 50
/** Of the connections of this process to Postgres, ten by default. */
const lookUpsAtOnce = 4
const writesAtOnce = 2

/** IAM does not say when a refresh token ends. */
const refreshTokenMillis = Duration.toMillis("30 days")
/** As long as IAM replays a refresh (identity-service.md 5). */
const replayMillis = Duration.toMillis("10 minutes")

export interface StoredSessions {
  /** The call; a token that memory does not know is made known before it, if the store knows it. */
  readonly recall: <A, E>(key: string, call: () => Effect.Effect<A, E>) => Effect.Effect<A, E>
  /** After `KnownCredentials.recordGrant`. */
  readonly remember: (
    plane: Plane,
    grant: TokenGrant,
    presented: Option.Option<Redacted.Redacted>
  ) => Effect.Effect<void>
  /** The actor of a login became known. */
  readonly nameActor: (login: StoredLogin | undefined) => Effect.Effect<void>
  readonly forgetToken: (key: string) => Effect.Effect<void>
  readonly forgetLogin: (login: StoredLogin | undefined) => Effect.Effect<void>
}

/**
 * Runs an access and waits for it, both for a place and for the result, 50 ms at most. The access itself goes on and keeps its
 * place: a database that does not answer has at most `atOnce` of them.
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
        Effect.timeoutOption(longestWait),
        // The store logs what an operator has to know.
        Effect.catchAllCause(() => Effect.succeedNone)
      )
  })

export const makeStoredSessions = (
  sessions: SessionDigests,
  known: KnownCredentials
): Effect.Effect<StoredSessions, never, Scope.Scope> =>
  Effect.gen(function* () {
    const lookUp = yield* makeBounded(lookUpsAtOnce)
    const write = yield* makeBounded(writesAtOnce)

    return {
      recall: (key, call) =>
        known.isKnown(key)
          ? call()
          : Effect.flatMap(lookUp(sessions.find(sessionDigest(key))), (found) => {
              const login = Option.getOrUndefined(Option.flatten(found))
              if (login !== undefined && !known.isKnown(key)) known.restore(key, login)
              return call()
            }),
      remember: (plane, grant, presented) =>
        Effect.clockWith((clock) => {
          const login = known.loginOf(tokenKey(plane, grant.refreshToken))
          if (login === undefined) return Effect.void
          const now = clock.unsafeCurrentTimeMillis()
          const token = (
            kind: StoredToken["kind"],
            value: Redacted.Redacted,
            lifetime: number
          ): StoredToken => ({
            digest: sessionDigest(tokenKey(plane, value)),
            kind,
            endsAt: now + lifetime
          })
          return write(
            sessions.remember(planeId(plane), login, [
              ...Option.match(presented, {
                onNone: () => [],
                onSome: (spent) => [token("refresh", spent, replayMillis)]
              }),
              token("access", grant.accessToken, grant.expiresInSeconds * 1_000),
              token("refresh", grant.refreshToken, refreshTokenMillis)
            ])
          )
        }),
      nameActor: (login) =>
        login?.actor === undefined ? Effect.void : write(sessions.nameActor(login.login, login.actor)),
      forgetToken: (key) => write(sessions.forgetToken(sessionDigest(key))),
      forgetLogin: (login) => (login === undefined ? Effect.void : write(sessions.forgetLogin(login.login)))
    }
  })
