/** The token lifecycle at IAM: SLT exchange, refresh and revocation (identity-service.md 5, 7). */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { accessTokenPattern, OrganisationId, refreshTokenPattern } from "../../schema/Identity.ts"
import type { IamService, TokenGrant, UpstreamKey } from "../../services/Iam.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import { Refused, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { expect, expectStatus, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"
import { type CredentialCache, refusalMillis, tokenKey } from "./budget/CredentialCache.ts"
import type { IamBudget, IamPath, Purpose } from "./budget/IamBudget.ts"
import type { PlaneCall } from "./IamCall.ts"
import type { IntrospectionClient } from "./Introspection.ts"
import type { IntrospectionHealth } from "./IntrospectionHealth.ts"
import { ConsistentActor, omittable, parseScope } from "./IamSchemas.ts"

const Tokens = Schema.Struct({
  access_token: Schema.Redacted(Schema.String.pipe(Schema.pattern(accessTokenPattern))),
  refresh_token: Schema.Redacted(Schema.String.pipe(Schema.pattern(refreshTokenPattern))),
  token_type: Schema.Literal("Bearer"),
  expires_in: Schema.Int.pipe(Schema.positive()),
  scope: Schema.String,
  actor: omittable(ConsistentActor),
  org_id: omittable(OrganisationId)
})

const readTokens: ResponseReader<TokenGrant> = (answer) =>
  Either.map(readJson(Tokens)(answer), (tokens) => ({
    accessToken: tokens.access_token,
    refreshToken: tokens.refresh_token,
    expiresInSeconds: tokens.expires_in,
    scopes: parseScope(tokens.scope),
    actor: tokens.actor,
    organisation: tokens.org_id,
    replayed: answer.headers["idempotency-replayed"] === "true"
  }))

/** A body shows that another system answered. */
const readEmpty: ResponseReader<void> = ({ body }) => expect(body.length === 0, "has a body")

const tokensPath: IamPath = "/app-auth/tokens"
const revokePath: IamPath = "/oauth/revoke"

/** Codes that end a refresh token (identity-service.md 3). */
const deadTokenCodes: ReadonlyArray<string> = ["invalid_grant", "refresh_token_reuse", "invalid_token"]
/** Codes about the application's own secret. */
const ownSecretCodes: ReadonlyArray<string> = ["invalid_client", "unauthenticated"]

/** IAM refused the presented credential itself. */
const refusesCredential = ({ code, status }: Refused): boolean =>
  status !== 429 && code !== "idempotency_in_progress" && !ownSecretCodes.includes(code)

/** True when the call certainly had no effect. An interrupted call, or one without a response, may have had one. */
const hadNoEffect = (exit: Exit.Exit<unknown, UpstreamFailure>): boolean =>
  Exit.isFailure(exit) &&
  Option.exists(
    Cause.failureOption(exit.cause),
    (failure) => failure._tag === "NotExecuted" || (failure._tag === "Refused" && failure.status === 429)
  )

type TokenExchange = Pick<IamService, "exchange" | "refresh" | "revoke">

export const makeTokenExchange = (
  call: PlaneCall,
  budget: IamBudget,
  credentials: CredentialCache,
  health: Pick<IntrospectionHealth, "ensureWorking">,
  introspection: Pick<IntrospectionClient, "forgetWhere">,
  applicationId: string
): TokenExchange => {
  const endFamily = (matches: (key: string) => boolean): Effect.Effect<void> =>
    Effect.zipRight(
      Effect.sync(() => credentials.endFamily(matches)),
      introspection.forgetWhere(matches)
    )

  /** Ensures introspection and reserves its place before it spends: a spent token without a usable new pair is a lost session. */
  const spend = (
    plane: Plane,
    field: "slt" | "refresh_token",
    presented: Redacted.Redacted,
    key: UpstreamKey
  ): Effect.Effect<TokenGrant, UpstreamFailure> => {
    const credential = tokenKey(plane, presented)
    const refreshed = field === "refresh_token" ? Option.some(presented) : Option.none()
    const use = field === "slt" ? "login" : "refresh"
    const purpose: Purpose = { credential, use }
    const send = call(plane, {
      operation: field === "slt" ? "exchange" : "refresh",
      method: "POST",
      path: tokensPath,
      key,
      form: { app_id: applicationId, [field]: Redacted.value(presented) },
      read: expectStatus(200, readTokens)
    }).pipe(
      budget.within({ plane: planeId(plane), path: tokensPath }, purpose),
      // A refusal, or a lost response, may have ended the family: a second use of the token revokes it.
      Effect.onExit((exit) =>
        Option.isNone(refreshed) || Exit.isSuccess(exit) || hadNoEffect(exit)
          ? Effect.void
          : endFamily(credentials.inFamilyOf(plane, presented))
      ),
      Effect.tapErrorTag("Refused", (refused) => {
        if (!refusesCredential(refused)) return Effect.void
        const isDead = Option.isSome(refreshed) && deadTokenCodes.includes(refused.code)
        return budget.recordRefusal(credential, isDead ? refusalMillis.refresh : 0, use)
      })
    )
    const sendReserved = budget.reserveIntrospection(plane, purpose, (place) =>
      Effect.tap(send, (grant) =>
        Effect.map(monotonicMillis, (now) => credentials.recordGrant(plane, grant, refreshed, place, now))
      )
    )
    return Effect.zipRight(health.ensureWorking(plane, refreshed), sendReserved)
  }

  const refresh: IamService["refresh"] = (plane, token, key) =>
    Effect.gen(function* () {
      // identity-service.md 5: a refused refresh token is dead under every key.
      if (credentials.isRefused(tokenKey(plane, token), yield* monotonicMillis)) {
        return yield* new Refused({ dependency: "iam", status: 400, code: "invalid_grant" })
      }
      return yield* spend(plane, "refresh_token", token, key)
    })

  const revoke: IamService["revoke"] = (plane, token, key) =>
    Effect.suspend(() => {
      const value = Redacted.value(token)
      const isRefreshToken = value.startsWith("ort_")
      const credential = tokenKey(plane, token)
      const inFamily = credentials.inFamilyOf(plane, token)
      return call(plane, {
        operation: "revoke",
        method: "POST",
        path: revokePath,
        key,
        form: { token: value, token_type_hint: isRefreshToken ? "refresh_token" : "access_token" },
        read: expectStatus(200, readEmpty)
      }).pipe(
        budget.within({ plane: planeId(plane), path: revokePath }, { credential, use: "session" }),
        // After the call, unless it had no effect: cached introspections may be stale.
        Effect.onExit((exit) =>
          hadNoEffect(exit)
            ? Effect.void
            : endFamily((other) => other === credential || (isRefreshToken && inFamily(other)))
        ),
        Effect.tap(() => Effect.sync(() => credentials.forget(credential)))
      )
    })

  return {
    exchange: Effect.fn("Iam.exchange")((plane, slt, key) => spend(plane, "slt", slt, key)),
    refresh: Effect.fn("Iam.refresh")(refresh),
    revoke: Effect.fn("Iam.revoke")(revoke)
  }
}
