/** Looking at an access token, live (identity-service.md 6). */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { digestOf } from "../../services/Digest.ts"
import type { IamService, Introspection } from "../../services/Iam.ts"
import { environmentIdOf, type Plane, type PlaneId, planeId } from "../../services/Plane.ts"
import type { UpstreamFailure } from "../../services/Upstream.ts"
import type { PlaneCall } from "./IamCall.ts"
import { makeRemembered } from "./Remembered.ts"
import { only } from "./Shapes.ts"
import { readIntrospection } from "./Snapshot.ts"

const largestCache = 10_000

interface Seen {
  readonly introspection: Option.Option<Introspection>
  readonly at: number
}

export interface IntrospectionClient
  extends Pick<IamService, "introspect" | "introspectFor" | "introspectionPause"> {
  /** Drops everything remembered: revoking a refresh token ends access tokens that IAM does not name. */
  readonly forget: Effect.Effect<void>
}

/**
 * With `cacheSeconds` above 0 a live answer of `introspect` is remembered for that long, never past the token's own
 * end; any revocation and any refused refresh of ours drops all of them. `introspectFor` always asks.
 */
export const makeIntrospection = (
  call: PlaneCall,
  options: { readonly applicationId: string; readonly cacheSeconds: number }
): Effect.Effect<IntrospectionClient, never, Scope.Scope> =>
  Effect.gen(function* () {
    const pausedUntil = new Map<PlaneId, number>()
    const cache = yield* makeRemembered<Seen, UpstreamFailure>({
      capacity: largestCache,
      millis: options.cacheSeconds * 1_000,
      keep: ({ introspection }) => Option.isSome(introspection)
    })

    const pause = (plane: Plane, seconds: number) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        for (const [id, until] of pausedUntil) if (until <= now) pausedUntil.delete(id)
        const id = planeId(plane)
        pausedUntil.set(id, Math.max(pausedUntil.get(id) ?? 0, now + seconds * 1_000))
      })

    const ask = (plane: Plane, token: Redacted.Redacted, organisation: Option.Option<string>) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        return yield* call(plane, {
          operation: "introspect",
          method: "POST",
          path: "/oauth/introspect",
          form: { token: Redacted.value(token), token_type_hint: "access_token" },
          ...(Option.isSome(organisation) ? { headers: { "x-org-id": organisation.value } } : {}),
          read: only(
            200,
            readIntrospection(
              {
                applicationId: options.applicationId,
                environmentId: environmentIdOf(plane),
                organisation
              },
              now
            )
          )
        })
      }).pipe(
        Effect.tapErrorTag("Refused", ({ retryAfterSeconds, status }) =>
          status === 429 ? pause(plane, retryAfterSeconds ?? 1) : Effect.void
        )
      )

    const live = (plane: Plane, token: Redacted.Redacted) => ask(plane, token, Option.none())

    const remembered = (plane: Plane, token: Redacted.Redacted) =>
      Effect.gen(function* () {
        const key = `${planeId(plane)} ${digestOf(token)}`
        const { at, introspection } = yield* cache.get(
          key,
          Effect.zipWith(Clock.currentTimeMillis, live(plane, token), (at, introspection) => ({
            at,
            introspection
          }))
        )
        if (Option.isNone(introspection)) return introspection
        // IAM's clock goes on while the answer lies here.
        const answeredAt = introspection.value.answeredAt + (yield* Clock.currentTimeMillis) - at
        if (answeredAt < introspection.value.expiresAt * 1_000)
          return Option.some({ ...introspection.value, answeredAt })
        yield* cache.forget(key)
        return yield* live(plane, token)
      })

    return {
      introspect: Effect.fn("Iam.introspect")(options.cacheSeconds > 0 ? remembered : live),
      introspectFor: Effect.fn("Iam.introspectFor")((plane, token, organisation) =>
        ask(plane, token, Option.some(organisation))
      ),
      introspectionPause: (plane) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          const left = (pausedUntil.get(planeId(plane)) ?? now) - now
          return left > 0 ? Option.some(Math.ceil(left / 1_000)) : Option.none()
        }),
      forget: cache.clear
    }
  })
