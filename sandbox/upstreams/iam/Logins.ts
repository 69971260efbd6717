/** Controls of logins: short-lived tokens, parent sessions and consent. */
import { appOf } from "./Apps.ts"
import {
  activeOrganizations,
  addConsent,
  consentOf,
  loginAlive,
  setConsent,
  startSession
} from "./Authorization.ts"
import { planeOf } from "./Environments.ts"
import { kindOf, lifetimes, randomToken } from "./Identifiers.ts"
import { type Family, mint, type PlaneId, type Session, type State } from "./Model.ts"
import { actorOf } from "./People.ts"

export const logins = (state: State) => ({
  /**
   * Consents to `scopes` (default: all approved ones) for `orgs` (default: all active ones of the actor), as the
   * consent screen does, and makes an SLT of 120 s. Each call starts a parent session.
   */
  mintSlt: (
    planeId: PlaneId,
    options: {
      readonly appId: string
      readonly actor: string
      readonly orgs?: ReadonlyArray<string>
      readonly scopes?: ReadonlyArray<string>
    }
  ): string => {
    const { actor, appId } = options
    actorOf(state, planeId, actor)
    const plane = planeOf(state, planeId)
    const app = appOf(state, planeId, appId)
    const reachable = activeOrganizations(plane, actor)
    const orgs = options.orgs ?? reachable
    const scopes = options.scopes ?? [...app.approvedScopes]
    const foreign = orgs.find((org) => !reachable.includes(org))
    if (foreign !== undefined) throw new Error(`${actor} is not an active member of ${foreign}`)
    if (kindOf(actor) === "silicon" && orgs.length !== 1)
      throw new Error("a Silicon grants exactly one organisation")
    const unapproved = scopes.find((scope) => !app.approvedScopes.has(scope))
    if (unapproved !== undefined) throw new Error(`${unapproved} is not approved for ${appId}`)
    addConsent(plane, actor, appId, scopes)
    const token = mint(state, randomToken("oac"))
    plane.slts.set(token, {
      token,
      appId,
      session: startSession(state, plane, actor, orgs),
      scopes: [...scopes],
      expiresAt: state.now() + lifetimes.slt,
      spent: false
    })
    return token
  },

  /** The family of an access or refresh token of any plane. */
  familyOf: (token: string): Family | undefined => {
    for (const plane of state.planes.values()) {
      const found = plane.accessTokens.get(token) ?? plane.refreshTokens.get(token)
      if (found !== undefined) return found.family
    }
    return undefined
  },

  /** The newest parent session of an actor from which a login is still alive. */
  sessionOf: (planeId: PlaneId, actor: string): Session | undefined =>
    [...planeOf(state, planeId).families.values()]
      .reverse()
      .find((family) => family.actor === actor && loginAlive(family))?.session,

  /** Ends every login that was made from a parent session; `events.sessionLogout` makes the event. */
  endSession: (planeId: PlaneId, session: Session): void => {
    for (const family of planeOf(state, planeId).families.values())
      if (family.session.id === session.id && loginAlive(family)) family.status = "revoked"
  },

  /** Withdraws the consent to the named scopes. */
  withdrawConsent: (planeId: PlaneId, actor: string, appId: string, scopes: ReadonlyArray<string>): void => {
    const plane = planeOf(state, planeId)
    const kept = [...consentOf(plane, actor, appId)].filter((scope) => !scopes.includes(scope))
    setConsent(plane, actor, appId, kept)
  },

  /** Answers 409 `idempotency_in_progress` to every request with this key, for the 30 s of a lease. */
  holdIdempotency: (key: string): void => {
    state.held.set(key, state.now() + lifetimes.lease)
  },

  /** Ends the lease early. */
  releaseIdempotency: (key: string): void => {
    state.held.delete(key)
  }
})
