/** `POST /api/v1/oauth/introspect` and `POST /api/v1/oauth/revoke` (identity-service.md 6 and 7). */
import type { Reply } from "../Simulator.ts"
import { invalidRequest } from "./Errors.ts"
import {
  accessAlive,
  effectiveScopes,
  type Grant,
  grantsOf,
  membershipId,
  refreshAlive
} from "./Authorization.ts"
import { kindOf, lifetimes, unixSeconds } from "./Identifiers.ts"
import { once, requireIdempotencyKey } from "./Idempotency.ts"
import type { AccessToken, Plane, RefreshToken } from "./Model.ts"
import { type Call, headerValues, readForm } from "./Requests.ts"

/** The authorization snapshot of one organisation, computed at every call (identity-service.md 6.3). */
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
    membership_id: membershipId(membership.actor, membership.org),
    membership_version: membership.version,
    authorization_epoch: membership.epoch,
    audience: view.audience,
    testing_environment_id: call.plane.environment?.id ?? null,
    scopes,
    org_role: null,
    tags: null
  }
}

const activeToken = (call: Call, value: string): AccessToken | RefreshToken | undefined => {
  const { app, plane, state } = call
  if (value.startsWith("ort_")) {
    const token = plane.refreshTokens.get(value)
    return token?.family.appId === app.appId && refreshAlive(state, token) ? token : undefined
  }
  const token = plane.accessTokens.get(value)
  return token?.family.appId === app.appId && accessAlive(state, token) ? token : undefined
}

const readToken = (call: Call): string => {
  const form = readForm(call.request, { required: ["token"], optional: ["token_type_hint"] })
  const hint = form("token_type_hint")
  if (hint !== undefined && hint !== "access_token" && hint !== "refresh_token")
    throw invalidRequest("token_type_hint must be access_token or refresh_token")
  return form("token") ?? ""
}

const inactive: Reply = { status: 200, body: { active: false } }

/** Computed from the current state at every call. Any unusable token answers exactly `{"active":false}` (identity-service.md 6). */
export const introspect = (call: Call): Reply => {
  const value = readToken(call)
  if (headerValues(call.request, "x-org-id").length > 0) throw invalidRequest("X-Org-ID is not simulated")
  const token = activeToken(call, value)
  if (token === undefined) return inactive
  const { app, plane } = call
  const { family } = token
  const scopes = effectiveScopes(plane, token)
  const describe = (grant: Grant) => snapshot(call, grant, { audience: app.appId, scopes })
  return {
    status: 200,
    body: {
      active: true,
      public_id: family.actor,
      ...(scopes.includes("self.identity.read") ? { actor_type: kindOf(family.actor) } : {}),
      client_id: app.appId,
      session_id: family.session.id,
      scope: token.scopes.join(" "),
      audience: app.appId,
      issued_at: unixSeconds(token.issuedAt),
      expires_at: unixSeconds(token.expiresAt),
      authorization_epoch: plane.actors.get(family.actor)?.epoch,
      ...("consumed" in token ? {} : { authorizations: grantsOf(plane, family).map(describe) })
    }
  }
}

const revokeToken = (plane: Plane, appId: string, value: string): void => {
  const access = plane.accessTokens.get(value)
  if (access?.family.appId === appId) access.revoked = true
  const refresh = plane.refreshTokens.get(value)
  // Any refresh token of the family ends it, also a consumed one (identity-service.md 7).
  if (refresh?.family.appId === appId && refresh.family.status === "active") refresh.family.status = "revoked"
}

/** Answers 200 with an empty body, also for an unknown token (identity-service.md 7). */
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
