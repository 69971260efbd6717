/**
 * The values of the client's interface, as plain types without a library, so the promise client's declarations
 * need nothing installed. A test compares them with the service's schemas.
 */
import type { FailureCode, failureTable } from "../src/schema/FailureTable.ts"
import type { ClientErrorCode, clientErrorTable } from "./failures/ErrorTable.ts"
import type { StoreFailureReason } from "./failures/StoreFailures.ts"

export type { FailureCode } from "../src/schema/FailureTable.ts"
export type { ClientErrorCode } from "./failures/ErrorTable.ts"

/** The values that are known now; a later service may send others. */
export type Open<Known extends string> = Known | (string & Record<never, never>)

/** The calling client. */
export type Source = "cli" | "daemon" | "web"

/** A person or a machine identity. */
export interface Actor {
  readonly type: Open<"carbon" | "silicon">
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
  /** End of the access token by this machine's clock, RFC 3339, UTC. The client refreshes it before; the session lasts longer. */
  readonly expires_at: string
}

/** Result of registering the actor as a recipient; it never fails the login. */
export interface TingOutcome {
  readonly subscribed: boolean
  readonly subscription_id?: string
  readonly error?: string
}

/** A session after its login. */
export interface LoginInfo extends SessionInfo {
  readonly ting: TingOutcome
  /** The stored session was unreadable; this login replaced it. */
  readonly healed: boolean
}

/** What a logout did. */
export interface LogoutInfo {
  /** The service has revoked the session. False: there was none, or it lives until it expires. */
  readonly revoked: boolean
  /** The stored session was unreadable; it was removed. */
  readonly healed: boolean
}

/** The actor of a session, and what it may do. */
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

/** The registration of an actor as a recipient of tings. */
export interface Subscription {
  readonly id: string
  readonly app_id: string
  readonly for: string
  readonly active: boolean
}

/** A notification to oneself. */
export interface TingRequest {
  /** One of `ting_types` of the descriptor. */
  readonly type: string
  /**
   * 1 to 200 bytes: `<your public id>/<name>`, or `<name>` alone, which the client completes. Names the ting: the same key
   * and content is sent once.
   */
  readonly key: string
  /** A JSON object. */
  readonly data: object
  /** A JSON object. */
  readonly metadata?: object
}

/** A ting as the service accepted it. */
export interface Ting {
  readonly id: string
  /** RFC 3339, UTC. */
  readonly created_at: string
  readonly key: string
  readonly silent: boolean
  /** This key was accepted before; nothing new was sent. */
  readonly replayed: boolean
}

/** A bug report. */
export interface ReportRequest {
  /** 10 to 20,000 characters after trimming. */
  readonly message: string
  /** https URL of a pull request. */
  readonly pr?: string | null
  /** At most 5; name 1 to 120 characters, content at most 100,000. */
  readonly attachments?: ReadonlyArray<{ readonly name: string; readonly content: string }> | null
  /** A JSON object of at most 32 KiB. */
  readonly context?: object | null
}

/** A report as the service stored it. */
export interface Report {
  readonly id: string
  readonly status: Open<"stored" | "filed">
  readonly issue_url: string | null
  readonly reporter: string | null
  /** RFC 3339, UTC. */
  readonly created_at: string
  readonly replayed: boolean
}

/** What the service is to the identity service and the notification service. */
export interface IamDescriptor {
  readonly app_id: string
  readonly org_id: string
  readonly api_version: Open<"v1">
  readonly iam_url: string
  readonly ting_url: string
  readonly testing_environment_id: string | null
  readonly ting_types: ReadonlyArray<string>
  readonly scopes: ReadonlyArray<string>
  readonly version: string
}

/** The service's versions. */
export interface Version {
  readonly version: string
  readonly api_versions: ReadonlyArray<Open<"v1">>
  /** The oldest version of a program that the service supports. */
  readonly min_cli: string
}

/** The process answers. */
export interface Health {
  readonly status: Open<"ok">
  readonly service: Open<"music-backend">
  readonly version: string
}

export type CheckState = Open<"ok" | "degraded" | "failed" | "off">

/** The service can serve; the state of each dependency. */
export interface Readiness {
  readonly status: Open<"ready">
  readonly checks: { readonly [name: string]: CheckState }
}

/**
 * Why no answer came. `not_sent`: `fetch` refuses the request, for example because browsers block the port. `refused`: nothing listens at the address. `name_not_found`: the host name does not resolve.
 * `name_lookup_failed`: the resolver did not answer. `unreachable`: no route, or no connection in time. `certificate`: the
 * server's certificate is not accepted. `tls`: the port does not speak TLS, or not this version. `cors`: the server is there but
 * does not allow this page's origin. `not_http`: what answers does not speak HTTP, or not in a form that is read. `connection_lost`: closed before the
 * answer. `network`: unknown.
 */
