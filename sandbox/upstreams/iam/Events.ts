/** Webhook events about the current state, and their signed requests (identity-service.md 11). */
import { createHmac } from "node:crypto"
import {
  kindOf,
  known,
  type PlaneId,
  planeOf,
  production,
  rfc3339,
  type State,
  unixSeconds,
  uuidAt,
  type App,
  type Webhook
} from "./Model.ts"
import { membershipId } from "./Tokens.ts"

/** An event for the application `music`. Absent ids, times and data are generated. */
export interface IamEvent {
  readonly eventType: string
  readonly eventId?: string
  /** RFC 3339. */
  readonly occurredAt?: string
  readonly organizationId?: string | null
  readonly aggregate?: { readonly type: string; readonly id: string; readonly version: number }
  readonly data?: Readonly<Record<string, unknown>>
}

export interface SignedWebhook {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** Whom and what an event is about; `session` is the id of a parent session. */
type Subject = Readonly<Partial<Record<"actor" | "org" | "session", string | undefined>>>

/** `v1=` + HMAC-SHA256 over the timestamp's text, a dot and the exact bytes. */
export const signWebhook = (secret: string, timestamp: string, body: Buffer): string =>
  `v1=${createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest("hex")}`

/** An imported app uses production's webhook until it has its own (identity-service.md 11.4). */
const webhookOf = (state: State, app: App): Webhook | undefined =>
  app.webhook ?? (app.imported ? planeOf(state, production).apps.get(app.appId)?.webhook : undefined)

const nameOf = (publicId: string): string => publicId.slice(publicId.indexOf(":") + 1)

const makeEvents = (state: State) => {
  const organizationOf = (plane: PlaneId, org: string) => {
    const { handle, id, name } = known(planeOf(state, plane).organizations, org)
    return { id, org_id: handle, name, logo: null, description: null, version: 1 }
  }

  const memberEvent = (plane: PlaneId, eventType: string, actor: string, org: string): IamEvent => {
    const type = known(planeOf(state, plane).actors, actor)
    const membership = planeOf(state, plane).memberships.get(membershipId(actor, org))
    const organization = organizationOf(plane, org)
    const resource = {
      type: "organization_membership",
      // A membership that a forged event only claims is nowhere.
      id: membership?.id ?? uuidAt(state.now()),
      principal_type: type,
      version: membership?.version ?? 1,
      status: eventType.includes(".removed.") ? "removed" : "active"
    }
    const principal = { type, public_id: actor, display_name: nameOf(actor), version: 1 }
    return {
      eventType,
      organizationId: organization.id,
      aggregate: { type: resource.type, id: resource.id, version: resource.version },
      data: {
        changed_fields: ["membership.status"],
        current: { members: [{ resource, principal, organization }] }
      }
    }
  }

  const organizationEvent = (plane: PlaneId, org: string, eventType: string): IamEvent => {
    const organization = organizationOf(plane, org)
    const isOwn = eventType === "organization.updated.v1"
    // `organization.trust.rule_created.v1` is about an `organization_trust`. The simulator keeps none: its id is new.
    const type = isOwn ? "organization" : eventType.split(/[._]/).slice(0, 2).join("_")
    const aggregate = { type, id: isOwn ? organization.id : uuidAt(state.now()), version: 1 }
    const current = isOwn ? { organization } : { resource: aggregate }
    return {
      eventType,
      organizationId: organization.id,
      aggregate,
      data: { changed_fields: [isOwn ? "organization.name" : type], current }
    }
  }

  const sessionEvent = (eventType: string, actor: string, session: string): IamEvent => {
    const subject = { type: "carbon", id: actor }
    const end = { session_id: session, status: "revoked", revocation_reason: "logout", version: 2 }
    return {
      eventType,
      aggregate: { type: "authentication_session", id: session, version: 2 },
      data: {
        subject_id: actor,
        actor: { ...subject, authentication_session_id: session, application_id: null },
        changed_fields: ["status"],
        authorized_state: { subject, authentication_session: end }
      }
    }
  }

  const carbonEvent = (eventType: string, actor: string): IamEvent => ({
    eventType,
    aggregate: { type: "carbon", id: actor, version: 1 },
    data: {
      changed_fields: ["display_name"],
      current: { carbon_id: actor, display_name: nameOf(actor), timezone: "UTC", version: 1 }
    }
  })

  /** Any event, by its type: about a member, an organisation or a resource of it, a session, a Carbon, or the application. */
  const about = (plane: PlaneId, eventType: string, { actor, org, session }: Subject): IamEvent => {
    if (actor !== undefined && org !== undefined) return memberEvent(plane, eventType, actor, org)
    if (org !== undefined) return organizationEvent(plane, org, eventType)
    if (actor === undefined) return { eventType, aggregate: { type: "application", id: "music", version: 1 } }
    return eventType === "session.logout.v1"
      ? sessionEvent(eventType, actor, session ?? uuidAt(state.now()))
      : carbonEvent(eventType, actor)
  }
  return {
    about,
    membershipUpdated: (plane: PlaneId, actor: string, org: string): IamEvent => {
      const resource = kindOf(actor) === "silicon" ? "silicon" : "membership"
      return about(plane, `organization.${resource}.updated.v1`, { actor, org })
    }
  }
}

export const makeWebhooks = (state: State) => ({
  events: makeEvents(state),
  /**
   * One signed request. Throws when the application has no webhook. `withoutEnvironment`: in the testing envelope of older senders, without
   * `environment_id` and `generation`.
   */
  buildWebhook: (planeId: PlaneId, event: IamEvent, { withoutEnvironment = false } = {}): SignedWebhook => {
    const { apps, environment } = planeOf(state, planeId)
    const webhook = webhookOf(state, known(apps, "music"))
    if (webhook === undefined) throw new Error(`no webhook is registered in ${planeId}`)
    const now = state.now()
    const metadata = {
      spec_version: "1.0",
      event_id: event.eventId ?? uuidAt(now),
      event_type: event.eventType,
      occurred_at: event.occurredAt ?? rfc3339(now),
      organization_id: event.organizationId ?? null,
      aggregate: event.aggregate ?? { type: "sandbox", id: uuidAt(now), version: 1 }
    }
    const { data = {} } = event
    const origin = withoutEnvironment ? {} : { environment_id: environment?.id, generation: 1 }
    const envelope =
      environment === undefined
        ? { ...metadata, data }
        : { test: { testing_key: environment.rootKey, metadata: { ...origin, ...metadata }, data } }
    const body = Buffer.from(JSON.stringify(envelope))
    const timestamp = String(unixSeconds(now))
    return {
      url: webhook.url,
      body,
      headers: {
        "Content-Type": "application/json",
        "User-Agent": "silicon-iam/4.0.0",
        "X-Silicon-IAM-Event-ID": metadata.event_id,
        "X-Silicon-IAM-Timestamp": timestamp,
        "X-Silicon-IAM-Key-Version": String(webhook.keyVersion),
        "X-Silicon-IAM-Signature": signWebhook(webhook.secret, timestamp, body)
      }
    }
  }
})
