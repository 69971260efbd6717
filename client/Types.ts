/**
 * The values of the client's interface, as plain types without a library, so that the declarations of the promise client need nothing
 * installed. Those of the service's contract are made from docs/openapi.json: `npm run types` writes Contract.ts.
 */
import type { failureTable } from "../src/schema/FailureTable.ts"
import type * as Contract from "./Contract.ts"
import type { ClientErrorCode, clientErrorTable, ReasonedCode } from "./failures/ErrorTable.ts"

export type { FailureCode } from "../src/schema/FailureTable.ts"
export type {
  Actor,
  Health,
  IamDescriptor,
  Me,
  Open,
  Readiness,
  Report,
  ReportRequest,
  Subscription,
  Ting,
  TingOutcome,
  Version
} from "./Contract.ts"
export type { ClientErrorCode } from "./failures/ErrorTable.ts"

/** The calling client. */
export type Source = "cli" | "daemon" | "web"

/** A session without its tokens. */
export interface SessionInfo
  extends Pick<Contract.Session, "actor" | "org_id" | "org_ids" | "scope" | "testing_environment_id"> {
  /** End of the access token by this machine's clock, RFC 3339, UTC. The client refreshes it before; the session lasts longer. */
  readonly expires_at: string
}

/** A session after its login. */
export interface LoginInfo extends SessionInfo {
  /** Result of registering the actor as a recipient; it never fails the login. */
  readonly ting: Contract.TingOutcome
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

/** A notification to oneself. */
export interface TingRequest extends Omit<Contract.TingRequest, "key"> {
  /**
   * 1 to 200 bytes: `<your public id>/<name>`, or `<name>` alone, which the client completes. Names the ting: the same key
   * and content is sent once.
   */
  readonly key: string
}

export type CheckState = Contract.Readiness["checks"][string]
/** Why no answer came. */
export type ConnectionReason = Contract.Reasons["transport_failed"]["reason"]
/** Why an answer was not understood. */
export type AnswerReason = Contract.Reasons["unexpected_answer"]["reason"]

/**
 * Why a session is over. `revoked`: the identity service refused the refresh token. `lost`: the answer to a refresh was lost more
 * than 10 minutes ago. `refused`: new access tokens are refused. `replaced`: another program logged out or changed the actor.
 */
export type LoggedOutReason = "revoked" | "lost" | "refused" | "replaced"

/** Details of an error. A later service may add members. */
export interface ErrorDetails extends Contract.FailureDetails {
  /** The random key of a call that may have taken effect: passed with the next call, it is done once. */
  readonly idempotencyKey?: string
  readonly [more: string]: unknown
}

/** The last known failure of a call that ended at its deadline. */
export interface EarlierFailure extends Pick<ErrorFacts, "message" | "hint" | "requestId"> {
  readonly code: string
}

/** The details that errors of the client always have. */
interface ClientErrorDetails {
  readonly logged_out: { readonly details: ErrorDetails & { readonly reason: LoggedOutReason } }
  readonly timed_out: { readonly details?: ErrorDetails & { readonly last?: EarlierFailure } }
  /** `path` is the file, when the store knows it. */
  readonly store_failed: {
    readonly details: ErrorDetails & Contract.Reasons["store_failed"] & { readonly path?: string }
  }
}

type WithDetails<Code> = Code extends keyof ClientErrorDetails
  ? ClientErrorDetails[Code]
  : Code extends ReasonedCode
    ? { readonly details: ErrorDetails & Contract.Reasons[Code] }
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
  readonly [Code in keyof typeof failureTable]: ErrorFacts &
    WithDetails<Code> &
    Contract.Codes[Code] & {
      readonly status: (typeof failureTable)[Code]["status"]
      readonly retryable: (typeof failureTable)[Code]["retryable"]
    }
}

type ClientErrors = {
  readonly [Code in ClientErrorCode]: ErrorFacts &
    WithDetails<Code> &
    Contract.Codes[Code] & {
      /** Of the answer, when there was one. */
      readonly status: Code extends "unexpected_answer" ? number : null
      /** With a reason it depends on that. */
      readonly retryable: Code extends ReasonedCode ? boolean : (typeof clientErrorTable)[Code]["retryable"]
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
export type MusicError = ServiceErrors[keyof ServiceErrors] | ClientErrors[ClientErrorCode] | UnknownError
/** Every code. What one means shows where an editor shows the member `code` of an error. */
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
  | { readonly state: "authenticated"; readonly me: Contract.Me }
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
