/** On-behalf-of proofs: the endpoint catalogue, the exchange and the verification, and the testing context (identity-service.md 9.1 and 10). */
import { createHmac } from "node:crypto"
import { type Reply, type Seen, sha256 } from "../Contract.ts"
import {
  type AccessToken,
  type Endpoint,
  kindOf,
  lifetimes,
  mint,
  type Plane,
  type Proof,
  randomToken,
  rfc3339,
  sameSecret,
  shapes,
  unixSeconds,
  uuidAt
} from "./Model.ts"
import {
  type Call,
  invalidClient,
  notFound,
  once,
  oneHeader,
  type Outcome,
  readFields,
  readJson,
  refuse,
  refuseOrgHeader,
  requireIdempotencyKey,
  secretHeaders,
  validationFailed
} from "./Requests.ts"
import { accessAlive, effectiveScopes, type Grant, grantsOf, snapshot } from "./Tokens.ts"

/** Describes the caller's testing plane; the answer holds no credential (identity-service.md 9.1). */
export const testingContext = ({ app, plane }: Call): Reply => {
  const { environment } = plane
  if (environment === undefined) throw refuse(403, "forbidden", "this route needs a testing environment")
  const { createdAt, id, name, orgId, rootKey } = environment
  return {
    status: 200,
    body: {
      environment: { environment_id: id, org_id: orgId, name, version: 1, created_at: rfc3339(createdAt) },
      environment_id: id,
      application: { app_id: app.appId, app_name: app.name, base_url: `https://${app.appId}.example` },
      webhook_key_digest: sha256(rootKey)
    }
  }
}

/** All active endpoints of an application, independent of the caller's scopes (identity-service.md 10.1). */
export const catalogue = ({ plane, request }: Call, appId: string): Reply => {
  refuseOrgHeader(request)
  if (!shapes.appId.test(appId)) throw validationFailed("app_id")
  const app = plane.apps.get(appId)
  if (app === undefined) throw notFound()
  const endpoints = [...app.endpoints.values()]
    .filter(({ active }) => active)
    .sort((left, right) => (left.endpointId < right.endpointId ? -1 : 1))
    .map(({ endpointId, path, ttlSeconds }) => ({
      ...{ endpoint_id: endpointId, path, metadata: {}, critical: true, ttl_seconds: ttlSeconds }
    }))
  return { status: 200, body: { application: { app_id: app.appId, org_id: app.orgId }, endpoints } }
}

type Signed = Readonly<Record<"timestamp" | "method" | "path" | "bodySha256" | "idempotencyKey", string>>

/** `hex(HMAC_SHA256(secret, T.M.P.H.K))` (identity-service.md 10.2). */
export const signExchange = (
  secret: string,
  { bodySha256, idempotencyKey, method, path, timestamp }: Signed
): string =>
  createHmac("sha256", secret)
    .update([timestamp, method, path, bodySha256, idempotencyKey].join("."))
    .digest("hex")

/** Refuses the fields that do not hold. */
const demand = (fields: Readonly<Record<string, boolean>>): void => {
  const wrong = Object.keys(fields).filter((name) => fields[name] !== true)
  if (wrong.length > 0) throw validationFailed(...wrong)
}

const bodyFields = ["org_id", "subject_token", "audience", "endpoint_id", "metadata", "request"]

const readExchange = (request: Seen) => {
  const body = readFields(readJson(request), bodyFields)
  const bound = readFields(body.object("request"), ["method", "body_sha256"])
  return {
    orgId: body.optionalText("org_id"),
    subjectToken: body.text("subject_token"),
    audience: body.text("audience"),
    endpointId: body.text("endpoint_id"),
    metadata: body.object("metadata"),
    method: bound.text("method"),
    bodySha256: bound.text("body_sha256")
  }
}

type ExchangeBody = ReturnType<typeof readExchange>

const checkGrammar = (body: ExchangeBody): void =>
  demand({
    org_id: body.orgId === null || shapes.orgHandle.test(body.orgId),
    subject_token: body.subjectToken.length >= 32 && body.subjectToken.length <= 4_096,
    audience: shapes.appId.test(body.audience),
    endpoint_id: shapes.endpointId.test(body.endpointId),
    "request.method": shapes.method.test(body.method),
    "request.body_sha256": shapes.sha256.test(body.bodySha256)
  })

/** Largest difference of a timestamp from now, seconds, in both directions, inclusive. */
const tolerance = 60

const findSubject = ({ app, plane, state }: Call, value: string): AccessToken => {
  const token = plane.accessTokens.get(value)
  if (token === undefined || !accessAlive(state, token))
    throw refuse(400, "invalid_subject_token", "the subject token is not active")
  if (token.family.appId !== app.appId)
    throw refuse(403, "obo_subject_token_forbidden", "the subject token is of another application")
  return token
}

const findGrant = (plane: Plane, subject: AccessToken, org: string | null): Grant => {
  const grants = grantsOf(plane, subject.family)
  if (org === null && grants.length > 1) throw validationFailed("org_id")
  const grant = org === null ? grants[0] : grants.find(({ organization }) => organization.handle === org)
  if (grant === undefined)
    throw refuse(403, "obo_organization_not_authorized", "the token grants no active membership there")
  return grant
}

/** Declared by the audience, approved for the application, and carried by the token, for which the user consented. */
const endpointAuthority = (
  plane: Plane,
  subject: AccessToken,
  audience: string,
  endpointId: string
): Endpoint | undefined => {
  const scope = `obo:${audience}:${endpointId}`
  const endpoint = plane.apps.get(audience)?.endpoints.get(endpointId)
  return endpoint?.active === true &&
    plane.apps.get(subject.family.appId)?.approvedScopes.has(scope) === true &&
    subject.scopes.includes(scope)
    ? endpoint
    : undefined
}

