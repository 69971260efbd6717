/** Webhook events: their envelope, and ready-made events of a membership (identity-service.md 11). */
import { rfc3339, uuidAt } from "./Identifiers.ts"
import type { PlaneId, State } from "./Model.ts"
import { actorOf, membershipOf, organizationOf } from "./People.ts"

export interface Aggregate {
  readonly type: string
  readonly id: string
  readonly version: number
}

/** An event to send. Absent ids, times and data are generated. */
export interface IamEvent {
  readonly eventType: string
  /** The receiving application; default: the first one with a webhook. */
  readonly appId?: string
  readonly eventId?: string
  /** RFC 3339. */
  readonly occurredAt?: string
  readonly organizationId?: string | null
  readonly aggregate?: Aggregate
  readonly data?: Readonly<Record<string, unknown>>
}

/** The production envelope, in the order in which it is sent (identity-service.md 11.3). */
export interface Envelope {
  readonly spec_version: "1.0"
  readonly event_id: string
  readonly event_type: string
  readonly occurred_at: string
  readonly organization_id: string | null
  readonly aggregate: Aggregate
  readonly data: Readonly<Record<string, unknown>>
}

export const envelopeOf = (state: State, event: IamEvent): Envelope => ({
  spec_version: "1.0",
  event_id: event.eventId ?? uuidAt(state.now()),
  event_type: event.eventType,
  occurred_at: event.occurredAt ?? rfc3339(state.now()),
  organization_id: event.organizationId ?? null,
  aggregate: event.aggregate ?? { type: "sandbox", id: uuidAt(state.now()), version: 1 },
  data: event.data ?? {}
})

/** Ready-made events about the current state. */
export const events = (state: State) => {
  const memberEvent = (plane: PlaneId, actor: string, org: string) => {
    const membership = membershipOf(state, plane, actor, org)
    const organization = organizationOf(state, plane, org)
    const { kind } = actorOf(state, plane, actor)
    const resource = {
      type: "organization_membership",
      id: membership.id,
      principal_type: kind,
      version: membership.version,
      status: membership.status
    }
    return {
      kind,
      tombstone: { resource, authorization: "removed" },
      row: {
        resource,
        principal: {
          type: kind,
          public_id: actor,
          display_name: actor.slice(actor.indexOf(":") + 1),
          version: 1
        },
        organization: {
          id: organization.id,
          org_id: organization.handle,
          name: organization.name,
          logo: null,
          description: null,
          version: 1
        }
      },
      event: (eventType: string, changedFields: ReadonlyArray<string>, member: unknown): IamEvent => ({
        eventType,
        organizationId: organization.id,
        aggregate: { type: resource.type, id: resource.id, version: resource.version },
        data: { changed_fields: changedFields, current: { members: [member] } }
      })
    }
  }

  return {
    /** A removal. `named`: the row with the person; otherwise the tombstone, which does not name the person. */
    membershipRemoved: (
      plane: PlaneId,
      actor: string,
      org: string,
      options: { readonly named?: boolean } = {}
    ): IamEvent => {
      const { event, kind, row, tombstone } = memberEvent(plane, actor, org)
      const eventType =
        kind === "silicon" ? "organization.silicon.removed.v1" : "organization.membership.removed.v1"
      return event(eventType, [], options.named === true ? row : tombstone)
    },

    membershipUpdated: (plane: PlaneId, actor: string, org: string): IamEvent => {
      const { event, kind, row } = memberEvent(plane, actor, org)
      const eventType =
        kind === "silicon" ? "organization.silicon.updated.v1" : "organization.membership.updated.v1"
      return event(eventType, ["membership.tags"], row)
    }
  }
}
