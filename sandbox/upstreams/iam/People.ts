/** Controls of organisations, actors and memberships. A change of a membership raises its version and epoch. */
import { membershipId } from "./Authorization.ts"
import { planeOf } from "./Environments.ts"
import { kindOf, shapes, uuidAt } from "./Identifiers.ts"
import type { Actor, Membership, Organization, PlaneId, State } from "./Model.ts"

export const actorOf = (state: State, plane: PlaneId, publicId: string): Actor => {
  const actor = planeOf(state, plane).actors.get(publicId)
  if (actor === undefined) throw new Error(`there is no actor ${publicId} in ${plane}`)
  return actor
}

export const organizationOf = (state: State, plane: PlaneId, handle: string): Organization => {
  const organization = planeOf(state, plane).organizations.get(handle)
  if (organization === undefined) throw new Error(`there is no organisation ${handle} in ${plane}`)
  return organization
}

export const membershipOf = (state: State, plane: PlaneId, actor: string, org: string): Membership => {
  const membership = planeOf(state, plane).memberships.get(membershipId(actor, org))
  if (membership === undefined)
    throw new Error(`there is no membership ${membershipId(actor, org)} in ${plane}`)
  return membership
}

export const people = (state: State) => ({
  /** Returns the organisation's UUID. */
  addOrganization: (plane: PlaneId, handle: string, name = handle): string => {
    if (!shapes.orgHandle.test(handle)) throw new Error(`${handle} is not an organisation handle`)
    const id = uuidAt(state.now())
    planeOf(state, plane).organizations.set(handle, { id, handle, name })
    return id
  },

  addActor: (plane: PlaneId, publicId: string): Actor => {
    const kind = kindOf(publicId)
    if (kind === undefined) throw new Error(`${publicId} is not a public id`)
    const actor: Actor = { publicId, kind, epoch: 1 }
    planeOf(state, plane).actors.set(publicId, actor)
    return actor
  },

  /** Adds or restores a membership. A Silicon has exactly one. */
  addMembership: (plane: PlaneId, actor: string, org: string): Membership => {
    const { memberships } = planeOf(state, plane)
    organizationOf(state, plane, org)
    const elsewhere = [...memberships.values()].some(
      (membership) => membership.actor === actor && membership.org !== org && membership.status === "active"
    )
    if (actorOf(state, plane, actor).kind === "silicon" && elsewhere)
      throw new Error(`${actor} is in another organisation`)
    const id = membershipId(actor, org)
    const before = memberships.get(id)
    const membership: Membership = {
      id: before?.id ?? uuidAt(state.now()),
      actor,
      org,
      status: "active",
      version: (before?.version ?? 0) + 1,
      epoch: (before?.epoch ?? 0) + 1
    }
    memberships.set(id, membership)
    return membership
  },

  /** Takes effect at once and sends no webhook; `events.membershipRemoved` makes the event. */
  removeMembership: (plane: PlaneId, actor: string, org: string): Membership => {
    const membership = membershipOf(state, plane, actor, org)
    membership.status = "removed"
    membership.version += 1
    membership.epoch += 1
    return membership
  }
})
