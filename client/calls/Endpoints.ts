/** The service's calls: method, path and answer. A test compares the table with the contract (`src/http/api`). */
import type { FailureCode } from "../../src/schema/FailureTable.ts"
import {
  type Check,
  isHealth,
  isIamDescriptor,
  isLogin,
  isMe,
  isReadiness,
  isReport,
  isSession,
  isSubscription,
  isTing,
  isVersion
} from "./Answers.ts"

export interface Endpoint<A> {
  readonly method: string
  /** Path with its query, behind the base URL. */
  readonly path: string
  /** `empty`: 204. `raw`: any success is passed on as a `RawAnswer`. */
  readonly answer: Check<A> | "empty" | "raw"
}

const get = <A>(path: string, answer: Check<A>): Endpoint<A> => ({ method: "GET", path, answer })
const post = <A>(path: string, answer: Check<A>): Endpoint<A> => ({ method: "POST", path, answer })
const postWithoutAnswer = (path: string): Endpoint<void> => ({ method: "POST", path, answer: "empty" })

export const endpoints = {
  login: post("/api/v1/auth/login", isLogin),
  refresh: post("/api/v1/auth/refresh", isSession),
  logout: postWithoutAnswer("/api/v1/auth/logout"),
  me: get("/api/v1/auth/me", isMe),
  subscribe: post("/api/v1/ting/subscription", isSubscription),
  ting: post("/api/v1/tings", isTing),
  report: post("/api/v1/reports", isReport),
  telemetry: postWithoutAnswer("/api/v1/telemetry"),
  iam: get("/api/v1/iam", isIamDescriptor),
  version: get("/api/v1/version", isVersion),
  healthz: get("/healthz", isHealth),
  readyz: get("/readyz", isReadiness)
}

export type EndpointName = keyof typeof endpoints
export type AnswerOf<Name extends EndpointName> =
  (typeof endpoints)[Name] extends Endpoint<infer A> ? A : never

type Always = "invalid_input" | "internal"
type Admission = Always | "rate_limited" | "overloaded" | "shutting_down"
type Plane = Admission | "testing_secret_invalid" | "forbidden" | "dependency_unavailable"
type Body = "payload_too_large" | "unsupported_media_type"
type Key = "idempotency_key_required" | "idempotency_key_invalid" | "idempotency_conflict"
type Replay = "idempotency_in_progress" | "idempotency_response_expired"
type Signed = Plane | "unauthenticated" | "reconsent_required"
type Ting =
  | Signed
  | Body
  | Replay
  | "dependency_misconfigured"
  | "permission_denied"
  | "test_context_mismatch"
  | "temporarily_rate_limited"

/** The codes that the contract declares for each call. A test compares them, too. */
export interface EndpointFailures {
  readonly login:
    | Plane
    | Body
    | Key
    | Replay
    | "slt_rejected"
    | "reconsent_required"
    | "dependency_misconfigured"
  readonly refresh: Signed | Body | Key | Replay | "dependency_misconfigured"
  readonly logout: Plane | Body | Key | "idempotency_in_progress" | "dependency_misconfigured"
  readonly me: Signed | "dependency_misconfigured"
  readonly subscribe: Ting
  readonly ting:
    | Ting
    | "recipient_not_registered"
    | "required_delivery_not_enabled"
    | "not_found"
    | "idempotency_conflict"
  readonly report: Signed | Body | Key | "reports_full"
  readonly telemetry: Plane | Body | "origin_not_allowed" | "spool_full"
  readonly iam: Plane
  readonly version: Admission
  readonly healthz: Always
  readonly readyz: Always | "not_ready"
}

// Every call has its row, and rows name known codes only.
type Complete = { readonly [Name in EndpointName]: EndpointFailures[Name] & FailureCode }
export type FailureCodesOf<Name extends EndpointName> = Complete[Name]
