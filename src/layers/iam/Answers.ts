/** What IAM answers, read with every check that its contract recommends before an answer is trusted. */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Actor, ActorType, actorTypeOf, OrganisationId, PublicId } from "../../schema/Identity.ts"
import {
  accessTokenPattern,
  publicIdPattern,
  refreshTokenPattern,
  testingSecretPattern
} from "../../schema/Patterns.ts"
import type { Introspection, Membership, Proof, TokenGrant } from "../../services/Iam.ts"
import { environmentIdOf, isPlane, type Plane } from "../../services/Plane.ts"
import {
  expectAll,
  type ResponseReader,
  readJson,
  type UpstreamResponse
} from "../upstream/UpstreamResponse.ts"

/** Lower case, hyphenated. */
export const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
export const Uuid = Schema.String.pipe(Schema.pattern(uuidPattern))
const nilUuid = "00000000-0000-0000-0000-000000000000"

/** An Option; absent and null are the same. */
const omittable = <A, I>(schema: Schema.Schema<A, I>) =>
  Schema.optionalWith(schema, { as: "Option", nullable: true })
/** The same without transformations, which made the decoding of introspections three times as slow. */
const disclosable = <A, I>(schema: Schema.Schema<A, I>) => Schema.optional(Schema.NullOr(schema))
const secretOf = (pattern: RegExp) => Schema.Redacted(Schema.String.pipe(Schema.pattern(pattern)))

const readTokenBody = readJson(
  Schema.Struct({
    access_token: secretOf(accessTokenPattern),
    refresh_token: secretOf(refreshTokenPattern),
    token_type: Schema.Literal("Bearer"),
    expires_in: Schema.Int.pipe(Schema.positive()),
    scope: Schema.String,
    actor: omittable(Actor.pipe(Schema.filter(({ public_id, type }) => actorTypeOf(public_id) === type))),
    org_id: omittable(OrganisationId)
  })
)

/** A pair of tokens (identity-service.md 5). */
export const readTokens: ResponseReader<TokenGrant> = (answer) =>
  Either.map(readTokenBody(answer), (tokens) => ({
    accessToken: tokens.access_token,
    refreshToken: tokens.refresh_token,
    expiresInSeconds: tokens.expires_in,
    scopes: [...new Set(tokens.scope.split(" "))].filter((name) => name !== "").sort(),
    actor: tokens.actor,
    organisation: tokens.org_id,
    replayed: answer.headers["idempotency-replayed"] === "true"
  }))

/** The answer to a revocation. A body shows that another system answered. */
export const readEmpty: ResponseReader<void> = ({ body }) => expectAll([body.length === 0, "has a body"])

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

const Live = Schema.Struct({
  active: Schema.Literal(true),
  public_id: disclosable(PublicId),
  actor_type: disclosable(ActorType),
  client_id: Schema.String,
  audience: Schema.String,
  session_id: Uuid,
  scope: Schema.String,
  issued_at: Schema.Int,
  expires_at: Schema.Int,
  authorization_epoch: Schema.Int,
  // The form of an answer to a call without X-Org-ID (identity-service.md 6.2).
  authorizations: Schema.Array(Authorization)
})
type Live = typeof Live.Type

const readLiveOrInactive = readJson(Schema.Union(Schema.Struct({ active: Schema.Literal(false) }), Live))

/** A value, if IAM discloses it. */
type Disclosed<A> = A | null | undefined
/** An undisclosed value agrees with every value. */
const agrees = (disclosed: Disclosed<string>, value: string): boolean => (disclosed ?? value) === value
const fits = (publicId: Disclosed<string>, type: Disclosed<ActorType>): boolean =>
  publicId == null || type == null || actorTypeOf(publicId) === type

/** Like `si:deejay[acme]`; the person is compared as far as it is disclosed. */
const namesMember = (membershipId: string, organisation: string, publicId: Disclosed<string>): boolean => {
  const [, person, ofOrganisation] = /^([^[\]]*)\[([^[\]]*)\]$/.exec(membershipId) ?? []
  return (
    ofOrganisation === organisation &&
    person !== undefined &&
    publicIdPattern.test(person) &&
    agrees(publicId, person)
  )
}

const toMembership = (
  live: Live,
  authorization: typeof Authorization.Type,
  applicationId: string,
  environmentId: string | null
): Either.Either<Membership, string> => {
  const { actor_type: type, membership_id, org_id, public_id: publicId } = authorization
  return Either.map(
    expectAll(
      [authorization.audience === applicationId, "is for another application"],
      [authorization.testing_environment_id === environmentId, "is of another plane"],
      [(type == null) === (publicId == null), "should disclose both or neither of actor type and public id"],
      [fits(publicId, type), "mixes Carbon and Silicon"],
      [publicId == null || agrees(live.public_id, publicId), "names two actors"],
      [namesMember(membership_id, org_id, publicId ?? live.public_id), "names another member"]
    ),
    () => ({
      organisation: org_id,
      organisationUuid: authorization.organization_id,
      membershipId: membership_id,
      scopes: [...authorization.scopes].sort(),
      actor: type == null || publicId == null ? Option.none() : Option.some({ type, public_id: publicId })
    })
  )
}