export type ConnectionReason =
  | "not_sent"
  | "refused"
  | "name_not_found"
  | "name_lookup_failed"
  | "unreachable"
  | "certificate"
  | "tls"
  | "cors"
  | "not_http"
  | "connection_lost"
  | "network"

/**
 * Why an answer was not understood. `not_json`: a page of an intermediary or an empty body. `incomplete`: cut off. `too_large`: longer
 * than the client reads. `outside_contract`: JSON without the members of the contract. `other_plane`: for another plane than asked.
 * `redirect`: the client follows none.
 */
export type AnswerReason =
  | "not_json"
  | "incomplete"
  | "too_large"
  | "outside_contract"
  | "other_plane"
  | "redirect"

/**
 * Why a session is over. `revoked`: the identity service refused the refresh token. `lost`: the answer to a refresh was lost more
 * than 10 minutes ago. `refused`: new access tokens are refused. `replaced`: another program logged out during the call.
 */
export type LoggedOutReason = "revoked" | "lost" | "refused" | "replaced"

/** Details of an error. A later service may add members. */
export interface ErrorDetails {
  readonly fields?: ReadonlyArray<{ readonly path: string; readonly problem: string }>
  readonly reason?: string
  readonly dependency?: string
  readonly upstream_code?: string
  readonly upstream_request_id?: string
  readonly checks?: { readonly [name: string]: CheckState }
  /** The random key of a call that may have taken effect: passed with the next call, it is done once. */
  readonly idempotencyKey?: string
  readonly [more: string]: unknown
}

/** The last known failure of a call that ended at its deadline. */
export interface EarlierFailure {
  readonly code: string
  readonly message: string
  readonly hint: string
  readonly requestId: string | null
}

/** The details that errors of the client always have. */
interface ClientErrorDetails {
  readonly logged_out: { readonly reason: LoggedOutReason }
  readonly transport_failed: { readonly reason: ConnectionReason }
  readonly unexpected_answer: { readonly reason: AnswerReason }
  /** `path` is the file, when the store knows it. */
  readonly store_failed: { readonly reason: StoreFailureReason; readonly path?: string }
}

type WithDetails<Code> = Code extends keyof ClientErrorDetails
  ? { readonly details: ErrorDetails & ClientErrorDetails[Code] }
  : Code extends "timed_out"
    ? { readonly details?: ErrorDetails & { readonly last?: EarlierFailure } }
    : { readonly details?: ErrorDetails }

interface ErrorFacts {
  /** What happened. */
  readonly message: string
  /** What to do next. */
  readonly hint: string
  /** Names the request in the service's log; null when nothing was sent. */
  readonly requestId: string | null
  /** The service asks for this pause before the next call. */
  readonly retryAfterSeconds?: number
  /** The state of the quotas after the call, when an answer named them. */
  readonly rateLimits?: ReadonlyArray<RateLimit>
  /** The error of `fetch` or of the store, or the reason of the caller's signal, for a log. Not enumerable. */
  readonly cause?: unknown
  /** The answer behind the error, for a log. Not enumerable. */
  readonly response?: AnswerHead
}

/** The beginning of an answer. */
export interface AnswerHead {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The first 2 KB, without tokens. */
  readonly body: string
}

type ServiceErrors = {
  readonly [Code in FailureCode]: ErrorFacts &
    WithDetails<Code> & {
      readonly code: Code
      readonly status: (typeof failureTable)[Code]["status"]
      readonly retryable: (typeof failureTable)[Code]["retryable"]
    }
}

/** Whether a retry can help depends on the reason. */
type DependsOnReason = "transport_failed" | "unexpected_answer" | "store_failed"

type ClientErrors = {
  readonly [Code in ClientErrorCode]: ErrorFacts &
    WithDetails<Code> & {
      readonly code: Code
      /** Of the answer, when there was one. */
      readonly status: Code extends "unexpected_answer" ? number : null
      readonly retryable: Code extends DependsOnReason
        ? boolean
        : (typeof clientErrorTable)[Code]["retryable"]
    }
}

/**
 * The type of every code that a later service may send; `code` has the service's own text, behind `service_` where the client has
 * a code of that name. A text type in its place would keep the known codes from narrowing.
 */
export type UnknownCode = "(a code of a later version: see isUnknownCode)"

