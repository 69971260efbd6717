/** The introspection response, with every check that the contract recommends before it is trusted (identity-service.md 6). */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ActorType, OrganisationId, PublicId, publicIdPattern } from "../../schema/Identity.ts"
import type { Introspection, Membership } from "../../services/Iam.ts"
import { type UpstreamResponse, expect, readJson } from "../upstream/UpstreamResponse.ts"
import { isOfType, omittable, Uuid } from "./IamSchemas.ts"

const Authorization = Schema.Struct({
  actor_type: omittable(ActorType),
  public_id: omittable(PublicId),
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
  public_id: omittable(PublicId),
  actor_type: omittable(ActorType),
  client_id: Schema.String,
  audience: Schema.String,
  org_id: omittable(OrganisationId),
  membership_id: omittable(Schema.String),
  session_id: Uuid,
  scope: Schema.String,
  issued_at: Schema.Int,
  expires_at: Schema.Int,
  authorization_epoch: Schema.Int,
  authorization: omittable(Authorization),
  authorizations: omittable(Schema.Array(Authorization))
})
type Live = typeof Live.Type

const readLiveOrInactive = readJson(Schema.Union(Schema.Struct({ active: Schema.Literal(false) }), Live))

/** Values that the response must match. */
export interface Expected {
  readonly applicationId: string
  /** The plane's environment, null in production. */
  readonly environmentId: string | null
}

type Checked<A> = Either.Either<A, string>

/** An undisclosed value agrees with every value. */
const agrees = (disclosed: Option.Option<string>, value: string): boolean =>
  Option.getOrElse(disclosed, () => value) === value

const fits = (publicId: Option.Option<string>, type: Option.Option<ActorType>): boolean =>
  Option.match(Option.all([publicId, type]), {
    onNone: () => true,
    onSome: ([id, kind]) => isOfType(id, kind)
  })

const authorizationsOf = (live: Live): Checked<ReadonlyArray<Authorization>> =>
  Either.gen(function* () {
    const { authorization, authorizations } = live
    yield* expect(
      Option.isSome(authorization) !== Option.isSome(authorizations),
      "should hold either one authorization or a list of them"
    )
    return Option.match(authorization, {
      onSome: (only) => [only],
      onNone: () => Option.getOrElse(authorizations, () => [])
    })
  })

/** Like `si:deejay[acme]`; the person is compared as far as it is disclosed. */
const namesMember = (authorization: Authorization, publicId: Option.Option<string>): boolean => {
  const [, person, organisation] = /^([^[\]]*)\[([^[\]]*)\]$/.exec(authorization.membership_id) ?? []
  return (
    organisation === authorization.org_id &&
    person !== undefined &&
    publicIdPattern.test(person) &&
    agrees(publicId, person)
  )
}

const membershipOf = (live: Live, authorization: Authorization, expected: Expected): Checked<Membership> =>
  Either.gen(function* () {
    const { actor_type: type, public_id: publicId } = authorization
    yield* expect(authorization.audience === expected.applicationId, "is for another application")
    yield* expect(authorization.testing_environment_id === expected.environmentId, "is of another plane")
    yield* expect(agrees(live.org_id, authorization.org_id), "is of another organisation")
    yield* expect(
      Option.isSome(type) === Option.isSome(publicId),
      "should disclose both or neither of actor type and public id"
    )
    yield* expect(fits(publicId, type), "mixes Carbon and Silicon")
    yield* expect(
      Option.match(publicId, { onNone: () => true, onSome: (id) => agrees(live.public_id, id) }),
      "names two actors"
    )
    yield* expect(
      namesMember(
        authorization,
        Option.orElse(publicId, () => live.public_id)
      ) && agrees(live.membership_id, authorization.membership_id),
      "names another member"
    )
    return {
      organisation: authorization.org_id,
      organisationUuid: authorization.organization_id,
      membershipId: authorization.membership_id,
      scopes: [...authorization.scopes].sort(),
      actor: Option.all({ type, public_id: publicId })
    }
  })

/** A live token, or none for an inactive one. `now`, in milliseconds, replaces a missing `Date` of the response. */
export const readIntrospection =
  (expected: Expected, now: number) =>
  (response: UpstreamResponse): Checked<Option.Option<Introspection>> =>
    Either.gen(function* () {
      const live = yield* readLiveOrInactive(response)
      if (!live.active) return Option.none()
      yield* expect(
        live.audience === expected.applicationId && live.client_id === expected.applicationId,
        "is for another application"
      )
      yield* expect(fits(live.public_id, live.actor_type), "mixes Carbon and Silicon")
      const authorizations = yield* authorizationsOf(live)
      const memberships = yield* Either.all(
        authorizations.map((authorization) => membershipOf(live, authorization, expected))
      )
      yield* expect(
        new Set(memberships.map(({ organisation }) => organisation)).size === memberships.length,
        "lists an organisation twice"
      )
      return Option.some({
        publicId: live.public_id,
        sessionId: live.session_id,
        expiresAt: live.expires_at,
        answeredAt: response.date ?? now,
        memberships: memberships.sort((one, other) => (one.organisation < other.organisation ? -1 : 1))
      })
    })