/**
 * A live token, or none for an inactive one (identity-service.md 6). `now`, in milliseconds, replaces a missing `Date` of the response.
 */
export const readIntrospection =
  (plane: Plane, applicationId: string, now: number) =>
  (response: UpstreamResponse): Either.Either<Option.Option<Introspection>, string> =>
    Either.gen(function* () {
      const live = yield* readLiveOrInactive(response)
      if (!live.active) return Option.none()
      yield* expectAll(
        [live.audience === applicationId && live.client_id === applicationId, "is for another application"],
        [fits(live.public_id, live.actor_type), "mixes Carbon and Silicon"]
      )
      const listed = live.authorizations
      const memberships = yield* Either.all(
        listed.map((one) => toMembership(live, one, applicationId, environmentIdOf(plane)))
      )
      const organisations = new Set(listed.map(({ org_id }) => org_id))
      yield* expectAll([organisations.size === listed.length, "lists an organisation twice"])
      return Option.some({
        publicId: Option.fromNullable(live.public_id),
        sessionId: live.session_id,
        expiresAt: live.expires_at,
        answeredAt: response.date ?? now,
        memberships: memberships.sort((one, other) => (one.organisation < other.organisation ? -1 : 1))
      })
    })

const readContextBody = readJson(
  Schema.Struct({
    environment_id: Uuid,
    environment: omittable(Schema.Struct({ environment_id: Uuid })),
    application: Schema.Struct({ app_id: Schema.String }),
    webhook_key_digest: omittable(Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/)))
  })
)

/** The environment of a testing secret (identity-service.md 9.1). */
export const readTestingContext = (applicationId: string) => (response: UpstreamResponse) =>
  Either.gen(function* () {
    const { application, environment, environment_id, webhook_key_digest } = yield* readContextBody(response)
    const isNamed = ({ environment_id: other }: { readonly environment_id: string }) =>
      other === environment_id
    yield* expectAll(
      [application.app_id === applicationId, "is for another application"],
      [environment_id !== nilUuid, "names no environment"],
      [Option.isNone(environment) || isNamed(environment.value), "names two environments"]
    )
    return { environmentId: environment_id, webhookKeyDigest: Option.getOrUndefined(webhook_key_digest) }
  })

/** Ting's application id, the audience of every proof. */
export const audience = "ting"

const readCatalogueBody = readJson(
  Schema.Struct({
    application: Schema.Struct({ app_id: Schema.String }),
    endpoints: Schema.Array(
      Schema.Struct({
        endpoint_id: Schema.String,
        path: Schema.String,
        metadata: Schema.Record({ key: Schema.String, value: Schema.Unknown })
      })
    )
  })
)

/** The endpoints of Ting (identity-service.md 10.1). */
export const readCatalogue = (response: UpstreamResponse) =>
  Either.flatMap(readCatalogueBody(response), ({ application, endpoints }) =>
    Either.map(expectAll([application.app_id === audience, "is for another application"]), () => endpoints)
  )
export type Catalogue = Either.Either.Right<ReturnType<typeof readCatalogue>>

/** Seconds; the maximum of Ting's endpoints. */
const maxProofSeconds = 60

const readProofBody = readJson(
  Schema.Struct({
    access_proof: secretOf(/^obo_[A-Za-z0-9_-]{28,8188}$/),
    proof_id: Schema.String,
    expires_in: Schema.Int.pipe(Schema.between(1, maxProofSeconds)),
    expires_at: Schema.String,
    testing_context: omittable(
      Schema.Struct({
        app_id: Schema.String,
        app_secret: secretOf(testingSecretPattern),
        iam_test_key: secretOf(/^[A-Za-z0-9]{32}$/)
      })
    )
  })
)

/** A proof for a path of Ting (identity-service.md 10.2). */
export const readProof =
  (plane: Plane, path: string): ResponseReader<Proof> =>
  (response) =>
    Either.gen(function* () {
      const { access_proof: bearer, testing_context: context } = yield* readProofBody(response)
      const isTesting = isPlane("Testing")(plane)
      yield* expectAll(
        [isTesting || Option.isNone(context), "holds a testing context in production"],
        [
          !isTesting || Option.isSome(context),
          "holds no testing context: Ting is not imported into the testing environment"
        ],
        [
          Option.isNone(context) || context.value.app_id === audience,
          "holds the testing context of another application"
        ]
      )
      const testing = Option.map(context, ({ app_secret, iam_test_key }) => ({
        applicationSecret: app_secret,
        environmentKey: iam_test_key
      }))
      return { bearer, path, testing }
    })
