/**
 * The values of the client's interface, as plain types without a library, so the promise client's declarations
 * need nothing installed. A test holds them equal to the service's schemas.
 */
import type { FailureCode, failureTable } from "../src/schema/FailureTable.ts"
import type { ClientErrorCode, clientErrorTable } from "./ErrorTable.ts"

export type { FailureCode } from "../src/schema/FailureTable.ts"
export type { ClientErrorCode } from "./ErrorTable.ts"

/** The calling client. */
export type Source = "cli" | "daemon" | "web"

export interface Actor {
  readonly type: "carbon" | "silicon"
  readonly public_id: string
}

/** A session without its tokens. */
export interface SessionInfo {
  readonly actor: Actor
  readonly org_id: string
  readonly org_ids: ReadonlyArray<string>
  /** Granted scopes, ascending, separated by one space. */
  readonly scope: string
  /** UUID of the testing environment, null in production. */
  readonly testing_environment_id: string | null
}

/** Result of registering the actor as a recipient; it never fails the login. */
export interface TingOutcome {
  readonly subscribed: boolean
  readonly subscription_id?: string
  readonly error?: string
}

export interface LoginInfo extends SessionInfo {
  readonly ting: TingOutcome
}

export interface Me {
  readonly authenticated: true
  readonly actor: Actor
  readonly org_id: string
  readonly membership_id: string
  readonly session_id: string
  readonly scopes: ReadonlyArray<string>
  readonly ting_ready: boolean
  readonly testing_environment_id: string | null
}

export interface Subscription {
  readonly id: string
  readonly app_id: string
  readonly for: string
  readonly active: boolean
}

export interface JsonObject {
  readonly [name: string]: unknown
}

export interface TingRequest {
  /** One of `ting_types` of the descriptor. */
  readonly type: string
  /** 1 to 200 bytes, starts with `<your public id>/`. Names the ting: the same key and content is sent once. */
  readonly key: string
  readonly data: JsonObject
  readonly metadata?: JsonObject
}

export interface Ting {
  readonly id: string
  /** RFC 3339, UTC. */
  readonly created_at: string
  readonly key: string
  readonly silent: boolean
  /** This key was accepted before; nothing new was sent. */
  readonly replayed: boolean
}

export interface ReportRequest {
  /** 10 to 20,000 characters after trimming. */
  readonly message: string
  /** https URL of a pull request. */
  readonly pr?: string | null
  /** At most 5; name 1 to 120 characters, content at most 100,000. */
  readonly attachments?: ReadonlyArray<{ readonly name: string; readonly content: string }> | null
  /** At most 32 KiB of JSON. */
  readonly context?: JsonObject | null
}

export interface Report {
  readonly id: string
  readonly status: "stored" | "filed"
  readonly issue_url: string | null
  readonly reporter: string | null
  /** RFC 3339, UTC. */
  readonly created_at: string
  readonly replayed: boolean
}

export interface IamDescriptor {
  readonly app_id: string
  readonly org_id: string
  readonly api_version: "v1"
  readonly iam_url: string
  readonly ting_url: string
  readonly testing_environment_id: string | null
  readonly ting_types: ReadonlyArray<string>
  readonly scopes: ReadonlyArray<string>
  readonly version: string
}

export interface Version {
  readonly version: string
  readonly api_versions: ReadonlyArray<"v1">
  readonly min_cli: string
}

export interface Health {
  readonly status: "ok"
  readonly service: "music-backend"
  readonly version: string
}

export type CheckState = "ok" | "degraded" | "failed" | "off"

export interface Readiness {
  readonly status: "ready"
  readonly checks: { readonly [name: string]: CheckState }
}

/** Details of a failure. */
export interface ErrorDetails {
  readonly fields?: ReadonlyArray<{ readonly path: string; readonly problem: string }>
  readonly reason?: string
  readonly dependency?: string
  readonly upstream_code?: string
  readonly upstream_request_id?: string
  readonly checks?: { readonly [name: string]: CheckState }
}

interface ErrorFacts {
  /** What happened. */
  readonly message: string
  /** What to do next. */
  readonly hint: string
  /** Names the request in the service's log; null when nothing was sent. */
  readonly requestId: string | null
  readonly details?: ErrorDetails
  readonly retryAfterSeconds?: number
}

type ServiceErrors = {
  readonly [Code in FailureCode]: ErrorFacts & {
    readonly code: Code
    readonly status: (typeof failureTable)[Code]["status"]
    readonly retryable: (typeof failureTable)[Code]["retryable"]
  }
}

type ClientErrors = {
  readonly [Code in ClientErrorCode]: ErrorFacts & {
    readonly code: Code
    /** Of the answer, when there was one. */
    readonly status: Code extends "unexpected_answer" ? number : null
    readonly retryable: (typeof clientErrorTable)[Code]["retryable"]
  }
}

/** All errors, discriminated by `code`. */
export type MusicError = ServiceErrors[FailureCode] | ClientErrors[ClientErrorCode]
export type MusicErrorCode = MusicError["code"]

/** The result of every call; no call rejects. */
export type Result<A> =
  | { readonly ok: true; readonly value: A }
  | { readonly ok: false; readonly error: MusicError }

/** Whether a session is live. `unknown` is an outage: the session is kept. */
export type Status<Failure = MusicError> =
  | { readonly state: "authenticated"; readonly me: Me }
  | { readonly state: "logged_out"; readonly reason: "not_logged_in" | "logged_out" }
  | { readonly state: "unknown"; readonly error: Failure }

/** The tables that a client may write to. */
export type ClientTable = "musicclidaemon" | "musicfrontendanalytics" | "musicfrontendevents"

/** Any JSON object; it gets an `id` (UUID) and `metadata.occurred_at` when it has none. */
export type TelemetryEvent = JsonObject

export interface TelemetryStats {
  readonly queued: number
  /** Acknowledged by the service. */
  readonly delivered: number
  /** Refused by the service, or left behind at `close`. */
  readonly dropped: number
}
