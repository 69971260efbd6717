/** `POST /api/v1/app-auth/tokens`: login by SLT, and refresh with rotation (identity-service.md 5). */
import type { Reply } from "../Simulator.ts"
import { activeOrganizations, actorActive, addConsent, consentOf, loginAlive } from "./Authority.ts"
import { kindOf, lifetimes, randomToken, shapes, uuidAt } from "./Grammar.ts"
import { type Outcome, once, requireIdempotencyKey } from "./Idempotency.ts"
import { type Family, mint } from "./Model.ts"
import { startSession } from "./Sessions.ts"
import {
  type Call,
  invalidClient,
  invalidGrant,
  invalidRequest,
  readForm,
  refusalReply,
  secretHeaders
} from "./Wire.ts"

const issuePair = (call: Call, family: Family, scopes: ReadonlyArray<string>): Outcome => {
  const { plane, state } = call
  const now = state.now()
  const access = mint(state, randomToken("oat"))
  const refresh = mint(state, randomToken("ort"))
  const granted = [...scopes].sort()
  plane.accessTokens.set(access, {
    token: access,
    family,
    scopes: granted,
    issuedAt: now,
    expiresAt: now + lifetimes.access,
    revoked: false
  })
  plane.refreshTokens.set(refresh, {
    token: refresh,
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

const startFamily = (
  call: Call,
  login: { readonly actor: string; readonly sessionId: string; readonly scopes: ReadonlyArray<string> }
): Outcome => {
  const now = call.state.now()
  const family: Family = {
    id: uuidAt(now),
    appId: call.app.appId,
    ...login,
    createdAt: now,
    expiresAt: now + lifetimes.family,
    status: "active"
  }
  call.plane.families.set(family.id, family)
  return issuePair(call, family, login.scopes)
}

/** A testing plane takes the public id of one of its actors for an SLT (identity-service.md 5). */
const loginByPublicId = (call: Call, publicId: string): Outcome => {
  const { app, plane, state } = call
  if (!actorActive(plane, publicId)) throw invalidGrant()
  const orgs = activeOrganizations(plane, publicId)
  if (kindOf(publicId) === "silicon" && orgs.length === 0) throw invalidGrant()
  const scopes = [...app.approvedScopes]
  addConsent(plane, publicId, app.appId, scopes)
  const session = startSession(state, plane, publicId)
  session.selected.set(app.appId, new Set(orgs))
  return startFamily(call, { actor: publicId, sessionId: session.id, scopes })
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
  if (!actorActive(plane, slt.actor) || plane.sessions.get(slt.sessionId)?.status !== "active")
    throw invalidGrant()
  if (!slt.scopes.every((scope) => app.approvedScopes.has(scope))) throw invalidGrant()
  slt.spent = true
  return startFamily(call, { actor: slt.actor, sessionId: slt.sessionId, scopes: slt.scopes })
}

const refresh = (call: Call, credential: string): Outcome => {
  const { app, plane, state } = call
  const token = plane.refreshTokens.get(credential)
  if (token === undefined || token.family.appId !== app.appId) throw invalidGrant()
  if (state.now() >= token.expiresAt || !loginAlive(plane, token.family)) throw invalidGrant()
  if (token.consumed) {
    token.family.status = "compromised"
    // Unlike every other failure this one is stored: the compromise itself was committed (identity-service.md 4).
    const refusal = invalidGrant("the refresh token was already used; its family is revoked")
    return { window: lifetimes.secretReplay, reply: refusalReply(refusal, call.requestId) }
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
