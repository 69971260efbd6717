/** The introspection response, with every check that the contract recommends before it is trusted (identity-service.md 6). */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ActorType, OrganisationId, PublicId } from "../../schema/Identity.ts"
import { publicIdPattern } from "../../schema/Patterns.ts"
import type { Introspection, Membership } from "../../services/Iam.ts"
import { readJson, type UpstreamResponse } from "../upstream/UpstreamResponse.ts"
import { isOfType, Uuid } from "./IamSchemas.ts"

/** Absent and null are the same. Not `omittable`: its transformations made this decoding three times as slow. */
const disclosable = <A, I>(schema: Schema.Schema<A, I>) => Schema.optional(Schema.NullOr(schema))

const Authorization = Schema.Struct({
  actor_type: disclosable(ActorType),
  public_id: disclosable(PublicId),
  organization_id: Uuid,
  org_id: OrganisationId,
  membership_id: Schema.String,
  membership_version: Schema.Int.pipe(Schema.positive()),
  authorization_epoch: Schema.Int,
  audience: Schema.String,
  testing_environment_id: Schema.NullOr(Uuid),
  scopes: Schema.Array(Schema.String)
})
type Authorization = typeof Authorization.Type

const Live = Schema.Struct({
  active: Schema.Literal(true),
  public_id: disclosable(PublicId),
  actor_type: disclosable(ActorType),
  client_id: Schema.String,
  audience: Schema.String,
  org_id: disclosable(OrganisationId),
  membership_id: disclosable(Schema.String),
  session_id: Uuid,
  scope: Schema.String,
  issued_at: Schema.Int,
  expires_at: Schema.Int,
  authorization_epoch: Schema.Int,
  authorization: disclosable(Authorization),
  authorizations: disclosable(Schema.Array(Authorization))
})
type Live = typeof Live.Type

const readLiveOrInactive = readJson(Schema.Union(Schema.Struct({ active: Schema.Literal(false) }), Live))

/** Values that the response must match. */
export interface Expected {
  readonly applicationId: string
  /** The plane's environment, null in production. */
  readonly environmentId: string | null
}

/** A value, if IAM discloses it. */
type Disclosed<A> = A | null | undefined

/** An undisclosed value agrees with every value. */
const agrees = (disclosed: Disclosed<string>, value: string): boolean => (disclosed ?? value) === value

const fits = (publicId: Disclosed<string>, type: Disclosed<ActorType>): boolean =>
  publicId == null || type == null || isOfType(publicId, type)

/** The first of the checks that does not hold. */
const problemOf = (checks: ReadonlyArray<readonly [holds: boolean, otherwise: string]>): string | undefined =>
  checks.find(([holds]) => !holds)?.[1]

const authorizationsOf = ({ authorization, authorizations }: Live): ReadonlyArray<Authorization> =>
  authorization == null ? (authorizations ?? []) : [authorization]

/** Like `si:deejay[acme]`; the person is compared as far as it is disclosed. */
const namesMember = (authorization: Authorization, publicId: Disclosed<string>): boolean => {
  const [, person, organisation] = /^([^[\]]*)\[([^[\]]*)\]$/.exec(authorization.membership_id) ?? []
  return (
    organisation === authorization.org_id &&
    person !== undefined &&
    publicIdPattern.test(person) &&
    agrees(publicId, person)
  )
}

const problemOfAuthorization = (
  live: Live,
  authorization: Authorization,
  expected: Expected
): string | undefined => {
  const { actor_type: type, public_id: publicId } = authorization
  return problemOf([
    [authorization.audience === expected.applicationId, "is for another application"],
    [authorization.testing_environment_id === expected.environmentId, "is of another plane"],
    [agrees(live.org_id, authorization.org_id), "is of another organisation"],
    [(type == null) === (publicId == null), "should disclose both or neither of actor type and public id"],
    [fits(publicId, type), "mixes Carbon and Silicon"],
    [publicId == null || agrees(live.public_id, publicId), "names two actors"],
    [
      namesMember(authorization, publicId ?? live.public_id) &&
        agrees(live.membership_id, authorization.membership_id),
      "names another member"
    ]
  ])
}

const toMembership = (authorization: Authorization): Membership => {
  const { actor_type: type, public_id: publicId } = authorization
  return {
    organisation: authorization.org_id,
    organisationUuid: authorization.organization_id,
    membershipId: authorization.membership_id,
    scopes: [...authorization.scopes].sort(),
    actor: type == null || publicId == null ? Option.none() : Option.some({ type, public_id: publicId })
  }
}

const problemOfLive = (
  live: Live,
  authorizations: ReadonlyArray<Authorization>,
  expected: Expected
): string | undefined =>
  problemOf([
    [
      live.audience === expected.applicationId && live.client_id === expected.applicationId,
      "is for another application"
    ],
    [fits(live.public_id, live.actor_type), "mixes Carbon and Silicon"],
    [
      (live.authorization == null) !== (live.authorizations == null),
      "should hold either one authorization or a list of them"
    ]
  ]) ??
  authorizations
    .map((authorization) => problemOfAuthorization(live, authorization, expected))
    .find((problem) => problem !== undefined) ??
  problemOf([
    [
      new Set(authorizations.map(({ org_id }) => org_id)).size === authorizations.length,
      "lists an organisation twice"
    ]
  ])

/** A live token, or none for an inactive one. `now`, in milliseconds, replaces a missing `Date` of the response. */
export const readIntrospection =
  (expected: Expected, now: number) =>
  (response: UpstreamResponse): Either.Either<Option.Option<Introspection>, string> =>
    Either.flatMap(readLiveOrInactive(response), (live) => {
      if (!live.active) return Either.right(Option.none())
      const authorizations = authorizationsOf(live)
      const problem = problemOfLive(live, authorizations, expected)
      if (problem !== undefined) return Either.left(problem)
      return Either.right(
        Option.some({
          publicId: Option.fromNullable(live.public_id),
          sessionId: live.session_id,
          expiresAt: live.expires_at,
          answeredAt: response.date ?? now,
          memberships: authorizations
            .map(toMembership)
            .sort((one, other) => (one.organisation < other.organisation ? -1 : 1))
        })
      )
    })
