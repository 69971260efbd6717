/**
 * The calls that an application makes with an on-behalf-of proof: steps 8 to 16 of notification-service.md 2.
 * Step 14 has no code of its own, because the grammar of step 7 already covers every string.
 */
import type { Now, Reply, Seen } from "../Simulator.ts"
import { textOf } from "../StrictJson.ts"
import type { Authority, Selected, Verified } from "./Authority.ts"
import { readBearer } from "./Gate.ts"
import {
  actorKind,
  exactly,
  type Fields,
  isActor,
  isAppId,
  isCursor,
  isType,
  limitOf,
  optionalFlag,
  optionalText,
  text
} from "./Grammar.ts"
import { findGrant, grantView, register, revoke } from "./Grants.ts"
import { listName, markRead, messageIds, tingsOf, tingView } from "./Inbox.ts"
import { learnOrg, type Org, type Plane, pageOf, planeOf, production, type State } from "./Model.ts"
import { invalidInput, Refusal } from "./Refusal.ts"
import { send } from "./Sending.ts"

interface Operation {
  readonly plane: Plane
  readonly org: Org
  readonly proof: Verified
  readonly fields: Fields
  readonly now: number
}

const limitField = (fields: Fields): number => {
  const limit = fields.get("limit")
  return limitOf(limit?.kind === "number" ? limit.text : undefined)
}

const registerRecipient = ({ plane, org, proof, fields }: Operation): Reply => {
  exactly(fields, ["org_id", "app_id"], ["for"])
  text(fields, "app_id", isAppId)
  const asserted = optionalText(fields, "for", isActor)
  if (asserted !== undefined && asserted !== proof.actor) throw new Refusal("permission_denied")
  const { grant, created } = register(plane, org, proof.issuer, proof.actor)
  return { status: created ? 201 : 200, body: grantView(grant) }
}

/** Fields beyond organisation and application are assumed; `for` names the recipient, the proof's actor by default. */
const revokeRecipient = ({ plane, org, proof, fields }: Operation): Reply => {
  exactly(fields, ["org_id", "app_id"], ["for"])
  text(fields, "app_id", isAppId)
  const actor = optionalText(fields, "for", isActor) ?? proof.actor
  const grant = findGrant(plane, org, proof.issuer, actor)
  if (grant === undefined) throw new Refusal("not_found")
  return { status: 200, body: revoke(grant) }
}

/** Assumed shape: the grants of this application in the organisation, paged. */
const queryRecipients = ({ plane, org, proof, fields }: Operation): Reply => {
  exactly(fields, ["org_id", "app_id"], ["for", "limit", "cursor"])
  text(fields, "app_id", isAppId)
  const actor = optionalText(fields, "for", isActor)
  const mine = plane.grants.filter(
    (grant) =>
      grant.org === org && grant.appId === proof.issuer && (actor === undefined || grant.actor === actor)
  )
  const { items, ...next } = pageOf(
    plane,
    JSON.stringify(["grants", proof.issuer, org.handle, actor]),
    mine,
    { limit: limitField(fields), cursor: optionalText(fields, "cursor", isCursor) }
  )
  return { status: 200, body: { items: items.map(grantView), ...next } }
}

/** Filters as the recipient's list has them (assumed); the records are the full ones. */
const querySent = ({ plane, org, proof, fields, now }: Operation): Reply => {
  exactly(fields, ["org_id", "app_id"], ["for", "type", "read", "silent", "limit", "cursor"])
  text(fields, "app_id", isAppId)
  const filter = {
    org,
    appId: proof.issuer,
    for: optionalText(fields, "for", isActor),
    type: optionalText(fields, "type", isType),
    read: optionalFlag(fields, "read"),
    silent: optionalFlag(fields, "silent")
  }
  const { items, ...next } = pageOf(
    plane,
    listName(`app ${proof.issuer}`, filter),
    tingsOf(plane, now, filter),
    {
      limit: limitField(fields),
      cursor: optionalText(fields, "cursor", isCursor)
    }
  )
  return { status: 200, body: { items: items.map(tingView), ...next } }
}

/** Assumed to have the shape of the recipient's own call. */
const readSent = ({ plane, org, proof, fields, now }: Operation): Reply => {
  exactly(fields, ["org_id", "app_id", "message_ids"])
  text(fields, "app_id", isAppId)
  const done = markRead(
    tingsOf(plane, now, { org, appId: proof.issuer }),
    messageIds(fields.get("message_ids"))
  )
  if (done === undefined) throw new Refusal("not_found")
  return { status: 200, body: done }
}

interface Route {
  readonly endpointId: string
  readonly run: (operation: Operation) => Reply
}

const routes: ReadonlyMap<string, Route> = new Map([
  ["/v1/subscriptions", { endpointId: "subscriptions.register", run: registerRecipient }],
  ["/v1/subscriptions/query", { endpointId: "subscriptions.query", run: queryRecipients }],
  ["/v1/subscriptions/revoke", { endpointId: "subscriptions.revoke", run: revokeRecipient }],
  [
    "/v1/tings",
    {
      endpointId: "tings.send",
      run: ({ plane, org, proof, fields, now }: Operation) => send(plane, org, proof.issuer, fields, now)
    }
  ],
  ["/v1/sent/query", { endpointId: "sent.query", run: querySent }],
  ["/v1/sent/read", { endpointId: "sent.read", run: readSent }]
])

export const provedRoute = (request: Seen): Route | undefined =>
  request.method === "POST" ? routes.get(request.path) : undefined

/** How Ting itself stands with the environment that IAM resolved (notification-service.md 6). */
const checkLifecycle = (state: State, selected: Selected): void => {
  if (selected.id === production) return
  const { lifecycle } = planeOf(state, selected.id)
  if (lifecycle === "pending") throw new Refusal("dependency_unavailable")
  if (lifecycle === "disabled") throw new Refusal("permission_denied")
}

/** Answers one proved call. Everything after the verification is one step, without waiting. */
export const answerProved = async (
  state: State,
  authority: Authority,
  now: Now,
  route: Route,
  request: Seen,
  fields: Fields
): Promise<Reply> => {
  const bearer = readBearer(request)
  const orgId = textOf(fields.get("org_id"))
  if (orgId === undefined) throw invalidInput("org_id is required")
  const selected = await authority.select(request)
  checkLifecycle(state, selected)
  const proof = await authority.verify(selected, request, { bearer, endpointId: route.endpointId, orgId })

  const appId = textOf(fields.get("app_id"))
  const type = textOf(fields.get("type"))
  if (appId !== undefined && appId !== proof.issuer) throw new Refusal("permission_denied")
  if (type !== undefined && !type.startsWith(`${proof.issuer}.`)) throw new Refusal("permission_denied")
  const plane = planeOf(state, selected.id)
  if (plane.lifecycle === "stale" || actorKind(proof.actor) !== proof.actorKind)
    throw new Refusal("permission_denied")
  const org = learnOrg(plane, proof.orgHandle, proof.orgId)
  return route.run({ plane, org, proof, fields, now: now() })
}
