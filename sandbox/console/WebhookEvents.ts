/** The events that the console lets IAM send: whether one is possible now, what it changes at IAM, and its signed request. */
import * as Either from "effect/Either"
import type { SimulatedUpstreams } from "../SimulatedUpstreams.ts"
import type { IamControls, IamEvent, Session, SignedWebhook } from "../upstreams/Iam.ts"
import type { Membership } from "../upstreams/iam/Model.ts"
import { planesOf } from "./Planes.ts"
import { Refused } from "./Refused.ts"
import { type WebhookType, webhookTypes } from "./WebhookTypes.ts"

interface WebhookOrder {
  readonly plane: string
  readonly event: string
  /** `null` where the event is about no actor. */
  readonly actor: string | null
  /** Handle; `null` where the event is about no organisation. */
  readonly org: string | null
}

/** An event that is possible now. `actor` and `org` are empty where it is about none. */
export interface PossibleEvent {
  readonly type: WebhookType
  readonly plane: string
  readonly actor: string
  readonly org: string
  /** The parent session at IAM that the event ends. */
  readonly session: Session | undefined
}

type Checked<A> = Either.Either<A, Refused>

const refuse = (message: string, hint: string) => Either.left(new Refused({ message, hint }))

/** The event that adds an actor to an organisation, or back to it. */
export const restoringEvent = (actor: string): string =>
  actor.startsWith("si:") ? "organization.silicon.created.v1" : "organization.membership.reactivated.v1"

const membershipsOf = (
  controls: IamControls,
  { actor, plane }: { readonly plane: string; readonly actor: string }
): ReadonlyArray<Membership> =>
  [...controls.plane(plane).memberships.values()].filter(
    (membership) => membership.actor === actor && membership.status === "active"
  )

const checkMembership = (controls: IamControls, possible: PossibleEvent): Checked<PossibleEvent> => {
  const { actor, org, type } = possible
  const memberships = membershipsOf(controls, possible)
  if (type.change !== "restored")
    return memberships.some((membership) => membership.org === org)
      ? Either.right(possible)
      : refuse(
          `${actor} is not in ${org}`,
          `choose an organisation that it is in, or send ${restoringEvent(actor)} for ${org} first`
        )
  const elsewhere = memberships.find((membership) => membership.org !== org)
  return type.actorKind === "silicon" && elsewhere !== undefined
    ? refuse(
        `${actor} is in ${elsewhere.org}, and a Silicon has one organisation`,
        `choose ${elsewhere.org}, or send organization.silicon.removed.v1 for it first`
      )
    : Either.right(possible)
}

/** Whether IAM could send it now; otherwise why not, and what to do. Changes nothing. */
export const checkEvent = (world: SimulatedUpstreams, order: WebhookOrder): Checked<PossibleEvent> => {
  const { controls } = world.iam
  const plane = planesOf(world).find(({ id }) => id === order.plane)
  if (plane === undefined) return refuse("The plane is not known", "choose a plane of the list")
  const type = webhookTypes.find((known) => known.type === order.event)
  if (type === undefined) return refuse(`IAM sends no event ${order.event}`, "choose an event of the list")
  const kind = type.actorKind
  const actor = kind === null ? "" : (order.actor ?? "")
  const org = type.hasOrganization ? (order.org ?? "") : ""
  if (kind !== null) {
    const known = controls.plane(plane.id).actors.get(actor)
    if (actor !== "" && known === undefined)
      return refuse(`There is no actor ${actor} in this plane`, "choose an actor of the list")
    if (known !== kind) return refuse(`${type.type} is about a ${kind}`, `choose a ${kind} as the actor`)
  }
  if (type.hasOrganization && !plane.organizations.includes(org))
    return refuse(`There is no organisation ${org} in this plane`, "choose an organisation of the list")
  const session = type.about === "session" ? controls.sessionOf(plane.id, actor) : undefined
  const possible = { type, plane: plane.id, actor, org, session }
  if (type.about === "member") return checkMembership(controls, possible)
  return type.about === "session" && session === undefined
    ? refuse(`${actor} has no session at IAM`, `in Callers, get an SLT for ${actor} and log in with it`)
    : Either.right(possible)
}

/** Makes true at IAM what the event says about a membership or a session. */
export const applyEvent = (controls: IamControls, possible: PossibleEvent): void => {
  const { actor, org, plane, session, type } = possible
  switch (type.change) {
    case "removed":
      controls.removeMembership(plane, actor, org)
      break
    case "restored":
      controls.addMembership(plane, actor, org)
      break
    case "loggedOut":
      if (session !== undefined) controls.endSession(plane, session)
      break
  }
}

const describeEvent = (
  controls: IamControls,
  { actor, org, plane, session, type }: PossibleEvent
): IamEvent =>
  controls.events.about(plane, type.type, {
    actor: actor || undefined,
    org: org || undefined,
    session: session?.id
  })

/** The request that IAM sends for it. Changes nothing. */
export const signEvent = (controls: IamControls, possible: PossibleEvent): SignedWebhook =>
  controls.buildWebhook(possible.plane, { ...describeEvent(controls, possible), appId: "music" })

/** Changes one byte of a signed body: the event would have happened in another millennium. */
export const tamperWith = (body: string): string =>
  body.replace(
    /("occurred_at":")(\d)/,
    (_, before: string, digit: string) => `${before}${digit === "3" ? 4 : 3}`
  )