/** Only an audience that was imported into the plane has credentials to forward (identity-service.md 10.3). */
const testingContextOf = ({ apps, environment }: Plane, audience: string) => {
  const app = apps.get(audience)
  if (environment === undefined || app?.imported !== true) return {}
  return {
    testing_context: { app_id: app.appId, app_secret: app.secret, iam_test_key: environment.rootKey }
  }
}

const issue = (
  { app, plane, state }: Call,
  { audience, bodySha256, method }: ExchangeBody,
  found: { readonly subject: AccessToken; readonly grant: Grant; readonly endpoint: Endpoint }
): Outcome => {
  const { endpoint, grant, subject } = found
  const now = state.now()
  const ttl = endpoint.ttlSeconds * 1_000
  const value = mint(state, randomToken("obo"))
  const proof: Proof = {
    id: uuidAt(now),
    issuer: app.appId,
    audience,
    subject,
    org: grant.organization.handle,
    membershipVersion: grant.membership.version,
    endpointId: endpoint.endpointId,
    path: endpoint.path,
    method,
    bodySha256,
    expiresAt: now + ttl,
    consumedAt: null
  }
  plane.proofs.set(value, proof)
  const body = {
    access_proof: value,
    proof_id: proof.id,
    expires_in: endpoint.ttlSeconds,
    expires_at: rfc3339(proof.expiresAt),
    ...testingContextOf(plane, audience)
  }
  return {
    window: Math.min(lifetimes.secretReplay, ttl),
    live: () => proof.consumedAt === null,
    reply: { status: 201, headers: secretHeaders, body }
  }
}

/** A signed request becomes a single-use proof. The order of these checks is the contract's (identity-service.md 10.2). */
export const exchange = (call: Call): Reply => {
  const { app, plane, request, state } = call
  const body = readExchange(request)
  refuseOrgHeader(request)
  checkGrammar(body)
  const malformed = (name: string) => () => invalidClient(`${name} is not acceptable`)
  const timestamp = oneHeader(request, "X-OBO-Timestamp", shapes.unixSeconds, malformed("X-OBO-Timestamp"))
  if (Math.abs(Number(timestamp) - unixSeconds(state.now())) > tolerance) throw malformed("X-OBO-Timestamp")()
  const signature = oneHeader(request, "X-OBO-Signature", shapes.sha256, malformed("X-OBO-Signature"))
  const idempotencyKey = requireIdempotencyKey(request)
  const subject = findSubject(call, body.subjectToken)
  const grant = findGrant(plane, subject, body.orgId)
  const endpoint = endpointAuthority(plane, subject, body.audience, body.endpointId)
  if (endpoint === undefined) throw notFound()
  const { path } = endpoint
  const expected = signExchange(app.secret, { ...body, timestamp, path, idempotencyKey })
  if (!sameSecret(expected, signature)) throw malformed("X-OBO-Signature")()
  // No seeded endpoint registers a metadata schema, so every key is unknown.
  if (Object.keys(body.metadata).length > 0) throw validationFailed("metadata")
  return once(call, idempotencyKey, body, () => issue(call, body, { subject, grant, endpoint }))
}

/** An audience consumes a proof. The order of the checks is the contract's; only success consumes it (identity-service.md 10.5). */
export const verify = (call: Call): Reply => {
  const { app, plane, request, state } = call
  const body = readFields(readJson(request), ["access_proof", "request"])
  const value = body.text("access_proof")
  const bound = readFields(body.object("request"), ["method", "path", "body_sha256"])
  const [method, path, bodySha256] = [bound.text("method"), bound.text("path"), bound.text("body_sha256")]
  refuseOrgHeader(request)
  if (!shapes.proof.test(value)) throw refuse(400, "invalid_proof", "the proof is malformed")
  demand({
    "request.method": shapes.method.test(method),
    "request.path": path.startsWith("/") && path.length <= 2_048,
    "request.body_sha256": shapes.sha256.test(bodySha256)
  })

  const proof = plane.proofs.get(value)
  if (proof?.audience !== app.appId) throw refuse(410, "obo_proof_invalid", "the proof is not valid here")
  if (proof.consumedAt !== null) throw refuse(409, "obo_proof_consumed", "the proof was already consumed")
  if (state.now() >= proof.expiresAt) throw refuse(410, "obo_proof_expired", "the proof has expired")
  if (proof.method !== method || proof.path !== path || proof.bodySha256 !== bodySha256)
    throw refuse(403, "obo_request_binding_mismatch", "the request is not the proved one")
  const { subject } = proof
  const grant = grantsOf(plane, subject.family).find(
    ({ membership }) => membership.org === proof.org && membership.version === proof.membershipVersion
  )
  if (grant === undefined || !accessAlive(state, subject))
    throw refuse(410, "obo_proof_revoked", "the authority behind the proof has changed")
  if (endpointAuthority(plane, subject, proof.audience, proof.endpointId)?.path !== proof.path)
    throw refuse(403, "obo_authority_revoked", "the endpoint is no longer authorised")

  const now = state.now()
  proof.consumedAt = now
  const { membership, organization } = grant
  return {
    status: 200,
    headers: secretHeaders,
    body: {
      valid: true,
      proof_id: proof.id,
      issuer_app_id: proof.issuer,
      audience: proof.audience,
      actor: { type: kindOf(membership.actor), public_id: membership.actor },
      authorization: snapshot(call, grant, proof.audience, effectiveScopes(plane, subject)),
      org_id: organization.handle,
      endpoint: { endpoint_id: proof.endpointId, path: proof.path },
      metadata: {},
      expires_at: rfc3339(proof.expiresAt),
      consumed_at: rfc3339(now)
    }
  }
}
