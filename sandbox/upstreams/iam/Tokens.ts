/** Logins, refreshes, introspection and revocation, and the current rights of tokens (identity-service.md 5, 6 and 7). */
import { headerValues, type Reply } from "../Contract.ts"
import {
  type AccessToken,
  type Family,
  kindOf,
  lifetimes,
  type Membership,
  mint,
  type Organization,
  type Plane,
  randomToken,
  type RefreshToken,
  type Session,
  shapes,
  type State,
  unixSeconds,
  uuidAt
} from "./Model.ts"
import {
  type Call,
  invalidClient,
  invalidGrant,
  invalidRequest,
  once,
  type Outcome,
  readForm,
  requireIdempotencyKey,
  secretHeaders,
  withRequestId
} from "./Requests.ts"

export const membershipId = (actor: string, org: string): string => `${actor}[${org}]`

export interface Grant {
  readonly membership: Membership
  readonly organization: Organization
}

/** The active memberships of an actor, by handle. */
const activeGrants = ({ memberships, organizations }: Plane, actor: string): ReadonlyArray<Grant> =>
  [...organizations.values()]
    .flatMap((organization) => {
      const membership = memberships.get(membershipId(actor, organization.handle))
      return membership?.status === "active" ? [{ membership, organization }] : []
    })
    .sort((one, other) => (one.organization.handle < other.organization.handle ? -1 : 1))

/** All organisations in which an actor is an active member, by handle. */
export const activeOrganizations = (plane: Plane, actor: string): ReadonlyArray<string> =>
  activeGrants(plane, actor).map(({ organization }) => organization.handle)

/** The selected organisations in which the actor is an active member now, by handle (identity-service.md 6.2). */
export const grantsOf = (plane: Plane, { actor, session }: Family): ReadonlyArray<Grant> =>
  activeGrants(plane, actor).filter(({ organization }) => session.organizations.has(organization.handle))

export const accessAlive = (state: State, token: AccessToken): boolean =>
  !token.revoked && state.now() < token.expiresAt && token.family.status === "active"

const refreshAlive = (state: State, token: RefreshToken): boolean =>
  !token.consumed && state.now() < token.expiresAt && token.family.status === "active"

/** The token's scopes that are still approved for its application, ascending (identity-service.md 6.3). */
export const effectiveScopes = (plane: Plane, token: AccessToken | RefreshToken): ReadonlyArray<string> => {
  const approved = plane.apps.get(token.family.appId)?.approvedScopes
  return token.scopes.filter((scope) => approved?.has(scope) === true).sort()
}

const issuePair = ({ plane, state }: Call, family: Family, granted: ReadonlyArray<string>): Outcome => {
  const now = state.now()
  const access = mint(state, randomToken("oat"))
  const refresh = mint(state, randomToken("ort"))
  const scopes = [...granted].sort()
  const common = { family, scopes, issuedAt: now }
  plane.accessTokens.set(access, { ...common, expiresAt: now + lifetimes.access, revoked: false })
  plane.refreshTokens.set(refresh, { ...common, expiresAt: family.expiresAt, consumed: false })
  const body = {
    access_token: access,
    token_type: "Bearer",
    expires_in: lifetimes.access / 1_000,
    scope: scopes.join(" "),
    refresh_token: refresh,
    ...(scopes.includes("self.identity.read")
      ? { actor: { type: kindOf(family.actor), public_id: family.actor } }
      : {})
  }
  return { window: lifetimes.secretReplay, reply: { status: 200, headers: secretHeaders, body } }
}

/** Makes a parent session with the organisations that the user selects. */
export const newSession = (state: State, actor: string, organizations: Iterable<string>): Session => ({
  id: uuidAt(state.now()),
  actor,
  organizations: new Set(organizations)
})

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
  const orgs = activeOrganizations(plane, publicId)
  const isReachable = orgs.length > 0 || kindOf(publicId) === "carbon"
  if (plane.environment === undefined || !plane.actors.has(publicId) || !isReachable) throw invalidGrant()
  return startFamily(call, newSession(state, publicId, orgs), [...app.approvedScopes])
}

const login = (call: Call, credential: string): Outcome => {
  const { app, plane, state } = call
  if (!shapes.slt.test(credential)) return loginByPublicId(call, credential)
  const slt = plane.slts.get(credential)
  if (slt === undefined || slt.appId !== app.appId || slt.spent || state.now() >= slt.expiresAt)
    throw invalidGrant()
  if (!slt.scopes.every((scope) => app.approvedScopes.has(scope))) throw invalidGrant()
  slt.spent = true
  return startFamily(call, slt.session, slt.scopes)
}

