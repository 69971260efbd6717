/** Control of logins: parent sessions, short-lived tokens, consent, and a look at families. */

import { appOf } from "./Apps.ts"
import { activeOrganizations, consentOf, setConsent } from "./Authority.ts"
import { planeOf } from "./Environments.ts"
import { lifetimes } from "./Grammar.ts"
import type { Family, PlaneId, Session, State } from "./Model.ts"
import { actorOf } from "./People.ts"
import { approve, startSession } from "./Sessions.ts"

const sessionOf = (state: State, plane: PlaneId, id: string): Session => {
  const session = planeOf(state, plane).sessions.get(id)
  if (session === undefined) throw new Error(`there is no session ${id} in ${plane}`)
  return session
}

export const logins = (state: State) => ({
  /** A new parent session, to make several logins from one. */
  startSession: (plane: PlaneId, actor: string): Session => {
    actorOf(state, plane, actor)
    return startSession(state, planeOf(state, plane), actor)
  },

  /**
   * What `iam login` or the consent screen does: approves `scopes` (default: all approved ones) for `orgs` (default: all
   * active ones of the actor) and makes an SLT of 120 s. Each call has a parent session of its own unless one is named.
   */
  mintSlt: (
    plane: PlaneId,
    options: {
      readonly appId: string
      readonly actor: string
      readonly orgs?: ReadonlyArray<string>
      readonly scopes?: ReadonlyArray<string>
      /** A session's UUID. */
      readonly session?: string
    }
  ): string => {
    actorOf(state, plane, options.actor)
    const data = planeOf(state, plane)
    const app = appOf(state, plane, options.appId)
    const session =
      options.session === undefined
        ? startSession(state, data, options.actor)
        : sessionOf(state, plane, options.session)
    if (session.actor !== options.actor) throw new Error("the session belongs to another actor")
    return approve(state, data, {
      app,
      session,
      orgs: options.orgs ?? activeOrganizations(data, options.actor),
      scopes: options.scopes ?? [...app.approvedScopes]
    }).token
  },

  /** Ends every parent session of an actor, and with it all application tokens. */
  revokeSession: (plane: PlaneId, actor: string): void => {
    for (const session of planeOf(state, plane).sessions.values()) {
      if (session.actor !== actor || session.status === "revoked") continue
      session.status = "revoked"
      session.version += 1
    }
  },

  sessionsOf: (plane: PlaneId, actor: string): ReadonlyArray<Session> =>
    [...planeOf(state, plane).sessions.values()].filter((session) => session.actor === actor),

  /** The family of an access or refresh token, in whichever plane it is. */
  familyOf: (token: string): Family | undefined => {
    for (const plane of state.planes.values()) {
      const found = plane.accessTokens.get(token) ?? plane.refreshTokens.get(token)
      if (found !== undefined) return found.family
    }
    return undefined
  },

  /** Takes back what a user consented to: the named scopes, or all. */
  withdrawConsent: (plane: PlaneId, actor: string, appId: string, scopes?: ReadonlyArray<string>): void => {
    const data = planeOf(state, plane)
    const kept = [...consentOf(data, actor, appId)].filter(
      (scope) => scopes !== undefined && !scopes.includes(scope)
    )
    setConsent(data, actor, appId, kept)
  },

  revokeProof: (plane: PlaneId, proof: string): void => {
    const found = planeOf(state, plane).proofs.get(proof)
    if (found === undefined) throw new Error(`there is no such proof in ${plane}`)
    found.revoked = true
  },

  /**
   * Makes every request with this idempotency key meet an unfinished first one (409 `idempotency_in_progress`), for
   * the 30 s of a lease or until the returned function is called.
   */
  holdIdempotency: (key: string): (() => void) => {
    state.held.set(key, state.now() + lifetimes.lease)
    return () => {
      state.held.delete(key)
    }
  }
})
