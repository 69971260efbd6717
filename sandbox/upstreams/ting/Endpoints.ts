/**
 * The two calls that an application makes with an on-behalf-of proof: steps 8 to 16 of notification-service.md 2.
 * Step 14 has no code of its own, because the field formats of step 7 already cover every string.
 */
import type { JsonObject } from "../Json.ts"
import type { Now, Reply, Seen } from "../Simulator.ts"
import { invalidInput, TingError } from "./Errors.ts"
import { exactly, isActor, isAppId, newId, optionalText, text } from "./Fields.ts"
import type { IamVerification, Verified } from "./IamVerification.ts"
import { findGrant, learnOrg, type Org, type Plane, planeOf, type State } from "./Model.ts"
import { readBearer } from "./RequestChecks.ts"
import { send } from "./Sending.ts"

interface Operation {
  readonly plane: Plane
  readonly org: Org
  readonly proof: Verified
  readonly fields: JsonObject
  readonly now: number
}

/** Makes a grant, or activates a revoked one under its id: 201. An active grant stays as it is: 200. */
const register = ({ plane, org, proof, fields }: Operation): Reply => {
  exactly(fields, ["org_id", "app_id"], ["for"])
  text(fields, "app_id", isAppId)
  const asserted = optionalText(fields, "for", isActor)
  if (asserted !== undefined && asserted !== proof.actor) throw new TingError("permission_denied")
  const existing = findGrant(plane, org, proof.issuer, proof.actor)
  const created = existing?.active !== true
  const grant = existing ?? {
    id: newId("sub"),
    org,
    appId: proof.issuer,
    actor: proof.actor,
    active: true
  }
  grant.active = true
  if (existing === undefined) plane.grants.push(grant)
  return {
    status: created ? 201 : 200,
    body: { id: grant.id, app_id: grant.appId, for: grant.actor, active: true, required_delivery: false }
  }
}

type Endpoint = (operation: Operation) => Reply

const endpoints: ReadonlyMap<string, Endpoint> = new Map([
  ["/v1/subscriptions", register],
  ["/v1/tings", ({ plane, org, proof, fields, now }) => send(plane, org, proof.issuer, fields, now)]
])

export const endpointOf = (request: Seen): Endpoint | undefined =>
  request.method === "POST" ? endpoints.get(request.path) : undefined

/** Answers one call. Everything after the verification runs in one step, without waiting. */
export const answerEndpoint = async (
  state: State,
  iam: IamVerification,
  now: Now,
  endpoint: Endpoint,
  request: Seen,
  fields: JsonObject
): Promise<Reply> => {
  const bearer = readBearer(request)
  const { app_id: appId, org_id: orgId, type } = fields
  if (typeof orgId !== "string") throw invalidInput("org_id is required")
  const selected = await iam.resolvePlane(request)
  const proof = await iam.verify(selected, request, { bearer, orgId })

  if (typeof appId === "string" && appId !== proof.issuer) throw new TingError("permission_denied")
  if (typeof type === "string" && !type.startsWith(`${proof.issuer}.`))
    throw new TingError("permission_denied")
  const plane = planeOf(state, selected.id)
  const org = learnOrg(plane, proof.orgHandle, proof.orgId)
  return endpoint({ plane, org, proof, fields, now: now() })
}
