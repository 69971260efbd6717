/**
 * What the console's server and its page exchange. Types only, so that both sides import it. Times are milliseconds since the epoch, by
 * the sandbox's clock.
 *
 * `GET /events` streams server-sent events: `state` with a `State`, and `action` with an `ActionRecord` for each action that began or
 * changed; a new stream starts with the state and all kept actions, oldest first; the state is sent every 15 seconds also when nothing
 * has changed. `POST /actions` takes an `Action` as JSON and answers with
 * its `ActionRecord` once the service has answered; a status of 400 or more with a `Refusal` when it cannot be carried out.
 */

export type Upstream = "iam" | "ting" | "tables" | "tracker"

/** The lifelines of the sequence diagram. `console` is the caller: the page acts as CLI, daemon and web client. */
export type Participant = "console" | "backend" | Upstream

/** `down`: the connection is dropped before anything happens. `lost`: the call takes effect, and its answer is dropped. */
export type FaultKind = "down" | "slow" | "rateLimited" | "lost"

/**
 * What a person does in the console. `plane` is `production` or the id of a testing plane; `session` and `action` are ids of the state.
 * The plane of a session counts before the plane of its action.
 */
export type Action =
  | { readonly kind: "mint"; readonly plane: string; readonly actor: string }
  | { readonly kind: "login"; readonly plane: string; readonly slt: string }
  | { readonly kind: "me"; readonly session: string; readonly org: string }
  | { readonly kind: "refresh"; readonly session: string }
  /** The spent refresh token again, under the key of its refresh: the answer is the same pair. */
  | { readonly kind: "replayRefresh"; readonly session: string }
  /** The spent refresh token under a new key: a theft, which ends the family. */
  | { readonly kind: "reuseRefresh"; readonly session: string }
  | { readonly kind: "logout"; readonly session: string }
  | {
      readonly kind: "ting"
      readonly session: string
      readonly org: string
      readonly type: string
      readonly key: string
      /** JSON text. */
      readonly data: string
    }
  | {
      readonly kind: "report"
      readonly session: string | null
      readonly org: string | null
      /** Absent: production. */
      readonly plane?: string
      readonly message: string
    }
  | {
      readonly kind: "telemetry"
      readonly session: string | null
      readonly org: string | null
      /** Absent: production. */
      readonly plane?: string
      readonly table: string
      readonly type: string
      /** JSON text. */
      readonly data: string
    }
  | {
      readonly kind: "webhook"
      readonly plane: string
      readonly event: string
      /** `null` where the event is about none. */
      readonly actor: string | null
      readonly org: string | null
      /** Changes one byte of the body after it was signed. */
      readonly tamper: boolean
    }
  /** The same request once more, byte for byte, in a trace of its own. */
  | { readonly kind: "repeat"; readonly action: number }
  | {
      readonly kind: "addFault"
      readonly upstream: Upstream
      /** `METHOD /path` of `State.routes`; `null` for every call. */
      readonly route: string | null
      readonly fault: FaultKind
      /** Number of calls; `null` until it is removed. */
      readonly times: number | null
    }
  | { readonly kind: "removeFault"; readonly fault: number }
  | { readonly kind: "advanceClock"; readonly milliseconds: number }

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
  readonly action: Action
  /** Such as `Log in as si:deejay`. */
  readonly title: string
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

/** The whole system. Lists are newest first and hold the newest 100. */
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
