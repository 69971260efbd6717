/** Parent IAM sessions and the short-lived tokens made from them (identity-service.md 5 and 8). */
import { activeOrganizations, addConsent } from "./Authority.ts"
import { kindOf, lifetimes, randomToken, uuidAt } from "./Grammar.ts"
import { type App, mint, type Plane, type Session, type Slt, type State } from "./Model.ts"

export const startSession = (state: State, plane: Plane, actor: string): Session => {
  const now = state.now()
  const session: Session = {
    id: uuidAt(now),
    actor,
    bearer: mint(state, randomToken(kindOf(actor) === "carbon" ? "cat" : "sat")),
    createdAt: now,
    status: "active",
    version: 1,
    selected: new Map()
  }
  plane.sessions.set(session.id, session)
  return session
}

/** Selected organisations add up for a public application and are replaced for a private one (identity-service.md 8). */
const select = (session: Session, app: App, orgs: ReadonlyArray<string>): void => {
  const before = app.visibility === "public" ? (session.selected.get(app.appId) ?? []) : []
  session.selected.set(app.appId, new Set([...before, ...orgs]))
}

/** The consent of a user: selects the organisations, records the scopes and makes the SLT. */
export const approve = (
  state: State,
  plane: Plane,
  consent: {
    readonly app: App
    readonly session: Session
    readonly orgs: ReadonlyArray<string>
    readonly scopes: ReadonlyArray<string>
  }
): Slt => {
  const { app, orgs, scopes, session } = consent
  const reachable = activeOrganizations(plane, session.actor)
  const foreign = orgs.find((org) => !reachable.includes(org))
  if (foreign !== undefined) throw new Error(`${session.actor} is no active member of ${foreign}`)
  if (kindOf(session.actor) === "silicon" && orgs.length !== 1)
    throw new Error("a Silicon grants exactly one organisation")
  const unapproved = scopes.find((scope) => !app.approvedScopes.has(scope))
  if (unapproved !== undefined) throw new Error(`${unapproved} is not approved for ${app.appId}`)
  select(session, app, orgs)
  addConsent(plane, session.actor, app.appId, scopes)
  const slt: Slt = {
    token: mint(state, randomToken("oac")),
    appId: app.appId,
    actor: session.actor,
    sessionId: session.id,
    scopes: [...scopes],
    expiresAt: state.now() + lifetimes.slt,
    spent: false
  }
  plane.slts.set(slt.token, slt)
  return slt
}
