/** Webhook events about the current state, and their signed requests (identity-service.md 11). */
import { createHmac } from "node:crypto"
import {
  kindOf,
  known,
  type Membership,
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

interface Aggregate {
  readonly type: string
  readonly id: string
  readonly version: number
}

/** An event for the application `music`. Absent ids, times and data are generated. */
export interface IamEvent {
  readonly eventType: string
  readonly eventId?: string
  /** RFC 3339. */
  readonly occurredAt?: string
  readonly organizationId?: string | null
  readonly aggregate?: Aggregate
  readonly data?: Readonly<Record<string, unknown>>
}

export interface SignedWebhook {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** Whom and what an event is about. */
interface Subject {
  readonly actor?: string | undefined
  readonly org?: string | undefined
  /** The id of a parent session. */
  readonly session?: string | undefined
}

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

  const memberEvent = (
    plane: PlaneId,
    actor: string,
    org: string,
    event: { readonly eventType: string; readonly fields: ReadonlyArray<string>; readonly named?: boolean },
    status: Membership["status"] | undefined = undefined
  ): IamEvent => {
    const type = known(planeOf(state, plane).actors, actor)
    const membership = planeOf(state, plane).memberships.get(membershipId(actor, org))
    const organization = organizationOf(plane, org)
    const resource = {
      type: "organization_membership",
      // A membership that a forged event only claims is nowhere.
      id: membership?.id ?? uuidAt(state.now()),
      principal_type: type,
      version: membership?.version ?? 1,
      status: status ?? membership?.status ?? "active"
    }
    const principal = { type, public_id: actor, display_name: nameOf(actor), version: 1 }
    // The tombstone of a removal does not name the person.
    const row =
      event.named === false ? { resource, authorization: "removed" } : { resource, principal, organization }
    return {
      eventType: event.eventType,
      organizationId: organization.id,
      aggregate: { type: resource.type, id: resource.id, version: resource.version },
      data: { changed_fields: event.fields, current: { members: [row] } }
    }
  }

  const group = (actor: string) =>
    kindOf(actor) === "silicon" ? "organization.silicon" : "organization.membership"

  /** An existing member. */
  const memberOf = (plane: PlaneId, actor: string, org: string): void =>
    void known(planeOf(state, plane).memberships, membershipId(actor, org))

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

  return {
    /** A removal. `named`: the row with the person; otherwise the tombstone. */
    membershipRemoved: (plane: PlaneId, actor: string, org: string, { named = false } = {}): IamEvent => {
      memberOf(plane, actor, org)
      return memberEvent(plane, actor, org, { eventType: `${group(actor)}.removed.v1`, fields: [], named })
    },
    membershipUpdated: (plane: PlaneId, actor: string, org: string): IamEvent => {
      memberOf(plane, actor, org)
      const eventType = `${group(actor)}.updated.v1`
      return memberEvent(plane, actor, org, { eventType, fields: ["membership.tags"] })
    },
    /** Any event, by its type: about a member, an organisation or a resource of it, a session, a Carbon, or the application. */
    about: (plane: PlaneId, eventType: string, { actor, org, session }: Subject): IamEvent => {
      if (actor !== undefined && org !== undefined) {
        const status = eventType.includes(".removed.") ? "removed" : "active"
        return memberEvent(plane, actor, org, { eventType, fields: ["membership.status"] }, status)
      }
      if (org !== undefined) return organizationEvent(plane, org, eventType)
      if (actor === undefined)
        return { eventType, aggregate: { type: "application", id: "music", version: 1 } }
      return eventType === "session.logout.v1"
        ? sessionEvent(eventType, actor, session ?? uuidAt(state.now()))
        : carbonEvent(eventType, actor)
    }
  }
}

interface SigningOptions {
  /** `true`: the testing envelope of older senders, without `environment_id` and `generation`. */
  readonly withoutEnvironment?: boolean
}

export const makeWebhooks = (state: State) => ({
  events: makeEvents(state),
  /** One signed request. Throws when the application has no webhook. */
  buildWebhook: (planeId: PlaneId, event: IamEvent, options: SigningOptions = {}): SignedWebhook => {
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
    const origin =
      options.withoutEnvironment === true ? {} : { environment_id: environment?.id, generation: 1 }
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
