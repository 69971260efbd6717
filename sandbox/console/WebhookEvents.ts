/** The events that the console lets IAM send. What an event says becomes true at IAM, unless it is forged on the way. */
import type { IamControls, IamEvent, SignedWebhook } from "../upstreams/Iam.ts"
import type { WebhookEvent } from "./Protocol.ts"

type Change = "updated" | "removed" | "restored"

interface EventType extends WebhookEvent {
  readonly change: Change
}

const event = (
  type: string,
  actorKind: WebhookEvent["actorKind"],
  change: Change,
  meaning: string
): EventType => ({ type, actorKind, change, meaning })

const types: ReadonlyArray<EventType> = [
  event("organization.silicon.updated.v1", "silicon", "updated", "a Silicon's entry has changed"),
  event(
    "organization.silicon.removed.v1",
    "silicon",
    "removed",
    "a Silicon was removed from its organisation"
  ),
  event("organization.silicon.created.v1", "silicon", "restored", "a Silicon was added to its organisation"),
  event("organization.membership.updated.v1", "carbon", "updated", "a member's entry has changed"),
  event("organization.membership.removed.v1", "carbon", "removed", "a Carbon left the organisation"),
  event("organization.membership.reactivated.v1", "carbon", "restored", "a Carbon came back")
]

export const WebhookTypes: ReadonlyArray<string> = types.map(({ type }) => type)

export const webhookEvents: ReadonlyArray<WebhookEvent> = types.map(({ actorKind, meaning, type }) => ({
  type,
  meaning,
  actorKind
}))

export interface WebhookOrder {
  readonly plane: string
  readonly event: string
  readonly actor: string
  readonly org: string
}

const applyChange = (controls: IamControls, { actor, org, plane }: WebhookOrder, change: Change): void => {
  if (change === "removed") controls.removeMembership(plane, actor, org)
  if (change === "restored") controls.addMembership(plane, actor, org)
}

/** The request that IAM sends. Throws for an unknown plane, actor, organisation or event, and for one of the other kind of actor. */
export const signEvent = (
  controls: IamControls,
  order: WebhookOrder,
  options: { readonly isForged: boolean }
): SignedWebhook => {
  const { actor, org, plane } = order
  const known = types.find(({ type }) => type === order.event)
  if (known === undefined) throw new Error(`there is no event ${order.event}`)
  if (known.actorKind !== (actor.startsWith("c:") ? "carbon" : "silicon"))
    throw new Error(`${order.event} is about a ${known.actorKind}`)
  if (!options.isForged) applyChange(controls, order, known.change)
  const { membershipRemoved, membershipUpdated } = controls.events
  const about: IamEvent =
    known.change === "removed"
      ? membershipRemoved(plane, actor, org, { named: true })
      : membershipUpdated(plane, actor, org)
  return controls.buildWebhook(plane, { ...about, eventType: order.event, appId: "music" })
}

/** Changes one byte of a signed body: the event would have happened in another millennium. */
export const tamperWith = (body: string): string =>
  body.replace(/("occurred_at":")\d/, (_, before: string) => `${before}3`)
