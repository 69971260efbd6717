/** The exchange of an SLT or of a refresh token for a pair of tokens (identity-service.md 5). */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { OrganisationId } from "../../schema/Identity.ts"
import { accessTokenPattern, refreshTokenPattern } from "../../schema/Patterns.ts"
import { monotonicNow } from "../../services/FiberContext.ts"
import type { IamService, TokenGrant, UpstreamKey } from "../../services/Iam.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { actorDigest } from "../../services/Store.ts"
import { traced } from "../../services/Tracing.ts"
import { Refused, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { expectStatus, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"
import type { IamBudget } from "./budget/IamBudget.ts"
import { type KnownCredentials, tokenKey } from "./budget/KnownCredentials.ts"
import type { IamPath, Purpose } from "./budget/Purpose.ts"
import type { PlaneCall } from "./IamCall.ts"
import { ConsistentActor, omittable, parseScope } from "./IamSchemas.ts"
import type { IntrospectionHealth } from "./IntrospectionHealth.ts"
import { refusesSecret } from "./OwnSecret.ts"
import type { Revocation } from "./Revocation.ts"
import type { StoredSessions } from "./StoredSessions.ts"

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

const tokensPath: IamPath = "/app-auth/tokens"

/** Codes that end a refresh token (identity-service.md 3). */
const deadTokenCodes: ReadonlyArray<string> = ["invalid_grant", "refresh_token_reuse", "invalid_token"]

/** IAM refused the presented credential itself. */
const refusesCredential = (refused: Refused): boolean =>
  refused.status !== 429 && refused.code !== "idempotency_in_progress" && !refusesSecret(refused)

type TokenExchange = Pick<IamService, "exchange" | "refresh">

export const makeTokenExchange = (
  call: PlaneCall,
  budget: IamBudget,
  known: KnownCredentials,
  health: Pick<IntrospectionHealth, "spendWhileWorking">,
  revocation: Pick<Revocation, "mayHaveRevoked">,
  stored: Pick<StoredSessions, "recall" | "remember" | "forgetLogin">,
  { applicationId, applicationSecret }: SettingsValues["iam"]
): TokenExchange => {
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
      budget.within({ plane: planeId(plane), path: tokensPath }, purpose, () => (exit) => {
        // A refusal, or a lost response, may have ended the family: a second use of the token revokes it.
        if (Option.isSome(refreshed) && Exit.isFailure(exit))
          revocation.mayHaveRevoked(known.inFamilyOf(plane, presented))(exit)
      }),
      Effect.tapErrorTag("Refused", (refused) => {
        if (!refusesCredential(refused)) return Effect.void
        const isDead = Option.isSome(refreshed) && deadTokenCodes.includes(refused.code)
        // A call without a response ends nothing that this process knows of: it may have been a repetition under the same key.
        if (!isDead) return budget.recordRefusal(credential, "this_call", use)
        known.endFamily(known.inFamilyOf(plane, presented))
        const login = known.loginOf(credential)
        return Effect.zipRight(
          budget.recordRefusal(credential, "dead_refresh_token", use),
          stored.forgetLogin(login)
        )
      })
    )
    const sendReserved = budget.reserveIntrospection(plane, purpose, (place) =>
      Effect.withFiberRuntime<TokenGrant, UpstreamFailure>((fiber) =>
        Effect.map(send, (grant) => {
          const owner = Option.map(grant.actor, ({ public_id }) =>
            actorDigest(applicationSecret, planeId(plane), public_id)
          )
          known.recordGrant(plane, grant, refreshed, place, monotonicNow(fiber), Option.getOrUndefined(owner))
          return grant
        })
      )
    )
    return health
      .spendWhileWorking(
        plane,
        refreshed
      )(sendReserved)
      .pipe(Effect.tap((grant) => stored.remember(plane, grant, refreshed)))
  }

  const refresh: IamService["refresh"] = (plane, token, key) =>
    Effect.suspend(() =>
      stored.recall(tokenKey(plane, token), () => spend(plane, "refresh_token", token, key))
    ).pipe(
      // identity-service.md 5: a refused refresh token is dead under every key.
      budget.unlessRefused(
        tokenKey(plane, token),
        Effect.failSync(() => new Refused({ dependency: "iam", status: 400, code: "invalid_grant" }))
      ),
      traced("Iam.refresh")
    )

  return {
    exchange: (plane, slt, key) => traced("Iam.exchange")(spend(plane, "slt", slt, key)),
    refresh
  }
}
