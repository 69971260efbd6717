/** Identifiers and credentials of identity-service.md 2 that cross the boundary of this service. */
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { about, named } from "./Fields.ts"
import { organisationPattern, publicIdPattern } from "./Patterns.ts"

export const PublicId = Schema.String.pipe(Schema.pattern(publicIdPattern)).annotations({
  identifier: "PublicId",
  description: "Public id of an actor: `c:<name>` for a Carbon, `si:<name>` for a Silicon",
  examples: ["si:deejay"]
})

export const ActorType = Schema.Literal("carbon", "silicon")
export type ActorType = typeof ActorType.Type

/** The type that the prefix of a public id names. */
export const actorTypeOf = (publicId: string): ActorType =>
  publicId.startsWith("si:") ? "silicon" : "carbon"

export const Actor = named("Actor", {
  type: about(ActorType, "`silicon` for a Silicon, `carbon` for a Carbon"),
  public_id: PublicId
})
export type Actor = typeof Actor.Type

export const OrganisationId = Schema.String.pipe(Schema.pattern(organisationPattern)).annotations({
  description: "Handle of an organisation",
  examples: ["acme"]
})

export const EnvironmentId = Schema.NullOr(Schema.String).annotations({
  description: "UUID of the IAM testing environment, null outside a testing plane"
})

/** Scopes that a login requests; a call whose scope is missing answers `reconsent_required`. */
export const scopes = {
  identity: "self.identity.read",
  profile: "self.profile.read",
  register: "obo:ting:subscriptions.register",
  send: "obo:ting:tings.send"
} as const

/** In ascending order, as IAM lists them. */
export const requestedScopes = [scopes.register, scopes.send, scopes.identity, scopes.profile] as const

/** An access token and the organisation it is used for, as sent: the form is checked, and IAM has verified neither. */
export interface Credential {
  readonly token: Redacted.Redacted
  readonly organisation: string
}
