import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as OpenApi from "@effect/platform/OpenApi"
import {
  LoginRequest,
  LoginSession,
  LogoutRequest,
  Me,
  RefreshRequest,
  Session
} from "../../schema/Session.ts"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import { BodyBound, NoStore } from "./EndpointAnnotations.ts"
import { admission, always, body, failures, identity, replay, session } from "./Failures.ts"
import { KeyHeaders, OrganisationHeaders } from "./DocumentedHeaders.ts"
import { Bearer, IdempotencyKey, PlaneSelection } from "./Middleware.ts"

export const login = HttpApiEndpoint.post("login", "/api/v1/auth/login")
  .setHeaders(KeyHeaders)
  .setPayload(LoginRequest)
  .addSuccess(LoginSession)
  .addError(always)
  .addError(admission)
  .addError(body)
  .addError(identity)
  .addError(replay)
  .addError(failures("slt_rejected", "reconsent_required"))
  .middleware(PlaneSelection)
  .middleware(IdempotencyKey)
  .annotate(BodyBound, bodyLimits.small)
  .annotate(NoStore, true)
  .annotateContext(
    OpenApi.annotations({
      summary: "Exchange a short-lived token for a session",
      description:
        "The token works once; a retry with the same `Idempotency-Key` within 10 minutes replays the result. Derive the key from the token. A login also registers the actor as a notification recipient; `ting` is the outcome and never fails the login."
    })
  )

export const refresh = HttpApiEndpoint.post("refresh", "/api/v1/auth/refresh")
  .setHeaders(KeyHeaders)
  .setPayload(RefreshRequest)
  .addSuccess(Session)
  .addError(always)
  .addError(admission)
  .addError(body)
  .addError(identity)
  .addError(replay)
  .addError(failures("unauthenticated", "reconsent_required"))
  .middleware(PlaneSelection)
  .middleware(IdempotencyKey)
  .annotate(BodyBound, bodyLimits.small)
  .annotate(NoStore, true)
  .annotateContext(
    OpenApi.annotations({
      summary: "Rotate a refresh token",
      description:
        "The presented token is consumed. Retry an uncertain refresh with the same `Idempotency-Key` within 10 minutes; a consumed token under a new key revokes its whole family. Only a 401 means that the session has ended. Scopes are never added."
    })
  )

export const logout = HttpApiEndpoint.post("logout", "/api/v1/auth/logout")
  .setHeaders(KeyHeaders)
  .setPayload(LogoutRequest)
  .addSuccess(HttpApiSchema.NoContent.annotations({ description: "Revoked" }))
  .addError(always)
  .addError(admission)
  .addError(body)
  .addError(identity)
  .addError(failures("idempotency_conflict", "idempotency_in_progress"))
  .middleware(PlaneSelection)
  .middleware(IdempotencyKey)
  .annotate(BodyBound, bodyLimits.small)
  .annotate(NoStore, true)
  .annotateContext(
    OpenApi.annotations({
      summary: "End a session",
      description:
        "A refresh token revokes its whole family, also when already rotated; an access token revokes itself. A token that IAM does not know is 204 (RFC 7009)."
    })
  )

export const me = HttpApiEndpoint.get("me", "/api/v1/auth/me")
  .setHeaders(OrganisationHeaders)
  .addSuccess(Me)
  .addError(always)
  .addError(admission)
  .addError(identity)
  .addError(session)
  .middleware(PlaneSelection)
  .middleware(Bearer)
  .annotate(NoStore, true)
  .annotateContext(
    OpenApi.annotations({
      summary: "The live session",
      description:
        "The token is introspected with the identity service at every call, so a revocation takes effect at once. A live token that does not reach the organisation is 403; only a dead token is 401."
    })
  )

export class AuthApi extends HttpApiGroup.make("auth")
  .add(login)
  .add(refresh)
  .add(logout)
  .add(me)
  .annotateContext(OpenApi.annotations({ title: "Sessions", description: "Application sessions" })) {}