/** A failure with a code that this version does not know; message, hint and `retryable` are the service's own. */
export interface UnknownError extends ErrorFacts {
  readonly code: UnknownCode
  readonly status: number
  readonly retryable: boolean
  readonly details?: ErrorDetails
}

/** All errors, discriminated by `code`. */
export type MusicError = ServiceErrors[FailureCode] | ClientErrors[ClientErrorCode] | UnknownError
/**
 * Every code. Of the client: `not_logged_in`: there is no session. `logged_out`: the session has ended, see `details.reason`. `transport_failed`:
 * no answer came. `timed_out`: the deadline came first. `unexpected_answer`: an answer that is none of the service. `aborted`: by the caller's
 * signal. `store_failed`: the session could not be read, written or locked. `queue_full`: the telemetry queue has no room. `unsupported`: no
 * Web Crypto. `client_defect`: a bug of the client.
 *
 * Of the service: `invalid_input`: a field is wrong, see `details.fields`. `idempotency_key_required`, `idempotency_key_invalid`: the key is
 * missing or malformed. `unauthenticated`: the token is refused. `slt_rejected`: the short-lived token is used, old or of another application.
 * `testing_secret_invalid`: `testingKey` is no live secret. `forbidden`: refused by policy. `reconsent_required`: the session lacks a scope.
 * `recipient_not_registered`: call `subscribe` first. `permission_denied`, `required_delivery_not_enabled`: the notification service refuses.
 * `test_context_mismatch`: two testing environments. `origin_not_allowed`: no telemetry from this origin. `not_found`: no such resource.
 * `idempotency_conflict`: the key was used with other content. `idempotency_in_progress`: the first request still runs.
 * `idempotency_response_expired`: the answer is no longer replayed. `payload_too_large`, `unsupported_media_type`: the body is refused.
 * `rate_limited`, `temporarily_rate_limited`: wait for `retryAfterSeconds`. `internal`: a fault of the service.
 * `dependency_misconfigured`: an operator must act. `dependency_unavailable`, `not_ready`, `overloaded`, `shutting_down`: call again later.
 * `reports_full`, `spool_full`: no room for reports or events.
 */
export type MusicErrorCode = MusicError["code"]

/** The errors with some codes. */
export type ErrorOf<Code extends MusicErrorCode> = Extract<MusicError, { readonly code: Code }>

/** The state of one quota after a call. */
export interface RateLimit {
  /** Name of the quota, such as `address` or `credential`. */
  readonly policy: string
  readonly remaining: number
  /** Seconds until more is granted. */
  readonly resetSeconds: number
}

/** The exchange behind a success. */
export interface Metadata {
  /** Names the request in the service's log; null when nothing was sent. */
  readonly requestId: string | null
  readonly rateLimits: ReadonlyArray<RateLimit>
}

/** The result of every call; no call rejects. */
export type Result<A, E extends MusicError = MusicError> =
  | { readonly ok: true; readonly value: A; readonly metadata: Metadata; readonly error?: undefined }
  | {
      readonly ok: false
      readonly error: E
      readonly value?: undefined
      readonly metadata?: undefined
    }

/** Whether a session is live. `unknown` is an outage: the session is kept. */
export type Status<Failure = MusicError> =
  | { readonly state: "authenticated"; readonly me: Me }
  /** A session that ended while this client used it has a reason until the next login. */
  | { readonly state: "logged_out"; readonly reason: "not_logged_in" | LoggedOutReason }
  | { readonly state: "unknown"; readonly error: Failure }

/** A call that this version does not know. */
export interface RawRequest {
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>> | undefined
  /** A JSON value. */
  readonly body?: unknown
  /** Further headers; the client's own win. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** `required` fails without a session; `optional` (the default) sends the call signed when there is one; `none` never. */
  readonly session?: "required" | "optional" | "none" | undefined
  /** Default: a random one for every method but GET and HEAD, the same for all retries of this call. */
  readonly idempotencyKey?: string | undefined
}

/** The answer to a raw call. */
export interface RawAnswer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** The parsed JSON; a text when the service sent none; undefined for an empty body. */
  readonly body: unknown
}

/** The tables that a client may write to. */
export type ClientTable = "musicclidaemon" | "musicfrontendanalytics" | "musicfrontendevents"

/** Any JSON object; it gets an `id` (UUID) and `metadata.occurred_at` when it has none. */
export type TelemetryEvent = object

/** Counts of events since the client was made. */
export interface TelemetryStats {
  readonly queued: number
  /** Acknowledged by the service. */
  readonly delivered: number
  /** Refused by the service, left behind at `close`, recorded after it, or without room in the queue. */
  readonly dropped: number
}
