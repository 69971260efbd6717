/**
 * Every failure that a caller can receive: one tagged class per code. `message` states the cause, `hint` the next step.
 */
import * as Schema from "effect/Schema"
import { Checks } from "./Health.ts"
import { type FailureCode, failureTable } from "./FailureTable.ts"

export { type FailureCode, failureTable } from "./FailureTable.ts"

const Field = Schema.Struct({ path: Schema.String, problem: Schema.String })

/** Details beyond the code; never a credential, never a rejected value. */
export const Details = Schema.Struct({
  fields: Schema.optionalWith(Schema.Array(Field), { exact: true }),
  reason: Schema.optionalWith(Schema.String, { exact: true }),
  dependency: Schema.optionalWith(Schema.String, { exact: true }),
  upstream_code: Schema.optionalWith(Schema.String, { exact: true }),
  upstream_request_id: Schema.optionalWith(Schema.String, { exact: true }),
  checks: Schema.optionalWith(Checks, { exact: true })
}).annotations({ identifier: "FailureDetails" })
export type Details = typeof Details.Type

const fields = (code: FailureCode) => ({
  message: Schema.String.pipe(
    Schema.propertySignature,
    Schema.withConstructorDefault((): string => failureTable[code].message)
  ),
  hint: Schema.String.pipe(
    Schema.propertySignature,
    Schema.withConstructorDefault((): string => failureTable[code].hint)
  ),
  details: Schema.optionalWith(Details, { exact: true }),
  /** Seconds; becomes the Retry-After header, never part of the body. */
  retryAfterSeconds: Schema.optionalWith(Schema.Number, { exact: true }),
  /** Replaces the code's own status where HTTP has a more exact one; never part of the body. */
  status: Schema.optionalWith(Schema.Number, { exact: true }),
  /** Methods that the path accepts; becomes the Allow header of a 405. */
  allow: Schema.optionalWith(Schema.String, { exact: true })
})

