/**
 * What the console's server and its page exchange. Types only, so that both sides import it. Times are milliseconds since the epoch, by
 * the sandbox's clock.
 *
 * `GET /events` streams server-sent events: `state` with a `State`, and `action` with an `ActionRecord` for each action that began or
 * changed; a new stream starts with the state and all kept actions, oldest first; the state is sent every 5 seconds also when nothing
 * has changed. `POST /actions` takes an `Action` as JSON and answers with
 * its `ActionRecord` once the service has answered; a status of 400 or more with a `Refusal` when it cannot be carried out.
 */

import type {
  ActionSchema,
  FaultKind as FaultKindSchema,
  Upstream as UpstreamSchema
} from "./ActionSchema.ts"

export type Action = typeof ActionSchema.Type
export type Upstream = typeof UpstreamSchema.Type
export type FaultKind = typeof FaultKindSchema.Type

/** The lifelines of the sequence diagram. `console` is the caller: the page, which acts as CLI, daemon and web client, or another program. */
export type Participant = "console" | "backend" | Upstream

/** A request that another program sent to the service. */
export interface ProgramCall {
  readonly kind: "program"
  /** The name that it gives in `User-Agent`. */
  readonly agent: string
  /** The kind of an action that sends the same; `null` for any other request. */
  readonly does: Exclude<
    Action["kind"],
    "mint" | "addFault" | "removeFault" | "advanceClock" | "repeat"
  > | null
}

/** A request with its response, as they were sent. Header names are in lower case. */
export interface Exchange {
  readonly method: string
  readonly url: string
  readonly requestHeaders: Readonly<Record<string, string>>
  readonly requestBody: string | null
  /** The request's body is longer than what is kept of it. */
  readonly isCut: boolean
  /** `null` when the connection was lost before an answer. */
  readonly status: number | null
  readonly responseHeaders: Readonly<Record<string, string>>
  readonly responseBody: string
}

/** One arrow of the sequence diagram, with its answer. */
export interface Call {
  readonly from: Participant
  readonly to: Participant
  readonly method: string
  readonly path: string
  readonly startedAt: number
  /** `null` while it lasts. */
  readonly endedAt: number | null
  /** `null` while it lasts, and when the answer was lost. */
  readonly status: number | null
  /** The injected fault that this call met. */
  readonly fault: FaultKind | null
  /** Sent after the answer to the console, by background delivery. */
  readonly isLater: boolean
}

export interface ActionRecord {
  readonly id: number
  readonly action: Action | ProgramCall
  /** Such as `Log in as si:deejay`. */
  readonly title: string
  /** The id of its plane; `null` for actions that send nothing. */
  readonly plane: string | null
  readonly startedAt: number
  /** `null` while it lasts. */
  readonly endedAt: number | null
  /** `null` while it lasts, and for actions that send nothing (faults, clock). */
  readonly exchange: Exchange | null
  /** In the order of their begin. The first one is the call of the exchange itself. */
  readonly calls: ReadonlyArray<Call>
}

export interface Plane {
  readonly id: string
  readonly name: string
  /** The value of `X-Testing-Environment-Key`; `null` in production. */
  readonly key: string | null
  /** Handles of all its organisations. */
  readonly organizations: ReadonlyArray<string>
}

export interface Actor {
  readonly plane: string
  readonly publicId: string
  readonly organizations: ReadonlyArray<string>
}

/** A minted token that no login has used; it may have expired. */
export interface Slt {
  readonly plane: string
  readonly actor: string
  readonly token: string
  readonly expiresAt: number
}

export interface Session {
  readonly id: string
  readonly plane: string
  readonly actor: string
  readonly organizations: ReadonlyArray<string>
  /** `expired`: the access token is over, and a refresh brings a new one. `ended`: logged out, or the family is over. `compromised`: a spent refresh token was used again, and IAM ended the family. */
  readonly status: "active" | "expired" | "ended" | "compromised"
  readonly accessToken: string
  readonly accessIssuedAt: number
  readonly accessExpiresAt: number
  readonly refreshToken: string
  readonly familyExpiresAt: number
  /** The last spent refresh token; `null` before the first refresh. */
  readonly spentRefreshToken: string | null
}

export interface InboxTing {
  readonly id: string
  readonly plane: string
  readonly recipient: string
  readonly org: string
  readonly type: string
  readonly key: string
  readonly data: unknown
  readonly createdAt: number
}

export interface TrackerIssue {
  readonly number: number
  readonly title: string
  readonly body: string
  /** Of its page. */
  readonly url: string
  readonly state: "open" | "closed"
  readonly createdAt: number
}

export interface TableRow {
  readonly table: string
  readonly cursor: number
  readonly recordId: string
  readonly registeredAt: number
  readonly metadata: unknown
  readonly record: unknown
}

export interface Fault {
  readonly id: number
  readonly upstream: Upstream
  readonly route: string | null
  readonly fault: FaultKind
  /** Calls that it will still meet; `null` until it is removed. */
  readonly left: number | null
}

export interface WebhookEvent {
  readonly type: string
  /** What it says, for a person. */
  readonly meaning: string
  /** What it is about, as a heading over several events. */
  readonly group: string
  /** The kind of actor that it is about; `null` for none. */
  readonly actorKind: "silicon" | "carbon" | null
  readonly hasOrganization: boolean
}

/** The whole system. Lists are newest first and hold the newest 100, of what belongs to a plane those of each plane. */
export interface State {
  /** The sandbox's clock when this was sent, and by how much it is ahead of the real one. */
  readonly now: number
  readonly clockOffset: number
  /** Base addresses without a trailing slash. */
  readonly addresses: Readonly<Record<"backend" | Upstream, string>>
  readonly planes: ReadonlyArray<Plane>
  readonly actors: ReadonlyArray<Actor>
  readonly slts: ReadonlyArray<Slt>
  readonly sessions: ReadonlyArray<Session>
  readonly inbox: ReadonlyArray<InboxTing>
  readonly issues: ReadonlyArray<TrackerIssue>
  readonly rows: ReadonlyArray<TableRow>
  readonly faults: ReadonlyArray<Fault>
  /** The routes of each upstream that the service or Ting calls, as `METHOD /path`. */
  readonly routes: Readonly<Record<Upstream, ReadonlyArray<string>>>
  /** The tables that telemetry may name. */
  readonly tables: ReadonlyArray<string>
  readonly tingTypes: ReadonlyArray<string>
  readonly webhookEvents: ReadonlyArray<WebhookEvent>
}

/** Why an action cannot be carried out, and what to do. */
export interface Refusal {
  readonly message: string
  readonly hint: string
}
