/** Live introspection of access tokens (identity-service.md 6). */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { clockOf, monotonicNow } from "../../services/FiberContext.ts"
import type { IamService, Introspection } from "../../services/Iam.ts"
import { environmentIdOf, type Plane, planeId } from "../../services/Plane.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { actorDigest } from "../../services/Store.ts"
import { traced } from "../../services/Tracing.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"
import type { IamBudget } from "./budget/IamBudget.ts"
import { type KnownCredentials, tokenKey } from "./budget/KnownCredentials.ts"
import type { IntrospectionHealth } from "./IntrospectionHealth.ts"
import { readIntrospection } from "./IntrospectionResponse.ts"
import type { StoredSessions } from "./StoredSessions.ts"
import { makeTtlCache } from "./TtlCache.ts"

const maxCachedTokens = 10_000

interface CachedIntrospection {
  readonly introspection: Option.Option<Introspection>
  /** Monotonic milliseconds of the response. */
  readonly at: number
}

export interface IntrospectionClient extends Pick<IamService, "introspect"> {
  /** Drops cached introspections of the tokens whose `tokenKey` matches, and those in flight. */
  readonly forgetWhere: (matches: (key: string) => boolean) => void
}

/**
 * Concurrent introspections of one token share one call. With `cacheSeconds` above 0 a live answer is cached for that long,
 * never past the token's own expiry. A token that IAM called inactive is not introspected again for a while
 * (`RefusedCredentials`).
 */
export const makeIntrospection = (
  health: Pick<IntrospectionHealth, "send" | "confirmInactive">,
  budget: IamBudget,
  known: KnownCredentials,
  stored: Pick<StoredSessions, "recall" | "nameActor" | "forgetToken">,
  options: SettingsValues["iam"]
): Effect.Effect<IntrospectionClient, never, Scope.Scope> =>
  Effect.gen(function* () {
    const cache = yield* makeTtlCache<CachedIntrospection, UpstreamFailure>({
      capacity: maxCachedTokens,
      millis: options.introspectionCacheSeconds * 1_000,
      operation: "introspect",
      keep: ({ introspection }) => options.introspectionCacheSeconds > 0 && Option.isSome(introspection)
    })

    const introspectUncached = (
      plane: Plane,
      token: Redacted.Redacted,
      credential: string
    ): Effect.Effect<CachedIntrospection, UpstreamFailure> =>
      Effect.withFiberRuntime((fiber) => {
        const read = readIntrospection(
          { applicationId: options.applicationId, environmentId: environmentIdOf(plane) },
          clockOf(fiber).unsafeCurrentTimeMillis()
        )
        return Effect.flatMap(
          health.send(plane, token, "access_token", { credential }, read),
          (introspection) => {
            const answer = { introspection, at: monotonicNow(fiber) }
            if (Option.isSome(introspection)) {
              const owner = Option.map(introspection.value.publicId, (publicId) =>
                actorDigest(options.applicationSecret, planeId(plane), publicId)
              )
              return known.markLive(credential, Option.getOrUndefined(owner))
                ? Effect.as(stored.nameActor(known.loginOf(credential)), answer)
                : Effect.succeed(answer)
            }
            // An unknown token has no row.
            const forget = known.isKnown(credential) ? stored.forgetToken(credential) : Effect.void
            return health
              .confirmInactive(credential)
              .pipe(
                Effect.zipRight(budget.recordRefusal(credential, "inactive_access_token")),
                Effect.zipRight(forget),
                Effect.as(answer)
              )
          }
        )
      })

    const introspectCached = (plane: Plane, token: Redacted.Redacted, key: string) =>
      Effect.withFiberRuntime<Option.Option<Introspection>, UpstreamFailure>((fiber) =>
        Effect.flatMap(
          cache.get(
            key,
            Effect.suspend(() => stored.recall(key, () => introspectUncached(plane, token, key)))
          ),
          ({ at, introspection }): Effect.Effect<Option.Option<Introspection>, UpstreamFailure> => {
            if (Option.isNone(introspection)) return Effect.succeed(introspection)
            // IAM's time as of now: its `Date` plus the age of the cached answer.
            const answeredAt = introspection.value.answeredAt + Math.round(monotonicNow(fiber) - at)
            if (answeredAt < introspection.value.expiresAt * 1_000)
              return Effect.succeed(Option.some({ ...introspection.value, answeredAt }))
            cache.forget(key)
            return Effect.map(introspectUncached(plane, token, key), (answer) => answer.introspection)
          }
        )
      )

    return {
      introspect: (plane, token) => {
        const key = tokenKey(plane, token)
        return introspectCached(plane, token, key).pipe(
          budget.unlessRefused(key, Effect.succeedNone),
          traced("Iam.introspect")
        )
      },
      forgetWhere: cache.forgetWhere
    }
  })
