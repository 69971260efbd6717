import * as Schema from "effect/Schema"
import { about, described, named, optionalText, request } from "./Fields.ts"
import { Actor, EnvironmentId, OrganisationId } from "./Identity.ts"

const sessionFields = {
  access_token: described("Bearer credential, starts with `oat_`"),
  refresh_token: described("Rotated on every refresh, starts with `ort_`"),
  token_type: Schema.Literal("Bearer"),
  expires_in: Schema.NonNegativeInt.annotations({
    description: "Remaining lifetime of the access token in seconds, also on a replay"
  }),
  scope: described("Granted scopes, ascending, separated by one space"),
  actor: Actor,
  org_id: OrganisationId,
  org_ids: about(Schema.Array(OrganisationId), "Organisations granted, ascending"),
  testing_environment_id: EnvironmentId
}

/** What refresh returns; login adds `ting`. */
export const Session = named("Session", sessionFields)
export type Session = typeof Session.Type

/** Outcome of registering the actor as a notification recipient; it never fails the login. */
export const TingOutcome = named("TingOutcome", {
  subscribed: Schema.Boolean,
  subscription_id: optionalText.annotations({
    description: "Starts with `sub_`; present when registered"
  }),
  error: optionalText.annotations({
    description: "Error code of a failed registration, for example `dependency_unavailable`"
  })
})
export type TingOutcome = typeof TingOutcome.Type

export const LoginSession = named("LoginSession", { ...sessionFields, ting: TingOutcome })

export const LoginRequest = request("LoginRequest", {
  slt: Schema.String.pipe(Schema.pattern(/^[\x21-\x7e]{1,8192}$/)).annotations({
    description:
      "Single-use short-lived token, 1 to 8192 visible ASCII characters; in a testing plane it may be a test public id",
    message: () => "must be 1 to 8192 visible ASCII characters"
  })
})

export const RefreshRequest = request("RefreshRequest", {
  refresh_token: described("The session's current refresh token, starts with `ort_`")
})

export const LogoutRequest = request("LogoutRequest", {
  token: described(
    "A refresh token (`ort_`, revokes its whole family) or an access token (`oat_`, revokes itself). Any other string is answered with 204 as well: it names no session (RFC 7009)"
  )
})

export const Me = named("Me", {
  authenticated: Schema.Literal(true),
  actor: Actor,
  org_id: OrganisationId,
  membership_id: Schema.String.annotations({ examples: ["si:deejay[acme]"] }),
  session_id: described("IAM's session UUID"),
  scopes: Schema.Array(Schema.String),
  ting_ready: Schema.Boolean.annotations({
    description: "The actor is registered as a recipient in this organisation and the token may send"
  }),
  testing_environment_id: EnvironmentId
})
export type Me = typeof Me.Type
