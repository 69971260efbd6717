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
import type { Introspection, Proof, TokenGrant } from "../../services/Iam.ts"
import { environmentIdOf, type Plane } from "../../services/Plane.ts"
import {
  expectAll,
  type ResponseReader,
  readJson,
  type UpstreamResponse
} from "../upstream/UpstreamResponse.ts"

/** Lower case, hyphenated. */
export const canonicalUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
export const Uuid = Schema.String.pipe(Schema.pattern(canonicalUuid))
const nilUuid = "00000000-0000-0000-0000-000000000000"

/** Absent and null are the same. Not an Option, which made the decoding of introspections three times as slow. */
const disclosable = <A, I>(schema: Schema.Schema<A, I>) => Schema.optional(Schema.NullOr(schema))
const secretOf = (pattern: RegExp) => Schema.Redacted(Schema.String.pipe(Schema.pattern(pattern)))

const named = <A, I>(name: string, schema: Schema.Schema<A, I>) =>
  Schema.propertySignature(schema).pipe(Schema.fromKey(name))
const orNone = { as: "Option", nullable: true } as const
const GrantedActor = Actor.pipe(Schema.filter(({ public_id, type }) => actorTypeOf(public_id) === type))

const readTokenBody = readJson(
  Schema.Struct({
    accessToken: named("access_token", secretOf(accessTokenPattern)),
    refreshToken: named("refresh_token", secretOf(refreshTokenPattern)),
    token_type: Schema.Literal("Bearer"),
    expiresInSeconds: named("expires_in", Schema.Int.pipe(Schema.positive())),
    scope: Schema.String,
    actor: Schema.optionalWith(GrantedActor, orNone),
    organisation: Schema.optionalWith(OrganisationId, orNone).pipe(Schema.fromKey("org_id"))
  })
)

/** A pair of tokens (identity-service.md 5). */
export const readTokens: ResponseReader<TokenGrant> = (answer) =>
  Either.map(readTokenBody(answer), ({ scope, ...tokens }) => ({
    ...tokens,
    scopes: [...new Set(scope.split(" "))].filter((name) => name !== "").sort(),
    replayed: answer.headers["idempotency-replayed"] === "true"
  }))

/** The answer to a revocation. A body shows that another system answered. */
export const readEmpty: ResponseReader<void> = ({ body }) => expectAll([body.length === 0, "has a body"])

const Disclosed = Schema.Struct({ actor_type: disclosable(ActorType), public_id: disclosable(PublicId) })
/** An undisclosed value fits every value. */
const isOneActor = ({ actor_type, public_id }: typeof Disclosed.Type): boolean =>
  actor_type == null || public_id == null || actorTypeOf(public_id) === actor_type

const Authorization = Schema.Struct({
  ...Disclosed.fields,
  organization_id: Uuid,
  org_id: OrganisationId,
  membership_id: Schema.String,
  membership_version: Schema.Int.pipe(Schema.positive()),
  authorization_epoch: Schema.Int,
  audience: Schema.String,
  testing_environment_id: Schema.NullOr(Uuid),
  scopes: Schema.Array(Schema.String)
}).pipe(Schema.filter((one) => isOneActor(one) && (one.actor_type == null) === (one.public_id == null)))

const Live = Schema.Struct({
  active: Schema.Literal(true),
  ...Disclosed.fields,
  client_id: Schema.String,
  audience: Schema.String,
  session_id: Uuid,
  scope: Schema.String,
  issued_at: Schema.Int,
  expires_at: Schema.Int,
  authorization_epoch: Schema.Int,
  // The form of an answer to a call without X-Org-ID (identity-service.md 6.2).
  authorizations: Schema.Array(Authorization)
}).pipe(Schema.filter(isOneActor))

const readLiveOrInactive = readJson(Schema.Union(Schema.Struct({ active: Schema.Literal(false) }), Live))

/** Whether its membership id, like `si:deejay[acme]`, names the actor of the token, as far as one is disclosed. */
const namesMember =
  ({ public_id: own }: typeof Live.Type) =>
  ({ membership_id, org_id, public_id }: typeof Authorization.Type): boolean => {
    const person = public_id ?? own ?? membership_id.split("[", 1).join()
    const isOwn = person === (own ?? person) && publicIdPattern.test(person)
    return isOwn && membership_id === `${person}[${org_id}]`
  }

/** A live token, or none for an inactive one (identity-service.md 6). */
export const readIntrospection =
  (plane: Plane, applicationId: string): ResponseReader<Option.Option<Introspection>> =>
  (response) =>
    Either.gen(function* () {
      const live = yield* readLiveOrInactive(response)
      if (!live.active) return Option.none()
      const listed = live.authorizations
      const audiences = [live.client_id, live.audience, ...listed.map(({ audience }) => audience)]
      const environments = listed.map((one) => one.testing_environment_id)
      const organisations = new Set(listed.map(({ org_id }) => org_id))
      yield* expectAll(
        [audiences.every((id) => id === applicationId), "is for another application"],
        [environments.every((id) => id === environmentIdOf(plane)), "is of another plane"],
        [listed.every(namesMember(live)), "names another member"],
        [organisations.size === listed.length, "lists an organisation twice"]
      )
      return Option.some({
        ...live,
        answeredAt: response.date,
        memberships: [...listed].sort((one, other) => (one.org_id < other.org_id ? -1 : 1))
      })
    })

const readContextBody = readJson(
  Schema.Struct({
    environment_id: Uuid.pipe(Schema.filter((id) => id !== nilUuid)),
    environment: disclosable(Schema.Struct({ environment_id: Uuid })),
    application: Schema.Struct({ app_id: Schema.String }),
    webhook_key_digest: disclosable(Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/)))
  }).pipe(Schema.filter((it) => (it.environment?.environment_id ?? it.environment_id) === it.environment_id))
)

/** The environment of a testing secret (identity-service.md 9.1). */
export const readTestingContext = (applicationId: string) => (response: UpstreamResponse) =>
  Either.flatMap(readContextBody(response), ({ application, environment_id, webhook_key_digest }) =>
    Either.map(expectAll([application.app_id === applicationId, "is for another application"]), () => ({
      environmentId: environment_id,
      webhookKeyDigest: webhook_key_digest ?? undefined
    }))
  )

/** Ting's application id, the audience of every proof. */
export const audience = "ting"
const Audience = Schema.Literal(audience)

/** Ting, with its endpoints (identity-service.md 10.1). */
export const readCatalogue = readJson(
  Schema.Struct({
    application: Schema.Struct({ app_id: Audience }),
    endpoints: Schema.Array(
      Schema.Struct({
        endpoint_id: Schema.String,
        path: Schema.String,
        metadata: Schema.Record({ key: Schema.String, value: Schema.Unknown })
      })
    )
  })
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
    testing_context: disclosable(
      Schema.Struct({
        app_id: Audience,
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
      const { access_proof: bearer, testing_context } = yield* readProofBody(response)
      const isOfPlane = (testing_context == null) === (plane._tag === "Production")
      yield* expectAll([
        isOfPlane,
        "has a testing context in production, or lacks that of Ting in a testing plane"
      ])
      return { bearer, path, testing: Option.fromNullable(testing_context) }
    })
