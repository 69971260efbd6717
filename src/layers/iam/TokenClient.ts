/** SLT exchange and refresh (identity-service.md 5). */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { OrganisationId } from "../../schema/Identity.ts"
import type { IamService, TokenGrant, UpstreamKey } from "../../services/Iam.ts"
import type { Plane } from "../../services/Plane.ts"
import { type Read, readJson } from "../upstream/Answer.ts"
import type { PlaneCall } from "./IamCall.ts"
import { ConsistentActor, omittable, only, parseScope } from "./Shapes.ts"

// identity-service.md 2: opaque, up to 8192 characters; below 32 no token can be revoked (7).
const accessToken = /^oat_[A-Za-z0-9_-]{28,8188}$/
const refreshToken = /^ort_[A-Za-z0-9_-]{28,8188}$/

const Tokens = Schema.Struct({
  access_token: Schema.Redacted(Schema.String.pipe(Schema.pattern(accessToken))),
  refresh_token: Schema.Redacted(Schema.String.pipe(Schema.pattern(refreshToken))),
  token_type: Schema.Literal("Bearer"),
  expires_in: Schema.Int.pipe(Schema.positive()),
  scope: Schema.String,
  actor: omittable(ConsistentActor),
  org_id: omittable(OrganisationId)
})

const readTokens: Read<TokenGrant> = (answer) =>
  Either.map(readJson(Tokens)(answer), (tokens) => ({
    accessToken: tokens.access_token,
    refreshToken: tokens.refresh_token,
    expiresInSeconds: tokens.expires_in,
    scopes: parseScope(tokens.scope),
    actor: tokens.actor,
    organisation: tokens.org_id,
    replayed: answer.headers["idempotency-replayed"] === "true"
  }))

export const makeTokenClient = (
  call: PlaneCall,
  applicationId: string
): Pick<IamService, "exchange" | "refresh"> => {
  const spend = (
    plane: Plane,
    field: "slt" | "refresh_token",
    credential: Redacted.Redacted,
    key: UpstreamKey
  ) =>
    Effect.suspend(() =>
      call(plane, {
        operation: field === "slt" ? "exchange" : "refresh",
        method: "POST",
        path: "/app-auth/tokens",
        key,
        form: { app_id: applicationId, [field]: Redacted.value(credential) },
        read: only(200, readTokens)
      })
    )
  return {
    exchange: Effect.fn("Iam.exchange")((plane, slt, key) => spend(plane, "slt", slt, key)),
    refresh: Effect.fn("Iam.refresh")((plane, token, key) => spend(plane, "refresh_token", token, key))
  }
}