const refresh = (call: Call, credential: string): Outcome => {
  const { app, plane, requestId, state } = call
  const token = plane.refreshTokens.get(credential)
  if (token === undefined || token.family.appId !== app.appId) throw invalidGrant()
  const { family } = token
  if (state.now() >= token.expiresAt || family.status !== "active") throw invalidGrant()
  if (token.consumed) {
    family.status = "compromised"
    // The only stored failure, because the compromise itself was committed (identity-service.md 4).
    const error = invalidGrant("the refresh token was already used; its family is revoked")
    return { window: lifetimes.secretReplay, reply: withRequestId(error.reply, requestId) }
  }
  // Consent is never withdrawn here: it has all scopes of the login.
  const scopes = family.scopes.filter((scope) => app.approvedScopes.has(scope))
  if (scopes.length === 0) throw invalidGrant()
  token.consumed = true
  return issuePair(call, family, scopes)
}

/** Login by SLT, and refresh with rotation. The order of these checks is the contract's (identity-service.md 5). */
export const tokens = (call: Call): Reply => {
  const { app, request } = call
  const form = readForm(request, ["app_id"], ["slt", "refresh_token"])
  const slt = form("slt")
  const refreshToken = form("refresh_token")
  if (form("app_id") !== app.appId) throw invalidClient("app_id is not the authenticated application")
  if ((slt === undefined) === (refreshToken === undefined))
    throw invalidRequest("exactly one of slt and refresh_token is required")
  const payload = { app_id: app.appId, slt: slt ?? null, refresh_token: refreshToken ?? null }
  return once(call, requireIdempotencyKey(request), payload, () =>
    slt === undefined ? refresh(call, refreshToken ?? "") : login(call, slt)
  )
}

/** The authorization snapshot of one organisation, computed at every call (identity-service.md 6.3). */
export const snapshot = (
  { plane }: Call,
  { membership, organization }: Grant,
  audience: string,
  scopes: ReadonlyArray<string>
) => ({
  ...(scopes.includes("self.identity.read")
    ? { actor_type: kindOf(membership.actor), public_id: membership.actor }
    : { id: membership.actor }),
  organization_id: organization.id,
  org_id: organization.handle,
  membership_id: membershipId(membership.actor, membership.org),
  membership_version: membership.version,
  authorization_epoch: membership.version,
  audience,
  testing_environment_id: plane.environment?.id ?? null,
  scopes,
  org_role: null,
  tags: null
})

const readToken = ({ request }: Call): string => {
  const form = readForm(request, ["token"], ["token_type_hint"])
  if (!["access_token", "refresh_token"].includes(form("token_type_hint") ?? "access_token"))
    throw invalidRequest("token_type_hint must be access_token or refresh_token")
  return form("token") ?? ""
}

/** Computed from the current state at every call. Any unusable token answers exactly `{"active":false}` (identity-service.md 6). */
export const introspect = (call: Call): Reply => {
  const { app, plane, request, state } = call
  const value = readToken(call)
  if (headerValues(request, "x-org-id").length > 0) throw invalidRequest("X-Org-ID is not simulated")
  const access = plane.accessTokens.get(value)
  const refreshed = plane.refreshTokens.get(value)
  const token = access ?? refreshed
  const isAlive =
    (access !== undefined && accessAlive(state, access)) ||
    (refreshed !== undefined && refreshAlive(state, refreshed))
  if (token === undefined || !isAlive || token.family.appId !== app.appId)
    return { status: 200, body: { active: false } }
  const { family } = token
  const scopes = effectiveScopes(plane, token)
  const authorizations = grantsOf(plane, family).map((grant) => snapshot(call, grant, app.appId, scopes))
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
      authorization_epoch: 1,
      ...(access === undefined ? {} : { authorizations })
    }
  }
}

/** Answers 200 with an empty body, also for an unknown token. A refresh token ends its family, also a consumed one (identity-service.md 7). */
export const revoke = (call: Call): Reply => {
  const { app, plane, request } = call
  const value = readToken(call)
  if (value.length < 32 || value.length > 4_096)
    throw invalidRequest("the token must have 32 to 4096 characters")
  return once(call, requireIdempotencyKey(request), value, () => {
    const access = plane.accessTokens.get(value)
    if (access?.family.appId === app.appId) access.revoked = true
    const family = plane.refreshTokens.get(value)?.family
    if (family?.appId === app.appId && family.status === "active") family.status = "revoked"
    return { reply: { status: 200 }, window: lifetimes.plainReplay }
  })
}
