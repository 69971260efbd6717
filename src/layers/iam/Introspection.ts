/** Looking at an access token, live (identity-service.md 6). */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { IamService, Introspection } from "../../services/Iam.ts"
import { environmentIdOf, type Plane, type PlaneId, planeId } from "../../services/Plane.ts"
import type { UpstreamFailure } from "../../services/Upstream.ts"
import { type Acquaintances, tokenKey } from "./Acquaintances.ts"
import type { PlaneCall } from "./IamCall.ts"
import { makeRemembered } from "./Remembered.ts"
import { only } from "./Shapes.ts"
import { readIntrospection } from "./Snapshot.ts"
import { tried } from "./Tried.ts"

const largestCache = 10_000

interface Seen {
  readonly introspection: Option.Option<Introspection>
  readonly at: number
}

interface Pause {
  readonly until: number
  /** The newest look that had begun when IAM said so. */
  readonly after: number
}

export interface IntrospectionClient
  extends Pick<IamService, "introspect" | "introspectFor" | "introspectionPause"> {
  /** Drops what is remembered of these tokens, named by `tokenKey`. */
  readonly forgetWhere: (isOver: (key: string) => boolean) => Effect.Effect<void>
}

/**
 * With `cacheSeconds` above 0 a live answer of `introspect` is remembered for that long, never past the token's own
 * end. A token that IAM called inactive is not asked about again for a while, whatever the setting. `introspectFor` always
 * asks.
 */
export const makeIntrospection = (
  call: PlaneCall,
  acquaintances: Acquaintances,
  options: { readonly applicationId: string; readonly cacheSeconds: number }
): Effect.Effect<IntrospectionClient, never, Scope.Scope> =>
  Effect.gen(function* () {
    const pauses = new Map<PlaneId, Pause>()
    /** Looks that have begun. */
    let looks = 0
    const cache = yield* makeRemembered<Seen, UpstreamFailure>({
      capacity: largestCache,
      millis: options.cacheSeconds * 1_000,
      keep: ({ introspection }) => Option.isSome(introspection)
    })

    const pause = (plane: Plane, seconds: number) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        for (const [id, { until }] of pauses) if (until <= now) pauses.delete(id)
        const id = planeId(plane)
        pauses.set(id, { until: Math.max(pauses.get(id)?.until ?? 0, now + seconds * 1_000), after: looks })
      })

    /** IAM answers again: a success that began after the 429 says more than the 429 did. */
    const resume = (plane: Plane, look: number) => {
      const id = planeId(plane)
      if (look > (pauses.get(id)?.after ?? look)) pauses.delete(id)
    }

    const ask = (plane: Plane, token: Redacted.Redacted, organisation: Option.Option<string>) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        looks += 1
        const look = looks
        const seen = yield* call(plane, {
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
        resume(plane, look)
        return seen
      }).pipe(
        Effect.tapErrorTag("Refused", ({ retryAfterSeconds, status }) =>
          status === 429 ? pause(plane, retryAfterSeconds ?? 1) : Effect.void
        )
      )

    /** As `ask`, at the caller's cost. */
    const askFor = (plane: Plane, token: Redacted.Redacted, organisation: Option.Option<string>) =>
      Effect.suspend(() =>
        ask(plane, token, organisation).pipe(
          tried({
            vouched: acquaintances.isVouched(tokenKey(plane, token)),
            testing: plane._tag === "Testing",
            refuses: Option.isNone
          })
        )
      )

    const live = (
      plane: Plane,
      token: Redacted.Redacted
    ): Effect.Effect<Option.Option<Introspection>, UpstreamFailure> =>
      Effect.gen(function* () {
        const key = tokenKey(plane, token)
        if (acquaintances.isDead(key, yield* Clock.currentTimeMillis)) return Option.none()
        const seen = yield* askFor(plane, token, Option.none())
        if (Option.isSome(seen)) acquaintances.vouch(key)
        else acquaintances.died(key, yield* Clock.currentTimeMillis)
        return seen
      })

    const remembered = (plane: Plane, token: Redacted.Redacted) =>
      Effect.gen(function* () {
        const key = tokenKey(plane, token)
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
        askFor(plane, token, Option.some(organisation))
      ),
      introspectionPause: (plane) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          const left = (pauses.get(planeId(plane))?.until ?? now) - now
          return left > 0 ? Option.some(Math.ceil(left / 1_000)) : Option.none()
        }),
      forgetWhere: cache.forgetWhere
    }
  })
