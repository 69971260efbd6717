/** The state of the simulated Ting. Each plane has its own copy of everything (notification-service.md 6). Times are milliseconds. */
import type { Reply } from "../Simulator.ts"

/** `"production"`, or the UUID of an IAM testing environment. */
export type PlaneId = string

export const production: PlaneId = "production"

/** An organisation, known by its handle and, once IAM names it in a proof, by its UUID. Compared by identity. */
export interface Org {
  handle: string
  id: string | undefined
}

export interface Grant {
  readonly id: string
  readonly org: Org
  readonly appId: string
  readonly actor: string
  active: boolean
}

export interface Ting {
  readonly id: string
  readonly org: Org
  readonly appId: string
  readonly created_at: string
  readonly type: string
  readonly data: unknown
  readonly metadata: unknown
  readonly for: string
  readonly key: string
  readonly silent: boolean
}

export interface KeyRecord {
  readonly digest: string
  readonly acceptedAt: number
  readonly reply: Reply
}

export interface Plane {
  readonly id: PlaneId
  readonly orgs: Map<string, Org>
  /** The types that an operator registered. */
  readonly types: Set<string>
  readonly grants: Array<Grant>
  readonly keys: Map<string, KeyRecord>
  readonly tings: Array<Ting>
}

export type State = Map<PlaneId, Plane>

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** A plane by its id, made on first use. */
export const planeOf = (state: State, id: PlaneId): Plane => {
  const known = state.get(id)
  if (known !== undefined) return known
  if (id !== production && !uuid.test(id)) throw new Error('a plane is "production" or an environment UUID')
  const plane: Plane = {
    id,
    orgs: new Map(),
    types: new Set(),
    grants: [],
    keys: new Map(),
    tings: []
  }
  state.set(id, plane)
  return plane
}

/** Records the handle and UUID of an organisation that IAM named in a proof. */
export const learnOrg = (plane: Plane, handle: string, id: string): Org => {
  const org = plane.orgs.get(id) ?? plane.orgs.get(handle) ?? { handle, id }
  org.handle = handle
  org.id = id
  plane.orgs.set(handle, org).set(id, org)
  return org
}

export const findGrant = (
  plane: Plane,
  org: Org | undefined,
  appId: string,
  actor: string
): Grant | undefined =>
  plane.grants.find((grant) => grant.org === org && grant.appId === appId && grant.actor === actor)
