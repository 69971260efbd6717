/** `POST /api/v1/oauth/introspect` and `POST /api/v1/oauth/revoke` (identity-service.md 6 and 7). */
import type { Reply, Seen } from "../Simulator.ts"
import {
  accessAlive,
  effectiveScopes,
  type Grant,
  grantsOf,
  membershipId,
  refreshAlive
} from "./Authority.ts"
import { kindOf, lifetimes, shapes, unixSeconds } from "./Grammar.ts"
import { once, requireIdempotencyKey } from "./Idempotency.ts"
import type { AccessToken, Membership, Plane, RefreshToken } from "./Model.ts"
import { type Call, headerValues, invalidRequest, readForm } from "./Wire.ts"

/** Callers of client 1.x get UUIDs for membership ids (identity-service.md 1.1). */
export const legacyMemberships = (request: Seen): boolean =>
  headerValues(request, "user-agent")[0]?.startsWith("silicon-iam-client/1.") === true

const membershipIdFor = (request: Seen, membership: Membership): string =>
  legacyMemberships(request) ? membership.id : membershipId(membership.actor, membership.org)

/** The authorization snapshot of one organisation, recomputed at every look (identity-service.md 6.3). */
export const snapshot = (
  call: Call,
  grant: Grant,
  view: { readonly audience: string; readonly scopes: ReadonlyArray<string> }
): Record<string, unknown> => {
  const { membership, organization } = grant
  const scopes = view.scopes
  return {
    ...(scopes.includes("self.identity.read")
      ? { actor_type: kindOf(membership.actor), public_id: membership.actor }
      : { id: membership.actor }),
    organization_id: organization.id,
    org_id: organization.handle,
    membership_id: membershipIdFor(call.request, membership),
    membership_version: membership.version,
    authorization_epoch: membership.epoch,
    audience: view.audience,
    testing_environment_id: call.plane.environment?.id ?? null,
    scopes,
    org_role: scopes.includes("self.membership.read") ? membership.role : null,
    tags: scopes.includes("self.tags.read") ? membership.tags : null
  }
}

const activeToken = (call: Call, value: string): AccessToken | RefreshToken | undefined => {
  const { app, plane, state } = call
  if (value.startsWith("ort_")) {
    const token = plane.refreshTokens.get(value)
    return token?.family.appId === app.appId && refreshAlive(state, plane, token) ? token : undefined
  }
  const token = plane.accessTokens.get(value)
  return token?.family.appId === app.appId && accessAlive(state, plane, token) ? token : undefined
}

const orgHeader = (request: Seen): string | undefined => {
  const [org, ...others] = headerValues(request, "x-org-id")
  if (org !== undefined && (others.length > 0 || !shapes.orgHandle.test(org)))
    throw invalidRequest("X-Org-ID must be one organisation handle")
  return org
}

const readToken = (call: Call): string => {
  const form = readForm(call.request, { required: ["token"], optional: ["token_type_hint"] })
  const hint = form("token_type_hint")
  if (hint !== undefined && hint !== "access_token" && hint !== "refresh_token")
    throw invalidRequest("token_type_hint must be access_token or refresh_token")
  return form("token") ?? ""
}

const inactive: Reply = { status: 200, body: { active: false } }

/** Live at every call; whatever is wrong with a token is exactly `{"active":false}` (identity-service.md 6). */
export const introspect = (call: Call): Reply => {
  const value = readToken(call)
  const org = orgHeader(call.request)
  const token = activeToken(call, value)
  if (token === undefined) return inactive
  const { app, plane } = call
  const { family } = token
  const grants = grantsOf(plane, family)
  const selected = grants.find((grant) => grant.organization.handle === org)
  if (org !== undefined && selected === undefined) return inactive

  const scopes = effectiveScopes(plane, token)
  const describe = (grant: Grant) => snapshot(call, grant, { audience: app.appId, scopes })
  const authority =
    "consumed" in token
      ? {}
      : selected === undefined
        ? { authorizations: grants.map(describe) }
        : { authorization: describe(selected) }
  return {
    status: 200,
    body: {
      active: true,
      public_id: family.actor,
      ...(scopes.includes("self.identity.read") ? { actor_type: kindOf(family.actor) } : {}),
      client_id: app.appId,
      ...(selected === undefined
        ? {}
        : {
            org_id: selected.organization.handle,
            membership_id: membershipIdFor(call.request, selected.membership)
          }),
      session_id: family.sessionId,
      scope: token.scopes.join(" "),
      audience: app.appId,
      issued_at: unixSeconds(token.issuedAt),
      expires_at: unixSeconds(token.expiresAt),
      authorization_epoch: (selected?.membership ?? plane.actors.get(family.actor))?.epoch,
      ...authority
    }
  }
}

const revokeToken = (plane: Plane, appId: string, value: string): void => {
  const access = plane.accessTokens.get(value)
  if (access?.family.appId === appId) access.revoked = true
  const refresh = plane.refreshTokens.get(value)
  // Any token of the family will do, also a consumed one (identity-service.md 7).
  if (refresh?.family.appId === appId && refresh.family.status === "active") refresh.family.status = "revoked"
}

/** 200 with an empty body, also for a token that is not there (identity-service.md 7). */
export const revoke = (call: Call): Reply => {
  const value = readToken(call)
  if (value.length < 32 || value.length > 4096)
    throw invalidRequest("the token must have 32 to 4096 characters")
  const key = requireIdempotencyKey(call.request)
  return once(call, { route: "revoke", key, payload: value }, () => {
    revokeToken(call.plane, call.app.appId, value)
    return { reply: { status: 200 }, window: lifetimes.plainReplay }
  })
}
