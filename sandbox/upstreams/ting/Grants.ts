/** Recipients' grants to an application (notification-service.md 3.1 and 7): identity, re-activation, revocation. */
import { newId } from "./Grammar.ts"
import { type Grant, nextSequence, type Org, type Plane } from "./Model.ts"

/** The object that lists and the registration answer show. */
export const grantView = (grant: Grant) => ({
  id: grant.id,
  app_id: grant.appId,
  for: grant.actor,
  active: grant.active,
  required_delivery: grant.requiredDelivery
})

export const findGrant = (plane: Plane, org: Org, appId: string, actor: string): Grant | undefined =>
  plane.grants.find((grant) => grant.org === org && grant.appId === appId && grant.actor === actor)

/** Makes a grant, or switches a revoked one on again under its id; `created` is false when it was active already. */
export const register = (
  plane: Plane,
  org: Org,
  appId: string,
  actor: string
): { readonly grant: Grant; readonly created: boolean } => {
  const existing = findGrant(plane, org, appId, actor)
  if (existing !== undefined) {
    const created = !existing.active
    existing.active = true
    return { grant: existing, created }
  }
  const grant: Grant = {
    sequence: nextSequence(plane),
    id: newId("sub"),
    org,
    appId,
    actor,
    active: true,
    requiredDelivery: false
  }
  plane.grants.push(grant)
  return { grant, created: true }
}

/** Ends a grant; repeating it is harmless. The opt-in to required delivery goes with it. */
export const revoke = (grant: Grant): { id: string; active: false; required_delivery: false } => {
  grant.active = false
  grant.requiredDelivery = false
  return { id: grant.id, active: false, required_delivery: false }
}
