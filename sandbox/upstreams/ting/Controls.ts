/** Programmatic control of the simulated Ting: the acts of its operator and of recipients, and views for tests. */
import { findGrant, type Grant, type PlaneId, planeOf, type State, type Ting } from "./Model.ts"

/** One recipient's relation to one application. `org` is a handle or a UUID that a proof has named. */
export interface RecipientOf {
  readonly plane: PlaneId
  readonly org: string
  readonly app_id: string
  readonly for: string
}

export interface GrantView {
  readonly id: string
  readonly app_id: string
  readonly for: string
  readonly active: boolean
  /** The organisation's handle. */
  readonly org: string
}

export type TingView = Omit<Ting, "org" | "appId">

const tingView = ({ org: _org, appId: _appId, ...view }: Ting): TingView => view

export interface TingControls {
  /** Registers a type of an application in a plane, as its operator does. Repeating it has no effect. */
  readonly registerType: (plane: PlaneId, appId: string, type: string) => void
  readonly revokeGrant: (recipient: RecipientOf) => void
  readonly grants: (plane: PlaneId) => ReadonlyArray<GrantView>
  /** A recipient's stored tings in an organisation, newest first, silent ones included. */
  readonly inbox: (plane: PlaneId, org: string, actor: string) => ReadonlyArray<TingView>
  /** Every accepted ting of a plane, oldest first. */
  readonly accepted: (plane: PlaneId) => ReadonlyArray<TingView>
}

export const makeControls = (state: State): TingControls => {
  const grantOf = (recipient: RecipientOf): Grant => {
    const plane = planeOf(state, recipient.plane)
    const grant = findGrant(plane, plane.orgs.get(recipient.org), recipient.app_id, recipient.for)
    if (grant === undefined) throw new Error("this recipient has no grant")
    return grant
  }
  return {
    registerType: (id, appId, type) => {
      if (!type.startsWith(`${appId}.`)) throw new Error(`${type} is not a type of ${appId}`)
      planeOf(state, id).types.add(type)
    },
    revokeGrant: (recipient) => {
      grantOf(recipient).active = false
    },
    grants: (id) =>
      planeOf(state, id).grants.map((grant) => ({
        id: grant.id,
        app_id: grant.appId,
        for: grant.actor,
        active: grant.active,
        org: grant.org.handle
      })),
    inbox: (id, org, actor) => {
      const plane = planeOf(state, id)
      const known = plane.orgs.get(org)
      return plane.tings
        .filter((ting) => ting.org === known && ting.for === actor)
        .reverse()
        .map(tingView)
    },
    accepted: (id) => planeOf(state, id).tings.map(tingView)
  }
}
