/** The events that IAM tells applications about: their envelope, who receives them, and ready-made ones (identity-service.md 11). */

import { planeOf } from "./Environments.ts"
import { rfc3339, uuidAt } from "./Grammar.ts"
import type { App, Plane, PlaneId, State, WebhookCategory } from "./Model.ts"
import { actorOf, membershipOf, organizationOf } from "./People.ts"

export interface Aggregate {
  readonly type: string
  readonly id: string
  readonly version: number
}

/** An event to send. What is left out is made up: ids, times, an aggregate of its own, empty data. */
export interface IamEvent {
  readonly eventType: string
  /** The one application it goes to; without: all whose subscription, scopes and logins admit it. */
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

const siliconOnly =
  /^(organization\.membership\.profile_updated|organization\.silicon\.(rotation_requested|webhook\.|webhook_subscription\.)|sso\.)/

const categoryOf = (eventType: string): WebhookCategory =>
  eventType.includes("trust")
    ? "trust"
    : /\.(membership\.(created|removed|reactivated)|silicon\.(created|removed))\./.test(eventType)
      ? "membership"
      : "updates"

const extraScopes: ReadonlyArray<readonly [RegExp, string]> = [
  [/^organization\.(updated|created)\./, "self.organizations.read"],
  [/^organization\.tag_(created|updated|archived)\./, "organization.tags.read"],
  [/^organization\.trust\./, "organization.trust.read"],
  [/^organization\.invitation\./, "organization.invitations.read"],
  [/^organization\.(role_change|tag_change|approval)\./, "organization.governance.read"]
]

/** Whether a login of the application reaches what the event is about. */
const reached = (plane: Plane, app: App, event: Envelope): boolean => {
  const families = [...plane.families.values()].filter((family) => family.appId === app.appId)
  if (event.event_type.startsWith("session.logout."))
    return families.some((family) => family.sessionId === event.aggregate.id)
  if (event.organization_id === null) return families.some((family) => family.actor === event.aggregate.id)
  const organization = [...plane.organizations.values()].find(({ id }) => id === event.organization_id)
  return families.some(
    (family) =>
      organization !== undefined &&
      plane.sessions.get(family.sessionId)?.selected.get(app.appId)?.has(organization.handle) === true
  )
}

/** Whether IAM would send this event to this application (identity-service.md 11.5). */
export const receives = (plane: Plane, app: App, event: Envelope): boolean => {
  if (siliconOnly.test(event.event_type)) return false
  if (event.event_type.startsWith("application.")) return event.aggregate.id === app.appId
  const subscribed =
    event.event_type.startsWith("session.logout.") ||
    app.webhookScope.includes("full") ||
    app.webhookScope.includes(categoryOf(event.event_type))
  const scope = extraScopes.find(([pattern]) => pattern.test(event.event_type))?.[1]
  return subscribed && (scope === undefined || app.approvedScopes.has(scope)) && reached(plane, app, event)
}

/** Ready-made events about the world as it is now; emit them, or change them first. */
export const events = (state: State) => {
  const memberEvent = (plane: PlaneId, actor: string, org: string) => {
    const membership = membershipOf(state, plane, actor, org)
    const organization = organizationOf(state, plane, org)
    const { displayName, kind, version } = actorOf(state, plane, actor)
    const resource = {
      type: "organization_membership",
      id: membership.id,
      principal_type: kind,
      version: membership.version,
      status: membership.status
    }
    const row = {
      resource,
      principal: { type: kind, public_id: actor, display_name: displayName, version },
      organization: {
        id: organization.id,
        org_id: organization.handle,
        name: organization.name,
        logo: null,
        description: null,
        version: organization.version
      }
    }
    return {
      kind,
      tombstone: { resource, authorization: "removed" },
      row,
      event: (eventType: string, changedFields: ReadonlyArray<string>, member: unknown): IamEvent => ({
        eventType,
        organizationId: organization.id,
        aggregate: { type: resource.type, id: resource.id, version: resource.version },
        data: { changed_fields: changedFields, current: { members: [member] } }
      })
    }
  }

  return {
    /** A removal. Named: a row with the person in it; else the tombstone, which names nobody. */
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

    membershipUpdated: (
      plane: PlaneId,
      actor: string,
      org: string,
      changedFields: ReadonlyArray<string> = ["membership.tags"]
    ): IamEvent => {
      const { event, kind, row } = memberEvent(plane, actor, org)
      const eventType =
        kind === "silicon" ? "organization.silicon.updated.v1" : "organization.membership.updated.v1"
      return event(eventType, changedFields, row)
    },

    carbonUpdated: (plane: PlaneId, actor: string): IamEvent => {
      const { displayName, version } = actorOf(state, plane, actor)
      return {
        eventType: "carbon.updated.v1",
        organizationId: null,
        aggregate: { type: "carbon", id: actor, version },
        data: {
          changed_fields: ["display_name"],
          current: { carbon_id: actor, display_name: displayName, timezone: "UTC", version }
        }
      }
    },

    /** A Carbon logged out one parent session. */
    sessionLogout: (plane: PlaneId, sessionId: string, appId: string | null = null): IamEvent => {
      const session = planeOf(state, plane).sessions.get(sessionId)
      if (session === undefined) throw new Error(`there is no session ${sessionId} in ${plane}`)
      const { actor, version } = session
      return {
        eventType: "session.logout.v1",
        organizationId: null,
        aggregate: { type: "authentication_session", id: sessionId, version },
        data: {
          subject_id: actor,
          actor: {
            type: "carbon",
            id: actor,
            authentication_session_id: sessionId,
            application_id: appId
          },
          changed_fields: ["status"],
          authorized_state: {
            subject: { type: "carbon", id: actor },
            authentication_session: {
              session_id: sessionId,
              status: "revoked",
              revocation_reason: "logout",
              version
            }
          }
        }
      }
    }
  }
}
