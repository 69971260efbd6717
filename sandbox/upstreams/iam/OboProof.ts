/** `POST /api/v1/obo-access/exchanges`: a signed request becomes a single-use proof (identity-service.md 10.2, 10.3). */
import { createHmac } from "node:crypto"
import type { Reply } from "../Simulator.ts"
import { accessAlive, consentOf, type Grant, grantsOf } from "./Authorization.ts"
import {
  ErrorResponse,
  type FieldProblem,
  invalidClient,
  notFound,
  preconditionRequired,
  validationFailed
} from "./Errors.ts"
import {
  canonicalJson,
  lifetimes,
  randomToken,
  rfc3339,
  sameSecret,
  shapes,
  timestampTolerance,
  unixSeconds,
  uuidAt
} from "./Identifiers.ts"
import { type Outcome, once, requireIdempotencyKey } from "./Idempotency.ts"
import { type AccessToken, type Endpoint, mint, type Plane, type Proof } from "./Model.ts"
import { type Call, headerValues, readFields, readJson, refuseOrgHeader, secretHeaders } from "./Requests.ts"

/** `hex(HMAC_SHA256(secret, T.M.P.H.K))` (identity-service.md 10.2). */
export const signExchange = (
  secret: string,
  parts: {
    readonly timestamp: string
    readonly method: string
    readonly path: string
    readonly bodySha256: string
    readonly idempotencyKey: string
  }
): string =>
  createHmac("sha256", secret)
    .update([parts.timestamp, parts.method, parts.path, parts.bodySha256, parts.idempotencyKey].join("."))
    .digest("hex")

interface ExchangeBody {
  readonly org_id: string | null
  readonly subject_token: string
  readonly audience: string
  readonly endpoint_id: string
  readonly metadata: Readonly<Record<string, unknown>>
  readonly request: { readonly method: string; readonly body_sha256: string }
}

const readBody = (value: unknown): ExchangeBody => {
  const body = readFields(value, "", [
    "org_id",
    "subject_token",
    "audience",
    "endpoint_id",
    "metadata",
    "request"
  ])
  const request = readFields(body.object("request"), "request.", ["method", "body_sha256"])
  return {
    org_id: body.optionalText("org_id"),
    subject_token: body.text("subject_token"),
    audience: body.text("audience"),
    endpoint_id: body.text("endpoint_id"),
    metadata: body.object("metadata"),
    request: { method: request.text("method"), body_sha256: request.text("body_sha256") }
  }
}

const checkGrammar = (body: ExchangeBody): void => {
  const checks: ReadonlyArray<readonly [string, boolean, string]> = [
    ["org_id", body.org_id === null || shapes.orgHandle.test(body.org_id), "must be an organisation handle"],
    [
      "subject_token",
      body.subject_token.length >= 32 && body.subject_token.length <= 4096,
      "must have 32 to 4096 characters"
    ],
    ["audience", shapes.appId.test(body.audience), "must be an app id"],
    ["endpoint_id", shapes.endpointId.test(body.endpoint_id), "must be an endpoint id"],
    ["request.method", shapes.method.test(body.request.method), "must be an uppercase method"],
    ["request.body_sha256", shapes.sha256.test(body.request.body_sha256), "must be 64 lowercase hex digits"]
  ]
  const problems: ReadonlyArray<FieldProblem> = checks
    .filter(([, valid]) => !valid)
    .map(([field, , message]) => ({ field, message }))
  if (problems.length > 0) throw validationFailed(...problems)
}

const oneHeader = (call: Call, name: string, shape: RegExp): string => {
  const [value, ...others] = headerValues(call.request, name.toLowerCase())
  if (value === undefined) throw preconditionRequired(name)
  if (others.length > 0 || !shape.test(value)) throw invalidClient(`${name} is malformed`)
  return value
}

const checkFresh = (call: Call, timestamp: string): void => {
  if (Math.abs(Number(timestamp) - unixSeconds(call.state.now())) > timestampTolerance)
    throw invalidClient("X-OBO-Timestamp is too far from now")
}

const findSubject = (call: Call, value: string): AccessToken => {
  const { app, plane, state } = call
  const token = plane.accessTokens.get(value)
  if (token === undefined || !accessAlive(state, token))
    throw new ErrorResponse(400, "invalid_subject_token", "the subject token is not active")
  if (token.family.appId !== app.appId)
    throw new ErrorResponse(
      403,
      "obo_subject_token_forbidden",
      "the subject token is not one of this application"
    )
  return token
}

