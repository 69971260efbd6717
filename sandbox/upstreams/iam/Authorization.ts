/** The current rights of actors, applications and tokens. Nothing is cached; every result follows from the state. */
import type {
  AccessToken,
  Family,
  Membership,
  Organization,
  Plane,
  RefreshToken,
  Session,
  State
} from "./Model.ts"
import { uuidAt } from "./Identifiers.ts"

export const membershipId = (actor: string, org: string): string => `${actor}[${org}]`

const consentKey = (actor: string, appId: string): string => `${actor} ${appId}`

export const consentOf = (plane: Plane, actor: string, appId: string): ReadonlySet<string> =>
  plane.consents.get(consentKey(actor, appId)) ?? new Set()

export const setConsent = (plane: Plane, actor: string, appId: string, scopes: Iterable<string>): void => {
  plane.consents.set(consentKey(actor, appId), new Set(scopes))
}

export const addConsent = (plane: Plane, actor: string, appId: string, scopes: Iterable<string>): void =>
  setConsent(plane, actor, appId, [...consentOf(plane, actor, appId), ...scopes])

/** Starts a parent session with the organisations that the user selects. */
export const startSession = (
  state: State,
  plane: Plane,
  actor: string,
  organizations: Iterable<string>
): Session => {
  const session: Session = {
    id: uuidAt(state.now()),
    actor,
    organizations: new Set(organizations)
  }
  plane.sessions.set(session.id, session)
  return session
}

export interface Grant {
  readonly membership: Membership
  readonly organization: Organization
}

const activeGrant = (plane: Plane, actor: string, org: string): Grant | undefined => {
  const membership = plane.memberships.get(membershipId(actor, org))
  const organization = plane.organizations.get(org)
  return membership?.status === "active" && organization !== undefined
    ? { membership, organization }
    : undefined
}

/** All organisations in which an actor is an active member, by handle. */
export const activeOrganizations = (plane: Plane, actor: string): ReadonlyArray<string> =>
  [...plane.organizations.keys()].filter((org) => activeGrant(plane, actor, org) !== undefined).sort()

/** The selected organisations in which the actor is an active member now, by handle (identity-service.md 6.2). */
export const grantsOf = (plane: Plane, { actor, session }: Family): ReadonlyArray<Grant> =>
  [...session.organizations].sort().flatMap((org) => {
    const grant = activeGrant(plane, actor, org)
    return grant === undefined ? [] : [grant]
  })

export const loginAlive = (family: Family): boolean => family.status === "active"

export const accessAlive = (state: State, token: AccessToken): boolean =>
  !token.revoked && state.now() < token.expiresAt && loginAlive(token.family)

export const refreshAlive = (state: State, token: RefreshToken): boolean =>
  !token.consumed && state.now() < token.expiresAt && loginAlive(token.family)

/** The token's scopes that are still approved for its application, ascending (identity-service.md 6.3). */
export const effectiveScopes = (plane: Plane, token: AccessToken | RefreshToken): ReadonlyArray<string> => {
  const approved = plane.apps.get(token.family.appId)?.approvedScopes
  return token.scopes.filter((scope) => approved?.has(scope) === true).sort()
}
