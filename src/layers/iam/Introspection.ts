/** Live introspection of access tokens (identity-service.md 6). */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { IamService, Introspection } from "../../services/Iam.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { environmentIdOf, type Plane, planeId } from "../../services/Plane.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"
import type { IamBudget } from "./budget/IamBudget.ts"
import { type KnownCredentials, tokenKey } from "./budget/KnownCredentials.ts"
import type { IntrospectionHealth } from "./IntrospectionHealth.ts"
import { readIntrospection } from "./IntrospectionResponse.ts"
import { makeTtlCache } from "./TtlCache.ts"

const maxCachedTokens = 10_000

interface CachedIntrospection {
  readonly introspection: Option.Option<Introspection>
  /** Monotonic milliseconds of the response. */
  readonly at: number
}

export interface IntrospectionClient extends Pick<IamService, "introspect"> {
  /** Drops cached introspections of the tokens whose `tokenKey` matches, and those in flight. */
  readonly forgetWhere: (matches: (key: string) => boolean) => Effect.Effect<void>
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
  options: { readonly applicationId: string; readonly cacheSeconds: number }
): Effect.Effect<IntrospectionClient, never, Scope.Scope> =>
  Effect.gen(function* () {
    const cache = yield* makeTtlCache<CachedIntrospection, UpstreamFailure>({
      capacity: maxCachedTokens,
      millis: options.cacheSeconds * 1_000,
      operation: "introspect",
      keep: ({ introspection }) => options.cacheSeconds > 0 && Option.isSome(introspection)
    })

    const introspectUncached = (
      plane: Plane,
      token: Redacted.Redacted,
      credential: string
    ): Effect.Effect<Option.Option<Introspection>, UpstreamFailure> =>
      Effect.gen(function* () {
        const read = readIntrospection(
          { applicationId: options.applicationId, environmentId: environmentIdOf(plane) },
          yield* Clock.currentTimeMillis
        )
        const introspection = yield* health.send(plane, token, "access_token", { credential }, read)
        if (Option.isSome(introspection)) {
          const owner = Option.map(
            introspection.value.publicId,
            (publicId) => `${planeId(plane)} ${publicId}`
          )
          known.markLive(credential, Option.getOrUndefined(owner))
          return introspection
        }
        yield* health.confirmInactive(credential)
        yield* budget.recordRefusal(credential, "inactive_access_token")
        return introspection
      })

    const introspectCached = (plane: Plane, token: Redacted.Redacted, key: string) =>
      Effect.gen(function* () {
        const { at, introspection } = yield* cache.get(
          key,
          Effect.zipWith(introspectUncached(plane, token, key), monotonicMillis, (answer, now) => ({
            introspection: answer,
            at: now
          }))
        )
        if (Option.isNone(introspection)) return introspection
        // IAM's time as of now: its `Date` plus the age of the cached answer.
        const answeredAt = introspection.value.answeredAt + Math.round((yield* monotonicMillis) - at)
        if (answeredAt < introspection.value.expiresAt * 1_000)
          return Option.some({ ...introspection.value, answeredAt })
        yield* cache.forget(key)
        return yield* introspectUncached(plane, token, key)
      })

    const introspect = (plane: Plane, token: Redacted.Redacted) => {
      const key = tokenKey(plane, token)
      return introspectCached(plane, token, key).pipe(budget.unlessRefused(key, Effect.succeedNone))
    }

    return { introspect: Effect.fn("Iam.introspect")(introspect), forgetWhere: cache.forgetWhere }
  })