const findGrant = (plane: Plane, subject: AccessToken, org: string | null): Grant => {
  const grants = grantsOf(plane, subject.family)
  if (org === null && grants.length > 1)
    throw validationFailed({
      field: "org_id",
      message: "is required: the token reaches several organisations"
    })
  const grant = org === null ? grants[0] : grants.find(({ organization }) => organization.handle === org)
  if (grant === undefined)
    throw new ErrorResponse(
      403,
      "obo_organization_not_authorized",
      "the token grants no active membership of the organisation"
    )
  return grant
}

/** Declared by the audience, approved for the application, consented by the user and carried by the token. */
export const endpointAuthority = (
  plane: Plane,
  subject: AccessToken,
  audience: string,
  endpointId: string
): Endpoint | undefined => {
  const { actor, appId } = subject.family
  const scope = `obo:${audience}:${endpointId}`
  const endpoint = plane.apps.get(audience)?.endpoints.get(endpointId)
  return endpoint?.active === true &&
    plane.apps.get(appId)?.approvedScopes.has(scope) === true &&
    consentOf(plane, actor, appId).has(scope) &&
    subject.scopes.includes(scope)
    ? endpoint
    : undefined
}

/** Only an audience that was imported into the plane has credentials to forward (identity-service.md 10.3). */
const testingContextOf = (plane: Plane, audience: string) => {
  const app = plane.apps.get(audience)
  return plane.environment !== undefined && app?.imported === true
    ? {
        testing_context: {
          app_id: app.appId,
          app_secret: app.secret,
          iam_test_key: plane.environment.rootKey
        }
      }
    : {}
}

const issue = (
  call: Call,
  body: ExchangeBody,
  found: { readonly subject: AccessToken; readonly grant: Grant; readonly endpoint: Endpoint }
): Outcome => {
  const { plane, state } = call
  const { endpoint, grant, subject } = found
  const now = state.now()
  const ttl = endpoint.ttlSeconds * 1000
  const value = mint(state, randomToken("obo"))
  const proof: Proof = {
    id: uuidAt(now),
    issuer: call.app.appId,
    audience: body.audience,
    subject,
    org: grant.organization.handle,
    membershipEpoch: grant.membership.epoch,
    endpointId: endpoint.endpointId,
    path: endpoint.path,
    method: body.request.method,
    bodySha256: body.request.body_sha256,
    expiresAt: now + ttl,
    consumedAt: null
  }
  plane.proofs.set(value, proof)
  return {
    window: Math.min(lifetimes.secretReplay, ttl),
    live: () => proof.consumedAt === null,
    reply: {
      status: 201,
      headers: secretHeaders,
      body: {
        access_proof: value,
        proof_id: proof.id,
        expires_in: endpoint.ttlSeconds,
        expires_at: rfc3339(proof.expiresAt),
        ...testingContextOf(plane, body.audience)
      }
    }
  }
}

/** The order of these checks is the contract's (identity-service.md 10.2). */
export const exchange = (call: Call): Reply => {
  const { app, plane, request } = call
  const body = readBody(readJson(request))
  refuseOrgHeader(request)
  checkGrammar(body)
  const timestamp = oneHeader(call, "X-OBO-Timestamp", shapes.unixSeconds)
  checkFresh(call, timestamp)
  const signature = oneHeader(call, "X-OBO-Signature", shapes.sha256)
  const idempotencyKey = requireIdempotencyKey(request)
  const subject = findSubject(call, body.subject_token)
  const grant = findGrant(plane, subject, body.org_id)
  const endpoint = endpointAuthority(plane, subject, body.audience, body.endpoint_id)
  if (endpoint === undefined) throw notFound()
  checkFresh(call, timestamp)
  const expected = signExchange(app.secret, {
    timestamp,
    method: body.request.method,
    path: endpoint.path,
    bodySha256: body.request.body_sha256,
    idempotencyKey
  })
  if (!sameSecret(expected, signature)) throw invalidClient("X-OBO-Signature does not match")
  // No seeded endpoint registers a metadata schema, so every key is unknown.
  if (Object.keys(body.metadata).length > 0)
    throw validationFailed({ field: "metadata", message: "does not fit the endpoint's schema" })
  return once(call, { route: "exchanges", key: idempotencyKey, payload: canonicalJson(body) }, () =>
    issue(call, body, { subject, grant, endpoint })
  )
}
