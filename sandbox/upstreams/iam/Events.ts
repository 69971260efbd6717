/** Webhook events: their envelope, and ready-made events about what the simulator knows (identity-service.md 11). */
import { membershipId } from "./Authorization.ts"
import { planeOf } from "./Environments.ts"
import { rfc3339, uuidAt } from "./Identifiers.ts"
import type { Membership, PlaneId, State } from "./Model.ts"
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

const nameOf = (publicId: string): string => publicId.slice(publicId.indexOf(":") + 1)

/** Ready-made events about the current state. */
export const events = (state: State) => {
  const organizationView = (plane: PlaneId, org: string) => {
    const { handle, id, name } = organizationOf(state, plane, org)
    return { id, org_id: handle, name, logo: null, description: null, version: 1 }
  }

  /** `status` of the membership after the event; without it, as it is now. */
  const memberRow = (plane: PlaneId, actor: string, org: string, status?: Membership["status"]) => {
    const { kind } = actorOf(state, plane, actor)
    const membership = planeOf(state, plane).memberships.get(membershipId(actor, org))
    const resource = {
      type: "organization_membership",
      // A membership that a forged event only claims is nowhere.
      id: membership?.id ?? uuidAt(state.now()),
      principal_type: kind,
      version: membership?.version ?? 1,
      status: status ?? membership?.status ?? "active"
    }
    return {
      resource,
      principal: { type: kind, public_id: actor, display_name: nameOf(actor), version: 1 },
      organization: organizationView(plane, org)
    }
  }

  const memberEvent = (eventType: string, fields: ReadonlyArray<string>, row: MemberRow): IamEvent => ({
    eventType,
    organizationId: row.organization.id,
    aggregate: { type: row.resource.type, id: row.resource.id, version: row.resource.version },
    data: { changed_fields: fields, current: { members: [row] } }
  })

  type MemberRow = ReturnType<typeof memberRow>
  const isSilicon = (plane: PlaneId, actor: string) => actorOf(state, plane, actor).kind === "silicon"

  return {
    /** A removal. `named`: the row with the person; otherwise the tombstone, which does not name the person. */
    membershipRemoved: (
      plane: PlaneId,
      actor: string,
      org: string,
      options: { readonly named?: boolean } = {}
    ): IamEvent => {
      membershipOf(state, plane, actor, org)
      const row = memberRow(plane, actor, org)
      const event = memberEvent(
        isSilicon(plane, actor) ? "organization.silicon.removed.v1" : "organization.membership.removed.v1",
        [],
        row
      )
      const tombstone = { resource: row.resource, authorization: "removed" }
      return options.named === true
        ? event
        : { ...event, data: { changed_fields: [], current: { members: [tombstone] } } }
    },

    membershipUpdated: (plane: PlaneId, actor: string, org: string): IamEvent => {
      membershipOf(state, plane, actor, org)
      return memberEvent(
        isSilicon(plane, actor) ? "organization.silicon.updated.v1" : "organization.membership.updated.v1",
        ["membership.tags"],
        memberRow(plane, actor, org)
      )
    },

    /** Any other event of a member, by its type. */
    memberChanged: (
      plane: PlaneId,
      actor: string,
      org: string,
      event: { readonly eventType: string; readonly status: Membership["status"] }
    ): IamEvent =>
      memberEvent(event.eventType, ["membership.status"], memberRow(plane, actor, org, event.status)),

    /** A tag, a rule, an invitation or a request of an organisation. The simulator keeps none: its id is new. */
    resourceChanged: (
      plane: PlaneId,
      org: string,
      options: { readonly eventType: string; readonly hasMembers: boolean }
    ): IamEvent => {
      const { id: organizationId } = organizationOf(state, plane, org)
      // `organization.trust.rule_created.v1` is about an `organization_trust`.
      const resource = {
        type: options.eventType.split(/[._]/).slice(0, 2).join("_"),
        id: uuidAt(state.now()),
        version: 1
      }
      const members = [...planeOf(state, plane).memberships.values()]
        .filter((membership) => membership.org === org && membership.status === "active")
        .map(({ actor }) => memberRow(plane, actor, org))
      return {
        eventType: options.eventType,
        organizationId,
        aggregate: resource,
        data: {
          changed_fields: [resource.type],
          current: options.hasMembers ? { resource, members } : { resource }
        }
      }
    },

    organizationUpdated: (plane: PlaneId, org: string): IamEvent => {
      const organization = organizationView(plane, org)
      return {
        eventType: "organization.updated.v1",
        organizationId: organization.id,
        aggregate: { type: "organization", id: organization.id, version: organization.version },
        data: { changed_fields: ["organization.name"], current: { organization } }
      }
    },

    carbonUpdated: (actor: string): IamEvent => ({
      eventType: "carbon.updated.v1",
      aggregate: { type: "carbon", id: actor, version: 1 },
      data: {
        changed_fields: ["display_name"],
        current: { carbon_id: actor, display_name: nameOf(actor), timezone: "UTC", version: 1 }
      }
    }),

    /** The end of a parent session of a Carbon. */
    sessionLogout: (actor: string, session = uuidAt(state.now())): IamEvent => {
      const subject = { type: "carbon", id: actor }
      return {
        eventType: "session.logout.v1",
        aggregate: { type: "authentication_session", id: session, version: 2 },
        data: {
          subject_id: actor,
          actor: { ...subject, authentication_session_id: session, application_id: null },
          changed_fields: ["status"],
          authorized_state: {
            subject,
            authentication_session: {
              session_id: session,
              status: "revoked",
              revocation_reason: "logout",
              version: 2
            }
          }
        }
      }
    },

    /** A change of the application itself. The contract leaves its data open. */
    applicationChanged: (eventType: string): IamEvent => ({
      eventType,
      aggregate: { type: "application", id: "music", version: 1 }
    })
  }
}
