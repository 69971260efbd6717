/** The events that the console lets IAM send: which there are, whether one is possible now, and its signed request. */
import * as Effect from "effect/Effect"
import { planesOf, type SimulatedUpstreams } from "../SimulatedUpstreams.ts"
import type { IamControls, Session } from "../upstreams/Iam.ts"
import { activeOrganizations } from "../upstreams/iam/Tokens.ts"
import type { Action, WebhookEvent } from "./Protocol.ts"
import { type Refused, refuse } from "./Refused.ts"

/** A member of that kind; an organisation or a resource of it; a Carbon; a Carbon's session at IAM; the application. */
const abouts = {
  silicon: { group: "Silicons", actorKind: "silicon", hasOrganization: true },
  member: { group: "Members", actorKind: "carbon", hasOrganization: true },
  carbon: { group: "Carbons and their sessions", actorKind: "carbon", hasOrganization: false },
  session: { group: "Carbons and their sessions", actorKind: "carbon", hasOrganization: false },
  organization: { group: "Organisations", actorKind: null, hasOrganization: true },
  application: { group: "The application", actorKind: null, hasOrganization: false }
} as const

/** The events of identity-service.md 11.5, by what they are about, with what they say. */
const events: ReadonlyArray<readonly [type: string, about: keyof typeof abouts, meaning: string]> = [
  ["organization.silicon.updated.v1", "silicon", "a Silicon's entry has changed"],
  ["organization.silicon.removed.v1", "silicon", "a Silicon was removed from its organisation"],
  ["organization.silicon.created.v1", "silicon", "a Silicon was added to the organisation"],
  ["organization.silicon.credential_rotated.v1", "silicon", "a Silicon has a new key"],
  ["organization.membership.updated.v1", "member", "a member's entry has changed"],
  ["organization.membership.removed.v1", "member", "a Carbon left the organisation"],
  ["organization.membership.reactivated.v1", "member", "a Carbon came back"],
  ["organization.membership.created.v1", "member", "a Carbon joined the organisation"],
  ["organization.membership.authorization_updated.v1", "member", "a member's capabilities have changed"],
  ["organization.ownership_transferred.v1", "member", "the organisation has a new owner"],
  ["organization.admin.promoted.v1", "member", "a member became an admin"],
  ["organization.admin.demoted.v1", "member", "a member is no longer an admin"],
  ["carbon.updated.v1", "carbon", "a Carbon's profile has changed"],
  ["session.logout.v1", "session", "a Carbon logged out at IAM, and all tokens of that session are dead"],
  ["organization.updated.v1", "organization", "the organisation's profile has changed"],
  ["organization.tag_updated.v1", "organization", "a tag was changed"],
  ["organization.trust.default_updated.v1", "organization", "the usual trust has changed"],
  ["organization.invitation.created.v1", "organization", "somebody was invited"],
  ["organization.approval.decided.v1", "organization", "a request was decided"],
  ["application.updated.v1", "application", "the application itself has changed"]
]

const isRemoval = (type: string): boolean => type.includes(".removed.")
const isRestoration = (type: string): boolean =>
  /^organization\.(?:silicon|membership)\.(?:created|reactivated)\./.test(type)

const types = events.map(([type, about, meaning]) => ({
  ...abouts[about],
  type,
  about,
  meaning: `${meaning}; ${isRemoval(type) ? "until it registers again the service calls it unregistered at Ting" : "the service only records it"}`
}))

/** As the page shows them. */
export const webhookEvents: ReadonlyArray<WebhookEvent> = types.map(({ about: _, ...event }) => event)

/** The event that adds an actor to an organisation, or back to it. */
const restoringEvent = (actor: string): string =>
  actor.startsWith("si:") ? "organization.silicon.created.v1" : "organization.membership.reactivated.v1"

/** An event that is possible now. */
interface PossibleEvent {
  readonly type: string
  readonly plane: string
  readonly actor: string | undefined
  readonly org: string | undefined
  /** The parent session at IAM that the event ends. */
  readonly session: Session | undefined
}

type Order = Extract<Action, { readonly kind: "webhook" }>

/** Whether IAM could send it now; otherwise why not, and what to do. Changes nothing. */
export const checkEvent = (
  world: SimulatedUpstreams,
  order: Order
): Effect.Effect<PossibleEvent, Refused> => {
  const { controls } = world.iam
  const plane = planesOf(world).find(({ id }) => id === order.plane)
  if (plane === undefined) return refuse("The plane is not known", "choose a plane of the list")
  const event = types.find(({ type }) => type === order.event)
  if (event === undefined) return refuse(`IAM sends no event ${order.event}`, "choose an event of the list")
  const { about, actorKind: kind, hasOrganization, type } = event
  const actor = order.actor ?? ""
  const org = order.org ?? ""
  const { actors } = controls.plane(plane.id)
  if (kind !== null && actor !== "" && !actors.has(actor))
    return refuse(`There is no actor ${actor} in this plane`, "choose an actor of the list")
  if (kind !== null && actors.get(actor) !== kind)
    return refuse(`${type} is about a ${kind}`, `choose a ${kind} as the actor`)
  if (hasOrganization && !plane.organizations.includes(org))
    return refuse(`There is no organisation ${org} in this plane`, "choose an organisation of the list")
  const organizations = kind === null ? [] : activeOrganizations(controls.plane(plane.id), actor)
  const isMember = about === "silicon" || about === "member"
  if (isMember && !isRestoration(type) && !organizations.includes(org))
    return refuse(
      `${actor} is not in ${org}`,
      `choose an organisation that it is in, or send ${restoringEvent(actor)} for ${org} first`
    )
  const elsewhere = organizations.find((name) => name !== org)
  if (kind === "silicon" && elsewhere !== undefined)
    return refuse(
      `${actor} is in ${elsewhere}, and a Silicon has one organisation`,
      `choose ${elsewhere}, or send organization.silicon.removed.v1 for it first`
    )
  const session = about === "session" ? controls.sessionOf(plane.id, actor) : undefined
  if (about === "session" && session === undefined)
    return refuse(`${actor} has no session at IAM`, `in Callers, get an SLT for ${actor} and log in with it`)
  return Effect.succeed({
    type,
    plane: plane.id,
    actor: kind === null ? undefined : actor,
    org: hasOrganization ? org : undefined,
    session
  })
}

/** Makes true at IAM what the event says about a membership or a session. */
export const applyEvent = (
  controls: IamControls,
  { actor = "", org = "", ...event }: PossibleEvent
): void => {
  if (isRemoval(event.type)) controls.removeMembership(event.plane, actor, org)
  if (isRestoration(event.type)) controls.addMembership(event.plane, actor, org)
  if (event.session !== undefined) controls.endSession(event.plane, event.session)
}

/** The request that IAM sends for it. Changes nothing. */
export const signEvent = (controls: IamControls, { actor, org, plane, session, type }: PossibleEvent) =>
  controls.buildWebhook(plane, controls.events.about(plane, type, { actor, org, session: session?.id }))

/** Changes one byte of a signed body: the event would have happened in another millennium. */
export const tamperWith = (body: string): string =>
  body.replace(
    /("occurred_at":")(\d)/,
    (_, before: string, digit: string) => `${before}${digit === "3" ? 4 : 3}`
  )
