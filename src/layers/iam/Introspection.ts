/** Live introspection of access tokens (identity-service.md 6). */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { IamService, Introspection } from "../../services/Iam.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { environmentIdOf, type Plane } from "../../services/Plane.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { makeShare } from "../../services/Share.ts"
import { traced } from "../../services/Tracing.ts"
import { Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { type Credentials, tokenKey } from "./Credentials.ts"
import type { IntrospectionHealth } from "./IntrospectionHealth.ts"
import { readIntrospection } from "./IntrospectionResponse.ts"

const maxCachedTokens = 10_000

interface Answer {
  readonly introspection: Option.Option<Introspection>
  /** Monotonic milliseconds. */
  readonly at: number
}

export interface IntrospectionClient extends Pick<IamService, "introspect"> {
  /** Drops the cached introspections of the tokens whose `tokenKey` matches, and those in flight. */
  readonly forgetWhere: (matches: (key: string) => boolean) => void
}

/**
 * Concurrent introspections of one token share one call. With `cacheSeconds` above 0 a live answer is cached for that long, never past
 * the token's own expiry. A token that IAM called inactive is not introspected again for a while (`Credentials`).
 */
export const makeIntrospection = (
  { send }: Pick<IntrospectionHealth, "send">,
  credentials: Credentials,
  { applicationId, introspectionCacheSeconds }: SettingsValues["iam"]
): Effect.Effect<IntrospectionClient, never, Scope.Scope> =>
  Effect.gen(function* () {
    const cache = yield* makeShare<Answer, UpstreamFailure>({
      capacity: maxCachedTokens,
      millis: introspectionCacheSeconds * 1_000,
      keep: ({ introspection }) => Option.isSome(introspection)
    })

    /** What an answer says about the token. */
    const record = (plane: Plane, key: string, introspection: Option.Option<Introspection>, at: number) => {
      if (Option.isSome(introspection)) return credentials.recordLive(plane, key, introspection.value)
      if (!credentials.isJustReceived(key, at)) return credentials.recordRefusal(key, "inactive_access_token")
      return new Unknown({
        dependency: "iam",
        reason: "reports a token as inactive that it has just issued or replayed",
        inactive: true
      })
    }

    const ask = (
      plane: Plane,
      token: Redacted.Redacted,
      key: string
    ): Effect.Effect<Answer, UpstreamFailure> =>
      Effect.clockWith((clock) => {
        const expected = { applicationId, environmentId: environmentIdOf(plane) }
        const read = readIntrospection(expected, clock.unsafeCurrentTimeMillis())
        return Effect.flatMap(
          send(plane, token, "access_token", { credential: key }, read, Option.isSome),
          (introspection) => {
            const at = unsafeMonotonicMillis(clock)
            return Effect.as(record(plane, key, introspection, at), { introspection, at })
          }
        )
      })

    const introspect = (plane: Plane, token: Redacted.Redacted, key: string) => {
      const recalled = credentials.recalling(key, ask(plane, token, key))
      return Effect.clockWith((clock) =>
        Effect.flatMap(cache.get(key, recalled, { operation: "introspect" }), ({ at, introspection }) => {
          if (Option.isNone(introspection)) return Effect.succeed(introspection)
          // IAM's time as of now: its `Date` plus the age of the cached answer.
          const answeredAt = introspection.value.answeredAt + Math.round(unsafeMonotonicMillis(clock) - at)
          if (answeredAt < introspection.value.expiresAt * 1_000)
            return Effect.succeed(Option.some({ ...introspection.value, answeredAt }))
          cache.forget(key)
          return Effect.map(ask(plane, token, key), (answer) => answer.introspection)
        })
      )
    }

    return {
      introspect: (plane, token) => {
        const key = tokenKey(plane, token)
        return introspect(plane, token, key).pipe(
          credentials.unlessRefused(key, Effect.succeedNone),
          traced("Iam.introspect")
        )
      },
      forgetWhere: cache.forgetWhere
    }
  })
