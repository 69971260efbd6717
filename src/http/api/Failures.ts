import * as Schema from "effect/Schema"
import { type FailureCode, failureClasses, wire } from "../../schema/Failure.ts"

type FailureOf<Code extends FailureCode> = InstanceType<(typeof failureClasses)[Code]>

// One schema a code: two of the same class would appear twice in every error union.
const wires = new Map<FailureCode, Schema.Schema.All>()
const wireOf = (code: FailureCode): Schema.Schema.All => {
  const known = wires.get(code)
  if (known !== undefined) return known
  const made = wire(failureClasses[code])
  wires.set(code, made)
  return made
}

/** The failures that a call can give, by code: envelopes on the wire, classes in programs. */
export const failures = <const Code extends FailureCode>(...codes: ReadonlyArray<Code>) =>
  // The map above keeps no types; `wire` gives a code the schema of its own class.
  Schema.Union(...codes.map(wireOf)) as unknown as Schema.Schema<FailureOf<Code>, unknown>

/** What every call can meet: a request that is no proper HTTP, and our own faults. */
export const always = failures("invalid_input", "internal")

/** What the server answers before a call begins. */
export const admission = failures("overloaded", "shutting_down", "rate_limited")

/** What is wrong with a body on its face. */
export const body = failures("invalid_input", "payload_too_large", "unsupported_media_type")

/** What resolving a plane can end in: whether a testing secret is good is the caller's matter, never ours. */
export const plane = failures("testing_secret_invalid", "forbidden", "rate_limited", "dependency_unavailable")

/** What any question that IAM answers to our own credentials can end in, in a plane. */
export const identity = failures(
  "testing_secret_invalid",
  "forbidden",
  "rate_limited",
  "dependency_unavailable",
  "dependency_misconfigured"
)

/** What a live session can lack. */
export const session = failures("unauthenticated", "forbidden", "reconsent_required")

/** What IAM says of an idempotency key that it has met before. */
export const replay = failures(
  "idempotency_conflict",
  "idempotency_in_progress",
  "idempotency_response_expired"
)

/** The notification service's refusals of any call, passed on under their own codes (notification-service.md 8). */
export const ting = failures("permission_denied", "test_context_mismatch", "temporarily_rate_limited")

/** Its refusals of a ting alone. */
export const sending = failures(
  "recipient_not_registered",
  "required_delivery_not_enabled",
  "not_found",
  "idempotency_conflict"
)
