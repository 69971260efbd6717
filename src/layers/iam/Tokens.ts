/** The exchange, rotation and revocation of tokens (identity-service.md 5, 7). */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import { constFalse } from "effect/Function"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { OrganisationId } from "../../schema/Identity.ts"
import { accessTokenPattern, refreshTokenPattern } from "../../schema/Patterns.ts"
import type { IamService, TokenGrant, UpstreamKey } from "../../services/Iam.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import { traced } from "../../services/Tracing.ts"
import { Refused, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { expect, expectStatus, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"
import type { Budget, IamPath } from "./Budget.ts"
import { type Credentials, tokenKey } from "./Credentials.ts"
import { type PlaneCall, refusesSecret } from "./IamCall.ts"
import { ConsistentActor, omittable, parseScope } from "./IamSchemas.ts"
import type { IntrospectionClient } from "./Introspection.ts"
import type { IntrospectionHealth } from "./IntrospectionHealth.ts"

const Tokens = Schema.Struct({
  access_token: Schema.Redacted(Schema.String.pipe(Schema.pattern(accessTokenPattern))),
  refresh_token: Schema.Redacted(Schema.String.pipe(Schema.pattern(refreshTokenPattern))),
  token_type: Schema.Literal("Bearer"),
  expires_in: Schema.Int.pipe(Schema.positive()),
  scope: Schema.String,
  actor: omittable(ConsistentActor),
  org_id: omittable(OrganisationId)
})

const readBody = readJson(Tokens)

const readTokens: ResponseReader<TokenGrant> = (answer) =>
  Either.map(readBody(answer), (tokens) => ({
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

/** IAM refused the presented credential itself. */
const refusesCredential = (refused: Refused): boolean =>
  refused.status !== 429 && refused.code !== "idempotency_in_progress" && !refusesSecret(refused)

/** True when the call certainly had no effect. An interrupted call, or one without an answer, may have had one. */
const hadNoEffect = Exit.match({
  onSuccess: () => false,
  onFailure: (cause: Cause.Cause<UpstreamFailure>) =>
    Option.exists(
      Cause.failureOption(cause),
      (failure) => failure._tag === "NotExecuted" || (failure._tag === "Refused" && failure.status === 429)
    )
})

export const makeTokens = (
  call: PlaneCall,
  budget: Budget,
  credentials: Credentials,
  { spendWhileWorking }: Pick<IntrospectionHealth, "spendWhileWorking">,
  { forgetWhere }: Pick<IntrospectionClient, "forgetWhere">,
  applicationId: string
): Pick<IamService, "exchange" | "refresh" | "revoke"> => {
  /** Around a call that may end tokens: their cached introspections are dropped, and those in flight. */
  const forgetting =
    (plane: Plane, token: Redacted.Redacted) =>
    <A>(sent: Effect.Effect<A, UpstreamFailure>): Effect.Effect<A, UpstreamFailure> =>
      Effect.suspend(() => {
        const inLogin = credentials.inLoginOf(plane, token)
        return Effect.onExit(sent, (exit) =>
          Effect.sync(() => {
            if (!hadNoEffect(exit)) forgetWhere(inLogin)
          })
        )
      })

  /** Takes the place of the introspection that completes it before it spends: a spent token without a usable new pair is a lost session. */
  const spend = (
    plane: Plane,
    use: "login" | "refresh",
    presented: Redacted.Redacted,
    key: UpstreamKey
  ): Effect.Effect<TokenGrant, UpstreamFailure> => {
    const credential = tokenKey(plane, presented)
    const refreshed = use === "refresh" ? Option.some(presented) : Option.none()
    const send = call(plane, {
      operation: use === "login" ? "exchange" : "refresh",
      method: "POST",
      path: tokensPath,
      key,
      form: { app_id: applicationId, [use === "login" ? "slt" : "refresh_token"]: Redacted.value(presented) },
      read: expectStatus(200, readTokens)
    }).pipe(
      use === "refresh" ? forgetting(plane, presented) : (sent) => sent,
      Effect.tapErrorTag("Refused", (refused) => {
        if (!refusesCredential(refused)) return Effect.void
        if (use === "login") return budget.recordRefusedLogin
        // A refusal of this call only says nothing of the token, and it is not repeated.
        return deadTokenCodes.includes(refused.code)
          ? credentials.recordRefusal(credential, "dead_refresh_token")
          : Effect.sync(() => credentials.forget(credential))
      })
    )
    const counted = { plane: planeId(plane), path: tokensPath }
    return budget
      .withinExchange(counted, { credential, use }, (kept) =>
        Effect.tap(send, (grant) => credentials.recordGrant(plane, grant, refreshed, kept))
      )
      .pipe(spendWhileWorking(plane, refreshed))
  }

  const refresh: IamService["refresh"] = (plane, token, key) => {
    const credential = tokenKey(plane, token)
    return credentials.recalling(credential, spend(plane, "refresh", token, key)).pipe(
      // identity-service.md 5: a refused refresh token is dead under every key.
      credentials.unlessRefused(
        credential,
        Effect.failSync(() => new Refused({ dependency: "iam", status: 400, code: "invalid_grant" }))
      ),
      traced("Iam.refresh")
    )
  }

  const revoke: IamService["revoke"] = (plane, token, key) => {
    const value = Redacted.value(token)
    const credential = tokenKey(plane, token)
    const isRefreshToken = value.startsWith("ort_")
    const send = call(plane, {
      operation: "revoke",
      method: "POST",
      path: revokePath,
      key,
      form: {
        token: value,
        token_type_hint: isRefreshToken ? "refresh_token" : "access_token"
      },
      read: expectStatus(200, readEmpty)
    }).pipe(
      forgetting(plane, token),
      Effect.onExit((exit) =>
        Effect.sync(() => {
          if (!hadNoEffect(exit)) credentials.endReceipt(credential, isRefreshToken)
        })
      ),
      // IAM answers the same about unknown tokens.
      budget.within({ plane: planeId(plane), path: revokePath }, { credential, use: "logout" }, constFalse),
      Effect.zipLeft(
        isRefreshToken ? credentials.endLogin(credential) : credentials.endAccessToken(credential)
      )
    )
    return credentials.recalling(credential, send).pipe(traced("Iam.revoke"))
  }

  return {
    exchange: (plane, slt, key) => traced("Iam.exchange")(spend(plane, "login", slt, key)),
    refresh,
    revoke
  }
}