export class InvalidInput extends Schema.TaggedError<InvalidInput>()(
  "InvalidInput",
  fields("invalid_input")
) {
  readonly code = "invalid_input"
}
export class IdempotencyKeyRequired extends Schema.TaggedError<IdempotencyKeyRequired>()(
  "IdempotencyKeyRequired",
  fields("idempotency_key_required")
) {
  readonly code = "idempotency_key_required"
}
export class IdempotencyKeyInvalid extends Schema.TaggedError<IdempotencyKeyInvalid>()(
  "IdempotencyKeyInvalid",
  fields("idempotency_key_invalid")
) {
  readonly code = "idempotency_key_invalid"
}
export class Unauthenticated extends Schema.TaggedError<Unauthenticated>()(
  "Unauthenticated",
  fields("unauthenticated")
) {
  readonly code = "unauthenticated"
}
export class SltRejected extends Schema.TaggedError<SltRejected>()("SltRejected", fields("slt_rejected")) {
  readonly code = "slt_rejected"
}
export class TestingSecretInvalid extends Schema.TaggedError<TestingSecretInvalid>()(
  "TestingSecretInvalid",
  fields("testing_secret_invalid")
) {
  readonly code = "testing_secret_invalid"
}
export class WebhookSignatureInvalid extends Schema.TaggedError<WebhookSignatureInvalid>()(
  "WebhookSignatureInvalid",
  fields("webhook_signature_invalid")
) {
  readonly code = "webhook_signature_invalid"
}
export class Forbidden extends Schema.TaggedError<Forbidden>()("Forbidden", fields("forbidden")) {
  readonly code = "forbidden"
}
export class ReconsentRequired extends Schema.TaggedError<ReconsentRequired>()(
  "ReconsentRequired",
  fields("reconsent_required")
) {
  readonly code = "reconsent_required"
}
export class RecipientNotRegistered extends Schema.TaggedError<RecipientNotRegistered>()(
  "RecipientNotRegistered",
  fields("recipient_not_registered")
) {
  readonly code = "recipient_not_registered"
}
export class PermissionDenied extends Schema.TaggedError<PermissionDenied>()(
  "PermissionDenied",
  fields("permission_denied")
) {
  readonly code = "permission_denied"
}
export class TestContextMismatch extends Schema.TaggedError<TestContextMismatch>()(
  "TestContextMismatch",
  fields("test_context_mismatch")
) {
  readonly code = "test_context_mismatch"
}
export class RequiredDeliveryNotEnabled extends Schema.TaggedError<RequiredDeliveryNotEnabled>()(
  "RequiredDeliveryNotEnabled",
  fields("required_delivery_not_enabled")
) {
  readonly code = "required_delivery_not_enabled"
}
export class OriginNotAllowed extends Schema.TaggedError<OriginNotAllowed>()(
  "OriginNotAllowed",
  fields("origin_not_allowed")
) {
  readonly code = "origin_not_allowed"
}
export class PlaneMismatch extends Schema.TaggedError<PlaneMismatch>()(
  "PlaneMismatch",
  fields("plane_mismatch")
) {
  readonly code = "plane_mismatch"
}
export class NotFound extends Schema.TaggedError<NotFound>()("NotFound", fields("not_found")) {
  readonly code = "not_found"
}
export class MethodNotAllowed extends Schema.TaggedError<MethodNotAllowed>()(
  "MethodNotAllowed",
  fields("method_not_allowed")
) {
  readonly code = "method_not_allowed"
}
export class IdempotencyConflict extends Schema.TaggedError<IdempotencyConflict>()(
  "IdempotencyConflict",
  fields("idempotency_conflict")
) {
  readonly code = "idempotency_conflict"
}
export class IdempotencyInProgress extends Schema.TaggedError<IdempotencyInProgress>()(
  "IdempotencyInProgress",
  fields("idempotency_in_progress")
) {
  readonly code = "idempotency_in_progress"
}
export class IdempotencyResponseExpired extends Schema.TaggedError<IdempotencyResponseExpired>()(
  "IdempotencyResponseExpired",
  fields("idempotency_response_expired")
) {
  readonly code = "idempotency_response_expired"
}
export class PayloadTooLarge extends Schema.TaggedError<PayloadTooLarge>()(
  "PayloadTooLarge",
  fields("payload_too_large")
) {
  readonly code = "payload_too_large"
}
export class UnsupportedMediaType extends Schema.TaggedError<UnsupportedMediaType>()(
  "UnsupportedMediaType",
  fields("unsupported_media_type")
) {
  readonly code = "unsupported_media_type"
}
export class RateLimited extends Schema.TaggedError<RateLimited>()("RateLimited", {
  ...fields("rate_limited"),
  /** The quota that was exceeded; becomes RateLimit headers, never part of the body. */
  quota: Schema.optionalWith(
    Schema.Struct({
      policy: Schema.Struct({ name: Schema.String, quota: Schema.Number, windowSeconds: Schema.Number }),
      remaining: Schema.Number,
      resetSeconds: Schema.Number,
      retryAfterSeconds: Schema.Number
    }),
    { exact: true }
  )
}) {
  readonly code = "rate_limited"
}
export class TemporarilyRateLimited extends Schema.TaggedError<TemporarilyRateLimited>()(
  "TemporarilyRateLimited",
  fields("temporarily_rate_limited")
) {
  readonly code = "temporarily_rate_limited"
}
export class Internal extends Schema.TaggedError<Internal>()("Internal", fields("internal")) {
  readonly code = "internal"
}
export class DependencyMisconfigured extends Schema.TaggedError<DependencyMisconfigured>()(
  "DependencyMisconfigured",
  fields("dependency_misconfigured")
) {
  readonly code = "dependency_misconfigured"
}
export class DependencyUnavailable extends Schema.TaggedError<DependencyUnavailable>()(
  "DependencyUnavailable",
  fields("dependency_unavailable")
) {
  readonly code = "dependency_unavailable"
}
export class NotReady extends Schema.TaggedError<NotReady>()("NotReady", fields("not_ready")) {
  readonly code = "not_ready"
}
export class Overloaded extends Schema.TaggedError<Overloaded>()("Overloaded", fields("overloaded")) {
  readonly code = "overloaded"
}
export class ReportsFull extends Schema.TaggedError<ReportsFull>()("ReportsFull", fields("reports_full")) {
  readonly code = "reports_full"
}
export class SpoolFull extends Schema.TaggedError<SpoolFull>()("SpoolFull", fields("spool_full")) {
  readonly code = "spool_full"
}
export class ShuttingDown extends Schema.TaggedError<ShuttingDown>()(
  "ShuttingDown",
  fields("shutting_down")
) {
  readonly code = "shutting_down"
}

/** Every class by its code; the type checker refuses a code without its class. */
export const failureClasses = {
  invalid_input: InvalidInput,
  idempotency_key_required: IdempotencyKeyRequired,
  idempotency_key_invalid: IdempotencyKeyInvalid,
  unauthenticated: Unauthenticated,
  slt_rejected: SltRejected,
  testing_secret_invalid: TestingSecretInvalid,
  webhook_signature_invalid: WebhookSignatureInvalid,
  forbidden: Forbidden,
  reconsent_required: ReconsentRequired,
  recipient_not_registered: RecipientNotRegistered,
  permission_denied: PermissionDenied,
  test_context_mismatch: TestContextMismatch,
  required_delivery_not_enabled: RequiredDeliveryNotEnabled,
  origin_not_allowed: OriginNotAllowed,
  plane_mismatch: PlaneMismatch,
  not_found: NotFound,
  method_not_allowed: MethodNotAllowed,
  idempotency_conflict: IdempotencyConflict,
  idempotency_in_progress: IdempotencyInProgress,
  idempotency_response_expired: IdempotencyResponseExpired,
  payload_too_large: PayloadTooLarge,
  unsupported_media_type: UnsupportedMediaType,
  rate_limited: RateLimited,
  temporarily_rate_limited: TemporarilyRateLimited,
  internal: Internal,
  dependency_misconfigured: DependencyMisconfigured,
  dependency_unavailable: DependencyUnavailable,
  not_ready: NotReady,
  overloaded: Overloaded,
  reports_full: ReportsFull,
  spool_full: SpoolFull,
  shutting_down: ShuttingDown
} as const satisfies Record<FailureCode, unknown>

export type Failure = InstanceType<(typeof failureClasses)[FailureCode]>

const classes = Object.values(failureClasses)

/** Whether a value is a declared failure. */
export const isFailure = (value: unknown): value is Failure => classes.some((known) => value instanceof known)
