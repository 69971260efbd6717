/** `POST /api/v1/obo-access/verify`: an audience consumes a proof (identity-service.md 10.5). */
import type { Reply } from "../Simulator.ts"
import { accessAlive, effectiveScopes, type Grant, grantsOf } from "./Authorization.ts"
import { ErrorResponse, validationFailed } from "./Errors.ts"
import { kindOf, rfc3339, shapes } from "./Identifiers.ts"
import { snapshot } from "./Introspection.ts"
import type { Plane, Proof, State } from "./Model.ts"
import { endpointAuthority } from "./OboProof.ts"
import { type Call, readFields, readJson, refuseOrgHeader, secretHeaders } from "./Requests.ts"

interface Binding {
  readonly method: string
  readonly path: string
  readonly bodySha256: string
}

const readBinding = (request: ReturnType<typeof readFields>): Binding => ({
  method: request.text("method"),
  path: request.text("path"),
  bodySha256: request.text("body_sha256")
})

const checkBinding = (binding: Binding): void => {
  const checks: ReadonlyArray<readonly [string, boolean]> = [
    ["request.method", shapes.method.test(binding.method)],
    ["request.path", binding.path.startsWith("/") && binding.path.length <= 2048],
    ["request.body_sha256", shapes.sha256.test(binding.bodySha256)]
  ]
  const problems = checks.filter(([, valid]) => !valid)
  if (problems.length > 0)
    throw validationFailed(...problems.map(([field]) => ({ field, message: "is malformed" })))
}

/** The grant behind the proof, if the subject token and the membership are unchanged. */
const unchangedGrant = (state: State, plane: Plane, proof: Proof): Grant | undefined => {
  if (!accessAlive(state, proof.subject)) return undefined
  return grantsOf(plane, proof.subject.family).find(
    ({ membership }) => membership.org === proof.org && membership.epoch === proof.membershipEpoch
  )
}

/** The order of the checks is the contract's. Only success consumes the proof (identity-service.md 10.5). */
export const verify = (call: Call): Reply => {
  const { app, plane, request, state } = call
  const body = readFields(readJson(request), "", ["access_proof", "request"])
  const value = body.text("access_proof")
  const binding = readBinding(
    readFields(body.object("request"), "request.", ["method", "path", "body_sha256"])
  )
  refuseOrgHeader(request)
  if (!shapes.proof.test(value)) throw new ErrorResponse(400, "invalid_proof", "the proof is malformed")
  checkBinding(binding)

  const proof = plane.proofs.get(value)
  if (proof?.audience !== app.appId)
    throw new ErrorResponse(410, "obo_proof_invalid", "the proof is not valid here")
  if (proof.consumedAt !== null)
    throw new ErrorResponse(409, "obo_proof_consumed", "the proof was already consumed")
  if (state.now() >= proof.expiresAt)
    throw new ErrorResponse(410, "obo_proof_expired", "the proof has expired")
  if (
    proof.method !== binding.method ||
    proof.path !== binding.path ||
    proof.bodySha256 !== binding.bodySha256
  )
    throw new ErrorResponse(403, "obo_request_binding_mismatch", "the request is not the proved one")
  const grant = unchangedGrant(state, plane, proof)
  if (grant === undefined)
    throw new ErrorResponse(410, "obo_proof_revoked", "the authority behind the proof has changed")
  const endpoint = endpointAuthority(plane, proof.subject, proof.audience, proof.endpointId)
  if (endpoint?.path !== proof.path)
    throw new ErrorResponse(403, "obo_authority_revoked", "the endpoint is no longer authorised")

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
      authorization: snapshot(call, grant, {
        audience: proof.audience,
        scopes: effectiveScopes(plane, proof.subject)
      }),
      org_id: organization.handle,
      endpoint: { endpoint_id: proof.endpointId, path: proof.path },
      metadata: {},
      expires_at: rfc3339(proof.expiresAt),
      consumed_at: rfc3339(now)
    }
  }
}
