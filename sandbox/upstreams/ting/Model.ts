/** What the simulated Ting remembers. Every plane has all of it for itself (notification-service.md 6). Times in milliseconds. */
import type { Now, Reply } from "../Simulator.ts"
import { newId } from "./Grammar.ts"
import { Refusal } from "./Refusal.ts"

/** `"production"`, or the UUID of an IAM testing environment. */
export type PlaneId = string

export const production: PlaneId = "production"

/** An organisation, known by handle and, once IAM named it in a proof, by its UUID. Compared by identity. */
export interface Org {
  handle: string
  id: string | undefined
}

interface Sequenced {
  /** Order of creation within a plane. */
  readonly sequence: number
}

export interface TingType extends Sequenced {
  readonly appId: string
  readonly type: string
  description: string
}

export interface Grant extends Sequenced {
  readonly id: string
  readonly org: Org
  readonly appId: string
  readonly actor: string
  active: boolean
  requiredDelivery: boolean
}

/** Which tings an override covers; exactly one of service and type, or neither for the whole application. */
export interface Scope {
  readonly appId: string
  readonly service: string | null
  readonly type: string | null
}

export interface Preference extends Sequenced {
  readonly org: Org
  readonly actor: string
  readonly scope: Scope
  enabled: boolean
}

export interface Ting extends Sequenced {
  readonly id: string
  readonly org: Org
  readonly appId: string
  readonly createdAt: number
  readonly created_at: string
  readonly type: string
  readonly data: unknown
  readonly metadata: unknown
  readonly for: string
  readonly key: string
  readonly silent: boolean
  read: boolean
}

export interface KeyRecord {
  readonly digest: string
  readonly acceptedAt: number
  readonly reply: Reply
}

/** How the environment stands with Ting: unknown or mid-step, switched off, or ended between resolving and executing. */
export type Lifecycle = "ready" | "pending" | "disabled" | "stale"

export interface Plane {
  readonly id: PlaneId
  readonly orgs: Map<string, Org>
  readonly types: Map<string, TingType>
  readonly grants: Array<Grant>
  readonly preferences: Array<Preference>
  readonly keys: Map<string, KeyRecord>
  readonly tings: Array<Ting>
  readonly cursors: Map<string, { readonly list: string; readonly before: number }>
  lifecycle: Lifecycle
  lastSequence: number
}

/** A recipient's own session, never an application's. */
export interface Session {
  readonly token: string
  readonly plane: PlaneId
  readonly actor: string
  /** Handles or UUIDs; `undefined` for every organisation. */
  readonly orgs: ReadonlyArray<string> | undefined
  /** Applications whose types this person may register. */
  readonly administers: ReadonlyArray<string>
}

export interface State {
  readonly now: Now
  readonly planes: Map<PlaneId, Plane>
  readonly sessions: Map<string, Session>
  readonly minted: Array<string>
}

export const makeState = (now: Now): State => ({ now, planes: new Map(), sessions: new Map(), minted: [] })

export const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** A plane by its id, made on first use. */
export const planeOf = (state: State, id: PlaneId): Plane => {
  const known = state.planes.get(id)
  if (known !== undefined) return known
  if (id !== production && !uuid.test(id)) throw new Error('a plane is "production" or an environment UUID')
  const plane: Plane = {
    id,
    orgs: new Map(),
    types: new Map(),
    grants: [],
    preferences: [],
    keys: new Map(),
    tings: [],
    cursors: new Map(),
    lifecycle: "ready",
    lastSequence: 0
  }
  state.planes.set(id, plane)
  return plane
}

export const nextSequence = (plane: Plane): number => {
  plane.lastSequence += 1
  return plane.lastSequence
}

/** The organisation that IAM named by handle and UUID; from now on known by both. */
export const learnOrg = (plane: Plane, handle: string, id: string): Org => {
  const byHandle = plane.orgs.get(handle)
  const provisional = byHandle !== undefined && (byHandle.id === undefined || byHandle.id === id)
  const org = plane.orgs.get(id) ?? (provisional ? byHandle : { handle, id })
  org.handle = handle
  org.id = id
  plane.orgs.set(handle, org).set(id, org)
  return org
}

export const findOrg = (plane: Plane, name: string): Org | undefined => plane.orgs.get(name)

/** For controls: an organisation by handle or known UUID. A handle that no proof has named yet is taken on trust. */
export const trustOrg = (plane: Plane, name: string): Org => {
  const known = plane.orgs.get(name)
  if (known !== undefined) return known
  if (uuid.test(name)) throw new Error("no proof has named this organisation yet; use its handle")
  const org: Org = { handle: name, id: undefined }
  plane.orgs.set(name, org)
  return org
}

/** One page, newest first, of items that are all of one named list (its filters included). */
export const pageOf = <A extends Sequenced>(
  plane: Plane,
  list: string,
  items: ReadonlyArray<A>,
  options: { readonly limit: number; readonly cursor: string | undefined }
): { readonly items: ReadonlyArray<A>; readonly next_cursor?: string } => {
  let before = Number.POSITIVE_INFINITY
  if (options.cursor !== undefined) {
    const cursor = plane.cursors.get(options.cursor)
    if (cursor === undefined || cursor.list !== list) throw new Refusal("invalid_cursor")
    before = cursor.before
  }
  const rest = items.filter((item) => item.sequence < before).sort((a, b) => b.sequence - a.sequence)
  const page = rest.slice(0, options.limit)
  const last = page.at(-1)
  if (last === undefined || rest.length <= page.length) return { items: page }
  const next = newId("cur")
  plane.cursors.set(next, { list, before: last.sequence })
  return { items: page, next_cursor: next }
}
