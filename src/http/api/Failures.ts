import * as Schema from "effect/Schema"
import { wire } from "../../schema/Envelope.ts"
import type { FailureCode, FailureOf } from "../../schema/Failure.ts"

// One schema for each code: a second one of the same class would appear twice in every error union.
const wires = new Map<FailureCode, Schema.Schema.All>()
const wireOf = (code: FailureCode): Schema.Schema.All => {
  const known = wires.get(code)
  if (known !== undefined) return known
  const made = wire(code)
  wires.set(code, made)
  return made
}

/** The failures that a call declares, by code: envelopes on the wire, classes in programs. */
export const failures = <const Code extends FailureCode>(...codes: ReadonlyArray<Code>) =>
  // The map above loses the types; `wire` returns the schema of the code's own class.
  Schema.Union(...codes.map(wireOf)) as unknown as Schema.Schema<FailureOf<Code>, unknown>

/** Failures of every call: a malformed request, and our own defects. */
export const always = failures("invalid_input", "internal")

/** Failures before a call begins. */
export const admission = failures("overloaded", "shutting_down", "rate_limited")

/** Failures of a request body. */
export const body = failures("invalid_input", "payload_too_large", "unsupported_media_type")

/** Failures of resolving a plane. A refused testing secret is the caller's error, never a misconfiguration of ours. */
export const plane = failures("testing_secret_invalid", "forbidden", "rate_limited", "dependency_unavailable")

/** Failures of a call to IAM with our own credentials, in a plane. */
export const identity = failures(
  "testing_secret_invalid",
  "forbidden",
  "rate_limited",
  "dependency_unavailable",
  "dependency_misconfigured"
)

/** Failures of a bearer. */
export const session = failures("unauthenticated", "forbidden", "reconsent_required")

/** Failures of an idempotency key that IAM has seen before. */
export const replay = failures(
  "idempotency_conflict",
  "idempotency_in_progress",
  "idempotency_response_expired"
)

/** Failures of a proof whose exchange is repeated after the answer to the first request was lost. */
export const proof = failures("idempotency_in_progress", "idempotency_response_expired")

/** Refusals of the notification service for any call, under its own codes (notification-service.md 8). */
export const ting = failures("permission_denied", "test_context_mismatch", "temporarily_rate_limited")

/** Further refusals of the notification service for a ting. */
export const sending = failures(
  "recipient_not_registered",
  "required_delivery_not_enabled",
  "not_found",
  "idempotency_conflict"
)
