/** What an actor, an application and their tokens may do at this moment; nothing here is remembered from an earlier look. */
import type {
  AccessToken,
  App,
  Family,
  Membership,
  Organization,
  Plane,
  RefreshToken,
  State
} from "./Model.ts"

export const membershipId = (actor: string, org: string): string => `${actor}[${org}]`

const consentKey = (actor: string, appId: string): string => `${actor} ${appId}`

export const consentOf = (plane: Plane, actor: string, appId: string): ReadonlySet<string> =>
  plane.consents.get(consentKey(actor, appId)) ?? new Set()

export const setConsent = (plane: Plane, actor: string, appId: string, scopes: Iterable<string>): void => {
  plane.consents.set(consentKey(actor, appId), new Set(scopes))
}

export const addConsent = (plane: Plane, actor: string, appId: string, scopes: Iterable<string>): void =>
  setConsent(plane, actor, appId, [...consentOf(plane, actor, appId), ...scopes])

export const activeApp = (plane: Plane, appId: string): App | undefined => {
  const app = plane.apps.get(appId)
  return app?.status === "active" ? app : undefined
}

export const actorActive = (plane: Plane, actor: string): boolean =>
  plane.actors.get(actor)?.status === "active"

export interface Grant {
  readonly membership: Membership
  readonly organization: Organization
}

const activeGrant = (plane: Plane, actor: string, org: string): Grant | undefined => {
  const membership = plane.memberships.get(membershipId(actor, org))
  const organization = plane.organizations.get(org)
  return membership?.status === "active" && organization?.status === "active"
    ? { membership, organization }
    : undefined
}

/** All current active organisations of an actor, by handle. */
export const activeOrganizations = (plane: Plane, actor: string): ReadonlyArray<string> =>
  [...plane.organizations.keys()].filter((org) => activeGrant(plane, actor, org) !== undefined).sort()

/** The selected organisations in which the actor is an active member now, by handle (identity-service.md 6.2). */
export const grantsOf = (plane: Plane, family: Family): ReadonlyArray<Grant> =>
  [...(plane.sessions.get(family.sessionId)?.selected.get(family.appId) ?? [])].sort().flatMap((org) => {
    const grant = activeGrant(plane, family.actor, org)
    return grant === undefined ? [] : [grant]
  })

/** Whether the login behind a token stands: family, parent session, actor. */
export const loginAlive = (plane: Plane, family: Family): boolean =>
  family.status === "active" &&
  plane.sessions.get(family.sessionId)?.status === "active" &&
  actorActive(plane, family.actor)

export const accessAlive = (state: State, plane: Plane, token: AccessToken): boolean =>
  !token.revoked && state.now() < token.expiresAt && loginAlive(plane, token.family)

export const refreshAlive = (state: State, plane: Plane, token: RefreshToken): boolean =>
  !token.consumed && state.now() < token.expiresAt && loginAlive(plane, token.family)

/** The token's scopes that are still approved for its application, ascending (identity-service.md 6.3). */
export const effectiveScopes = (plane: Plane, token: AccessToken | RefreshToken): ReadonlyArray<string> => {
  const approved = plane.apps.get(token.family.appId)?.approvedScopes
  return token.scopes.filter((scope) => approved?.has(scope) === true).sort()
}
