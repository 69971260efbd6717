/** What a test or a person does to a simulated Ting from outside the contract: operator's and recipient's acts, and lifecycle. */
import { randomBytes } from "node:crypto"
import { findGrant, grantView, register, revoke } from "./Grants.ts"
import { tingsOf, tingView } from "./Inbox.ts"
import {
  findOrg,
  type Grant,
  type Lifecycle,
  type Plane,
  type PlaneId,
  planeOf,
  type State,
  trustOrg
} from "./Model.ts"
import { setPreference } from "./Preferences.ts"
import type { TingCode } from "./Refusal.ts"
import { findType, registerType } from "./Types.ts"

/** One recipient's relation to one application. `org` is a handle, or a UUID once a proof has named it. */
export interface RecipientOf {
  readonly plane: PlaneId
  readonly org: string
  readonly app_id: string
  readonly for: string
}

/** Which tings: all of the application, one service of it, or one type. */
export interface MuteScope {
  readonly service?: string
  readonly type?: string
}

export interface SessionOptions {
  readonly plane: PlaneId
  readonly for: string
  /** Without: every organisation. */
  readonly orgs?: ReadonlyArray<string>
  /** Applications whose types this person may register. */
  readonly administers?: ReadonlyArray<string>
}

export interface GrantView {
  readonly id: string
  readonly app_id: string
  readonly for: string
  readonly active: boolean
  readonly required_delivery: boolean
  /** The organisation's handle. */
  readonly org: string
}

/** Refuses the next registrations and sends with a code, before the proof is looked at. */
export type FailNext = (
  code: TingCode,
  options?: {
    /** Instead of the code's own status. */
    readonly status?: number
    /** Seconds. */
    readonly retryAfter?: number
    /** How many calls; default 1. */
    readonly times?: number
    /** Let the call take effect first, as a database whose answer got lost would. */
    readonly committed?: boolean
  }
) => void

export type TingView = ReturnType<typeof tingView>

export interface World {
  /** Every recipient session token, so that a test can look for it where it must not be. */
  readonly minted: Array<string>
  /** Registers a type of an application in a plane, as its operator would; repeating it changes nothing. */
  readonly registerType: (plane: PlaneId, appId: string, type: string, description?: string) => void
  /** Registers a recipient without a proof. */
  readonly registerRecipient: (recipient: RecipientOf) => void
  readonly revokeGrant: (recipient: RecipientOf) => void
  readonly requireDeliveryOptIn: (recipient: RecipientOf, enabled?: boolean) => void
  readonly mute: (recipient: RecipientOf, scope?: MuteScope) => void
  readonly unmute: (recipient: RecipientOf, scope?: MuteScope) => void
  readonly grants: (plane: PlaneId) => ReadonlyArray<GrantView>
  /** A recipient's stored tings in an organisation, newest first, silent ones included. */
  readonly inbox: (plane: PlaneId, org: string, actor: string) => ReadonlyArray<TingView>
  /** Every ting ever accepted in a plane, oldest first. */
  readonly accepted: (plane: PlaneId) => ReadonlyArray<TingView>
  /** How Ting stands with a testing environment. */
  readonly setLifecycle: (plane: PlaneId, lifecycle: Lifecycle) => void
  /** Makes a recipient's session and returns its bearer, `ting_` and 64 hex. */
  readonly mintSession: (options: SessionOptions) => string
}

const usualDescription = "Registered by the sandbox"

const grantOf = (state: State, recipient: RecipientOf): Grant => {
  const plane = planeOf(state, recipient.plane)
  const grant = findGrant(plane, trustOrg(plane, recipient.org), recipient.app_id, recipient.for)
  if (grant === undefined) throw new Error("this recipient has no grant")
  return grant
}

const override = (state: State, recipient: RecipientOf, scope: MuteScope, enabled: boolean): void => {
  const plane = planeOf(state, recipient.plane)
  const full = { appId: recipient.app_id, service: scope.service ?? null, type: scope.type ?? null }
  setPreference(plane, trustOrg(plane, recipient.org), recipient.for, full, enabled)
}

const inboxOf = (plane: Plane, now: number, org: string, actor: string): ReadonlyArray<TingView> => {
  const known = findOrg(plane, org)
  return known === undefined ? [] : tingsOf(plane, now, { org: known, for: actor }).map(tingView)
}

export const makeWorld = (state: State): World => ({
  minted: state.minted,
  registerType: (id, appId, type, description = usualDescription) => {
    const plane = planeOf(state, id)
    const existing = findType(plane, appId, type)
    if (existing === undefined) registerType(plane, appId, type, description)
    else existing.description = description
  },
  registerRecipient: (recipient) => {
    const plane = planeOf(state, recipient.plane)
    register(plane, trustOrg(plane, recipient.org), recipient.app_id, recipient.for)
  },
  revokeGrant: (recipient) => {
    revoke(grantOf(state, recipient))
  },
  requireDeliveryOptIn: (recipient, enabled = true) => {
    grantOf(state, recipient).requiredDelivery = enabled
  },
  mute: (recipient, scope = {}) => override(state, recipient, scope, false),
  unmute: (recipient, scope = {}) => override(state, recipient, scope, true),
  grants: (id) => planeOf(state, id).grants.map((grant) => ({ ...grantView(grant), org: grant.org.handle })),
  inbox: (id, org, actor) => inboxOf(planeOf(state, id), state.now(), org, actor),
  accepted: (id) => planeOf(state, id).tings.map(tingView),
  setLifecycle: (id, lifecycle) => {
    planeOf(state, id).lifecycle = lifecycle
  },
  mintSession: (options) => {
    planeOf(state, options.plane)
    const token = `ting_${randomBytes(32).toString("hex")}`
    state.minted.push(token)
    state.sessions.set(token, {
      token,
      plane: options.plane,
      actor: options.for,
      orgs: options.orgs,
      administers: options.administers ?? []
    })
    return token
  }
})
