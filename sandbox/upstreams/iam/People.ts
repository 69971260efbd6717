/** Control of organisations, actors and memberships. What changes a member's authority raises its epoch. */
import { membershipId } from "./Authority.ts"
import { planeOf } from "./Environments.ts"
import { kindOf, shapes, uuidAt } from "./Grammar.ts"
import type { Actor, Membership, Organization, OrgRole, PlaneId, State, Tag } from "./Model.ts"

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
  addOrganization: (
    plane: PlaneId,
    handle: string,
    options: { readonly id?: string; readonly name?: string } = {}
  ): string => {
    if (!shapes.orgHandle.test(handle)) throw new Error(`${handle} is no organisation handle`)
    const id = options.id ?? uuidAt(state.now())
    planeOf(state, plane).organizations.set(handle, {
      id,
      handle,
      name: options.name ?? handle,
      status: "active",
      version: 1
    })
    return id
  },

  setOrganizationStatus: (plane: PlaneId, handle: string, status: Organization["status"]): void => {
    const organization = organizationOf(state, plane, handle)
    organization.status = status
    organization.version += 1
  },

  addActor: (plane: PlaneId, publicId: string, options: { readonly displayName?: string } = {}): Actor => {
    const kind = kindOf(publicId)
    if (kind === undefined) throw new Error(`${publicId} is no public id`)
    const actor: Actor = {
      publicId,
      kind,
      displayName: options.displayName ?? publicId.slice(publicId.indexOf(":") + 1),
      status: "active",
      epoch: 1,
      version: 1
    }
    planeOf(state, plane).actors.set(publicId, actor)
    return actor
  },

  setActorStatus: (plane: PlaneId, publicId: string, status: Actor["status"]): void => {
    const actor = actorOf(state, plane, publicId)
    actor.status = status
    actor.epoch += 1
    actor.version += 1
  },

  /** Joins, or comes back to, an organisation. A Silicon is in exactly one. */
  addMembership: (
    plane: PlaneId,
    actor: string,
    org: string,
    options: {
      readonly id?: string
      readonly role?: OrgRole
      readonly tags?: ReadonlyArray<Tag>
      readonly version?: number
      readonly epoch?: number
    } = {}
  ): Membership => {
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
      id: options.id ?? before?.id ?? uuidAt(state.now()),
      actor,
      org,
      role: options.role ?? "member",
      tags: options.tags ?? [],
      status: "active",
      version: options.version ?? (before?.version ?? 0) + 1,
      epoch: options.epoch ?? (before?.epoch ?? 0) + 1
    }
    memberships.set(id, membership)
    return membership
  },

  updateMembership: (
    plane: PlaneId,
    actor: string,
    org: string,
    change: { readonly role?: OrgRole; readonly tags?: ReadonlyArray<Tag> }
  ): Membership => {
    const membership = membershipOf(state, plane, actor, org)
    Object.assign(membership, change)
    membership.version += 1
    membership.epoch += 1
    return membership
  },

  /** Effective at once. It sends no webhook; `events.membershipRemoved` makes the one to emit. */
  removeMembership: (plane: PlaneId, actor: string, org: string): Membership => {
    const membership = membershipOf(state, plane, actor, org)
    membership.status = "removed"
    membership.version += 1
    membership.epoch += 1
    return membership
  }
})
