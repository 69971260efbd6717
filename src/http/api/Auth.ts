import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import {
  LoginRequest,
  LoginSession,
  LogoutRequest,
  Me,
  RefreshRequest,
  Session
} from "../../schema/Session.ts"
import { Sessions } from "../../services/usecases/Sessions.ts"
import { Calls, noteActor } from "../middleware/Calls.ts"
import { Bearer, IdempotencyKey, PlaneSelection } from "../middleware/SentHeaders.ts"
import { admitted, failures, replay, Traits, withBody } from "./Endpoint.ts"

export const login = HttpApiEndpoint.post("login", "/api/v1/auth/login")
  .setPayload(LoginRequest)
  .addSuccess(LoginSession)
  .addError(
    failures(...withBody, ...replay, "slt_rejected", "reconsent_required", "dependency_misconfigured")
  )
  .middleware(PlaneSelection)
  .middleware(IdempotencyKey)
  .annotate(Traits, { bodyBound: bodyLimits.small })
  .annotate(OpenApi.Summary, "Exchange a short-lived token for a session")
  .annotate(
    OpenApi.Description,
    "The token works once; a retry with the same `Idempotency-Key` within 10 minutes replays the result. Derive the key from the token. A login also registers the actor as a notification recipient; `ting` is the outcome and never fails the login."
  )

export const refresh = HttpApiEndpoint.post("refresh", "/api/v1/auth/refresh")
  .setPayload(RefreshRequest)
  .addSuccess(Session)
  .addError(
    failures(...withBody, ...replay, "unauthenticated", "reconsent_required", "dependency_misconfigured")
  )
  .middleware(PlaneSelection)
  .middleware(IdempotencyKey)
  .annotate(Traits, { bodyBound: bodyLimits.small })
  .annotate(OpenApi.Summary, "Rotate a refresh token")
  .annotate(
    OpenApi.Description,
    "The presented token is consumed. Retry an uncertain refresh with the same `Idempotency-Key` within 10 minutes; a consumed token under a new key revokes its whole family. Only a 401, and a 409 `idempotency_response_expired`, mean that the session has ended. Scopes are never added."
  )

export const logout = HttpApiEndpoint.post("logout", "/api/v1/auth/logout")
  .setPayload(LogoutRequest)
  .addSuccess(HttpApiSchema.NoContent)
  .addError(
    failures(...withBody, "idempotency_conflict", "idempotency_in_progress", "dependency_misconfigured")
  )
  .middleware(PlaneSelection)
  .middleware(IdempotencyKey)
  .annotate(Traits, { bodyBound: bodyLimits.small })
  .annotate(OpenApi.Summary, "End a session")
  .annotate(
    OpenApi.Description,
    "A refresh token revokes its whole family, also when already rotated; an access token revokes itself. A token that IAM does not know is 204 (RFC 7009)."
  )

export const me = HttpApiEndpoint.get("me", "/api/v1/auth/me")
  .addSuccess(Me)
  .addError(failures(...admitted, "dependency_misconfigured"))
  .middleware(PlaneSelection)
  .middleware(Bearer)
  .annotate(OpenApi.Summary, "The live session")
  .annotate(
    OpenApi.Description,
    "The token is introspected with the identity service at every call, so a revocation takes effect at once. A live token that does not reach the organisation is 403; only a dead token is 401."
  )

export class AuthApi extends HttpApiGroup.make("auth")
  .add(login)
  .add(refresh)
  .add(logout)
  .add(me)
  .annotate(OpenApi.Title, "Sessions")
  .annotate(OpenApi.Description, "Application sessions") {}

export const AuthLive = HttpApiBuilder.group(HttpApi.make("music").add(AuthApi), "auth", (handlers) =>
  Effect.gen(function* () {
    const { keyed, signedIn } = yield* Calls
    const sessions = yield* Sessions
    return handlers
      .handle("login", ({ payload: { slt } }) =>
        keyed((plane, key) => sessions.login(plane, { token: Redacted.make(slt), key })).pipe(
          Effect.tap(({ actor }) => noteActor(actor.type))
        )
      )
      .handle("refresh", ({ payload: { refresh_token } }) =>
        keyed((plane, key) => sessions.refresh(plane, { token: Redacted.make(refresh_token), key })).pipe(
          Effect.tap(({ actor }) => noteActor(actor.type))
        )
      )
      .handle("logout", ({ payload: { token } }) =>
        keyed((plane, key) => sessions.logout(plane, { token: Redacted.make(token), key }))
      )
      .handle("me", () => signedIn(sessions.me))
  })
)
