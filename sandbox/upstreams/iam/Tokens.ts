/** `POST /api/v1/app-auth/tokens`: login by SLT, and refresh with rotation (identity-service.md 5). */
import type { Reply } from "../Simulator.ts"
import { activeOrganizations, addConsent, consentOf, loginAlive, startSession } from "./Authorization.ts"
import { errorReply, invalidClient, invalidGrant, invalidRequest } from "./Errors.ts"
import { kindOf, lifetimes, randomToken, shapes, uuidAt } from "./Identifiers.ts"
import { type Outcome, once, requireIdempotencyKey } from "./Idempotency.ts"
import { type Family, mint, type Session } from "./Model.ts"
import { type Call, readForm, secretHeaders } from "./Requests.ts"

const issuePair = (call: Call, family: Family, scopes: ReadonlyArray<string>): Outcome => {
  const { plane, state } = call
  const now = state.now()
  const access = mint(state, randomToken("oat"))
  const refresh = mint(state, randomToken("ort"))
  const granted = [...scopes].sort()
  plane.accessTokens.set(access, {
    family,
    scopes: granted,
    issuedAt: now,
    expiresAt: now + lifetimes.access,
    revoked: false
  })
  plane.refreshTokens.set(refresh, {
    family,
    scopes: granted,
    issuedAt: now,
    expiresAt: family.expiresAt,
    consumed: false
  })
  return {
    window: lifetimes.secretReplay,
    reply: {
      status: 200,
      headers: secretHeaders,
      body: {
        access_token: access,
        token_type: "Bearer",
        expires_in: lifetimes.access / 1000,
        scope: granted.join(" "),
        refresh_token: refresh,
        ...(granted.includes("self.identity.read")
          ? { actor: { type: kindOf(family.actor), public_id: family.actor } }
          : {})
      }
    }
  }
}

const startFamily = (call: Call, session: Session, scopes: ReadonlyArray<string>): Outcome => {
  const now = call.state.now()
  const family: Family = {
    id: uuidAt(now),
    appId: call.app.appId,
    actor: session.actor,
    session,
    scopes,
    expiresAt: now + lifetimes.family,
    status: "active"
  }
  call.plane.families.set(family.id, family)
  return issuePair(call, family, scopes)
}

/** A testing plane accepts the public id of one of its actors as an SLT (identity-service.md 5). */
const loginByPublicId = (call: Call, publicId: string): Outcome => {
  const { app, plane, state } = call
  if (!plane.actors.has(publicId)) throw invalidGrant()
  const orgs = activeOrganizations(plane, publicId)
  if (kindOf(publicId) === "silicon" && orgs.length === 0) throw invalidGrant()
  const scopes = [...app.approvedScopes]
  addConsent(plane, publicId, app.appId, scopes)
  return startFamily(call, startSession(state, plane, publicId, orgs), scopes)
}

const login = (call: Call, credential: string): Outcome => {
  const { app, plane, state } = call
  if (!shapes.slt.test(credential)) {
    if (plane.environment === undefined) throw invalidGrant()
    return loginByPublicId(call, credential)
  }
  const slt = plane.slts.get(credential)
  if (slt === undefined || slt.appId !== app.appId || slt.spent || state.now() >= slt.expiresAt)
    throw invalidGrant()
  if (!slt.scopes.every((scope) => app.approvedScopes.has(scope))) throw invalidGrant()
  slt.spent = true
  return startFamily(call, slt.session, slt.scopes)
}

const refresh = (call: Call, credential: string): Outcome => {
  const { app, plane, state } = call
  const token = plane.refreshTokens.get(credential)
  if (token === undefined || token.family.appId !== app.appId) throw invalidGrant()
  if (state.now() >= token.expiresAt || !loginAlive(token.family)) throw invalidGrant()
  if (token.consumed) {
    token.family.status = "compromised"
    // The only stored failure, because the compromise itself was committed (identity-service.md 4).
    const error = invalidGrant("the refresh token was already used; its family is revoked")
    return { window: lifetimes.secretReplay, reply: errorReply(error, call.requestId) }
  }
  const consented = consentOf(plane, token.family.actor, app.appId)
  const scopes = token.family.scopes.filter((scope) => consented.has(scope) && app.approvedScopes.has(scope))
  if (scopes.length === 0) throw invalidGrant()
  token.consumed = true
  return issuePair(call, token.family, scopes)
}

/** The order of these checks is the contract's (identity-service.md 5). */
export const tokens = (call: Call): Reply => {
  const form = readForm(call.request, { required: ["app_id"], optional: ["slt", "refresh_token"] })
  const slt = form("slt")
  const refreshToken = form("refresh_token")
  if (form("app_id") !== call.app.appId) throw invalidClient("app_id is not the authenticated application")
  if ((slt === undefined) === (refreshToken === undefined))
    throw invalidRequest("exactly one of slt and refresh_token is required")
  const key = requireIdempotencyKey(call.request)
  const payload = { app_id: call.app.appId, slt: slt ?? null, refresh_token: refreshToken ?? null }
  return once(call, { route: "tokens", key, payload }, () =>
    slt === undefined ? refresh(call, refreshToken ?? "") : login(call, slt)
  )
}
