/** The exchange, rotation, revocation and introspection of tokens (identity-service.md 5 to 7). */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { makeShare } from "../../services/combinators/Share.ts"
import type { IamService, Introspection, TokenGrant } from "../../services/Iam.ts"
import { monotonicMillis, unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { type Plane, type PlaneId, planeId } from "../../services/Plane.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { failureOf, NotExecuted, Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { readEmpty, readIntrospection, readTokens } from "./Answers.ts"
import { type Credentials, tokenKey } from "./Credentials.ts"
import { type Ask, formOf, introspectPath, refusedAs, refusesToken } from "./IamCall.ts"

const maxCachedTokens = 10_000
/** Milliseconds between two probes of a plane. */
const probePause = 1_000

/** Well formed, and never issued. */
const neverIssuedToken = Redacted.make(`oat_${"0".repeat(43)}`)
const unspent = new NotExecuted({ dependency: "iam", reason: "introspection fails", retryAfterSeconds: 1 })

/**
 * Concurrent introspections of one token share one call. With `introspectionCacheSeconds` above 0 a live answer is cached for that long,
 * unless its token ends sooner; a login or refresh is completed by no cached one. A token that IAM called inactive is not introspected
 * again for a while (`Credentials`), which is longer than any answer is cached.
 */
export const makeTokens = (
  ask: Ask,
  credentials: Credentials,
  { applicationId, introspectionCacheSeconds }: SettingsValues["iam"]
) =>
  Effect.gen(function* () {
    /** When the next probe is due in the planes whose last introspection failed. */
    const failing = new Map<PlaneId, number>()
    const millis = introspectionCacheSeconds * 1_000
    const cache = yield* makeShare<Option.Option<Introspection>, UpstreamFailure>(
      millis,
      maxCachedTokens,
      Option.exists(({ answeredAt, expires_at }) => answeredAt + millis <= expires_at * 1_000)
    )

    const introspectOnce = (plane: Plane, token: Redacted.Redacted, credential?: string) => {
      const id = planeId(plane)
      return ask(plane, {
        operation: "introspect",
        path: introspectPath,
        body: formOf({ token: Redacted.value(token), token_type_hint: "access_token" }),
        credential,
        read: readIntrospection(plane, applicationId)
      }).pipe(
        Effect.tapBoth({
          onSuccess: () => Effect.sync(() => failing.delete(id)),
          onFailure: (failure) =>
            Effect.sync(() => {
              // A 429 has its own pause.
              const isFault = failure._tag === "Refused" ? failure.status !== 429 : failure.isLate !== true
              if (isFault) failing.set(id, failing.get(id) ?? 0)
            })
        })
      )
    }

    const introspect: IamService["introspect"] = (plane, token) => {
      const key = tokenKey(plane, token)
      const asked = Effect.gen(function* () {
        const introspection = yield* introspectOnce(plane, token, key)
        if (Option.isSome(introspection)) credentials.confirm(plane, key, introspection.value.public_id)
        else if (!credentials.isJustReceived(key, yield* monotonicMillis))
          yield* credentials.recordRefusal(key, "access")
        else
          return yield* new Unknown({
            dependency: "iam",
            reason: "reports a token as inactive that it has just issued or replayed"
          })
        return introspection
      })
      return cache.get(key, asked).pipe(credentials.unlessRefused(key, Effect.succeedNone))
    }

    /** Around a call that may end tokens: the cached introspections of their login are dropped, and those in flight. */
    const forgetting =
      (plane: Plane, token: Redacted.Redacted) =>
      <A>(sent: Effect.Effect<A, UpstreamFailure>): Effect.Effect<A, UpstreamFailure> =>
        Effect.onExit(sent, (exit) =>
          Effect.sync(() => {
            const failure = failureOf(exit)
            // A call that was interrupted, or has no answer, may have had its effect.
            const hadNone =
              failure?._tag === "Refused" ? failure.status === 429 : failure?._tag === "NotExecuted"
            if (!hadNone) cache.forgetWhere(credentials.inLoginOf(plane, token))
          })
        )

    /**
     * Exchanges a token for a pair, with a place for the introspection that completes the exchange: without one its session is lost. So
     * nothing is spent while introspection fails in the plane; one exchange a second probes it first, with a token that was never issued.
     */
    const spend =
      (operation: "exchange" | "refresh"): IamService["exchange"] =>
      (plane, presented, key) => {
        const id = planeId(plane)
        const isRefresh = operation === "refresh"
        const spent = Effect.tap(
          ask(plane, {
            operation,
            path: "/app-auth/tokens",
            key,
            body: formOf({
              app_id: applicationId,
              [isRefresh ? "refresh_token" : "slt"]: Redacted.value(presented)
            }),
            credential: tokenKey(plane, presented),
            read: readTokens,
            completedBy: (grant) => tokenKey(plane, grant.accessToken)
          }),
          (grant) => {
            cache.forget(tokenKey(plane, grant.accessToken))
            return credentials.recordGrant(plane, grant, isRefresh ? presented : undefined)
          }
        )
        return Effect.clockWith((clock): Effect.Effect<TokenGrant, UpstreamFailure> => {
          const now = unsafeMonotonicMillis(clock)
          const probeAt = failing.get(id)
          if (probeAt === undefined) return spent
          if (now < probeAt) return unspent
          failing.set(id, now + probePause)
          // A refusal of the probe's token says nothing of the one that was presented.
          const probe = Effect.mapError(introspectOnce(plane, neverIssuedToken), (failure) =>
            failure._tag === "Refused" && refusesToken(failure) ? unspent : failure
          )
          return Effect.zipRight(probe, spent)
        })
      }

    const refresh: IamService["refresh"] = (plane, token, key) => {
      const credential = tokenKey(plane, token)
      return spend("refresh")(plane, token, key).pipe(
        forgetting(plane, token),
        credentials.recordingRefusal(credential, "refresh", refusesToken),
        // identity-service.md 5: a refused refresh token is dead under every key.
        credentials.unlessRefused(credential, refusedAs(400, "invalid_grant"))
      )
    }

    const revoke: IamService["revoke"] = (plane, token, key) => {
      const kind = Redacted.value(token).startsWith("ort_") ? "refresh" : "access"
      const credential = tokenKey(plane, token)
      return ask(plane, {
        operation: "revoke",
        path: "/oauth/revoke",
        key,
        body: formOf({ token: Redacted.value(token), token_type_hint: `${kind}_token` }),
        credential,
        read: readEmpty
      }).pipe(forgetting(plane, token), Effect.zipLeft(credentials.recordRefusal(credential, kind)))
    }

    return {
      exchange: spend("exchange"),
      refresh,
      revoke,
      introspect,
      /** Drops the cached introspections of the tokens whose `tokenKey` matches, and those in flight. */
      forgetWhere: cache.forgetWhere
    }
  })
