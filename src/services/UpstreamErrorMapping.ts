/** Maps failures of IAM and Ting to the failures that a caller sees: the tables of api.md, "Errors". */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Details, Failure } from "../schema/Failure.ts"
import * as Failures from "../schema/Failure.ts"
import type { Plane } from "./Plane.ts"
import type { Refused, UpstreamFailure } from "./UpstreamFailure.ts"

export type IamOperation = "login" | "refresh" | "revoke" | "introspect" | "plane" | "prove"

const refusalDetails = (refused: Refused): Details => ({
  dependency: refused.dependency,
  upstream_code: refused.code,
  ...(refused.requestId === undefined ? {} : { upstream_request_id: refused.requestId })
})

const retryAfter = (seconds: number | undefined) =>
  seconds === undefined ? {} : { retryAfterSeconds: seconds }

const unavailable = (failure: UpstreamFailure): Failure =>
  new Failures.DependencyUnavailable({
    details: failure._tag === "Refused" ? refusalDetails(failure) : { dependency: failure.dependency },
    ...retryAfter(failure.retryAfterSeconds)
  })

/** Milliseconds of clock difference beyond which the hint of a refused call names the clock. */
const skewLimit = 60_000

const misconfigured = (refused: Refused, now: number): Failure => {
  const skewed = refused.answeredAt !== undefined && Math.abs(refused.answeredAt - now) > skewLimit
  return new Failures.DependencyMisconfigured({
    details: refusalDetails(refused),
    ...(skewed
      ? {
          hint: "The clocks of this server and the identity service differ by more than 60 seconds: an operator must correct this server's clock."
        }
      : {})
  })
}

/** The session cannot be refreshed: its refresh token is no live one. */
export const refreshRefused = (): Failures.Unauthenticated =>
  new Failures.Unauthenticated({
    message: "The refresh token is malformed, spent, expired or revoked.",
    hint: "Log in again with a new short-lived token; this session cannot be refreshed."
  })

const invalidTokenCodes = ["invalid_grant", "refresh_token_reuse", "invalid_token"]

/**
 * The failure for IAM's answer to one operation. `plane` is `selecting` while the plane is not known yet; `now` is milliseconds since the
 * epoch.
 */
export const mapIamFailure =
  (operation: IamOperation, plane: Plane | "selecting", now: number) =>
  (failure: UpstreamFailure): Failure => {
    if (failure._tag !== "Refused") return unavailable(failure)
    if (failure.status === 429) return new Failures.RateLimited(retryAfter(failure.retryAfterSeconds ?? 1))
    const testing = plane === "selecting" || plane._tag === "Testing"
    switch (failure.code) {
      case "idempotency_conflict":
        return new Failures.IdempotencyConflict()
      case "idempotency_in_progress":
        return new Failures.IdempotencyInProgress(retryAfter(1))
      case "idempotency_response_expired":
        return new Failures.IdempotencyResponseExpired()
      case "unauthenticated":
        return testing && failure.status === 401
          ? new Failures.TestingSecretInvalid()
          : misconfigured(failure, now)
      case "invalid_client":
        return operation === "plane" ? new Failures.TestingSecretInvalid() : misconfigured(failure, now)
      case "invalid_subject_token":
        return operation === "prove" ? new Failures.Unauthenticated() : unavailable(failure)
      default:
        break
    }
    if (invalidTokenCodes.includes(failure.code)) {
      if (operation === "login") return new Failures.SltRejected()
      if (operation === "refresh") return refreshRefused()
    }
    if (failure.status === 403) return new Failures.Forbidden({ details: refusalDetails(failure) })
    if (operation === "prove" && failure.status === 404)
      return new Failures.ReconsentRequired({ details: refusalDetails(failure) })
    return unavailable(failure)
  }

/**
 * The failure for Ting's answer; `now` is milliseconds since the epoch. A 401 of Ting never becomes a 401 of ours: it concerns the proof,
 * not the user's session.
 */
export const mapTingFailure = (failure: UpstreamFailure, now: number): Failure => {
  if (failure._tag !== "Refused") return unavailable(failure)
  const details = refusalDetails(failure)
  if (failure.status === 429)
    return new Failures.TemporarilyRateLimited(retryAfter(failure.retryAfterSeconds ?? 1))
  switch (failure.code) {
    case "recipient_not_registered":
      return new Failures.RecipientNotRegistered({ details })
    case "permission_denied":
      return new Failures.PermissionDenied({ details })
    case "test_context_mismatch":
      return new Failures.TestContextMismatch({ details })
    case "required_delivery_not_enabled":
      return new Failures.RequiredDeliveryNotEnabled({ details })
    case "not_found":
      return new Failures.NotFound({ details })
    case "invalid_input":
      return new Failures.InvalidInput({ details })
    case "idempotency_conflict":
      return new Failures.IdempotencyConflict({ details })
    case "payload_too_large":
      return new Failures.PayloadTooLarge({ details })
    case "session_expired":
    case "authentication_required":
    case "test_context_required":
      return misconfigured(failure, now)
    default:
      return unavailable(failure)
  }
}

/** Ting's refusals of a proof: another attempt with a fresh proof may succeed. */
export const repeatableProofRefusals: ReadonlyArray<string> = [
  "invalid_proof",
  "proof_expired",
  "proof_consumed"
]

/** Fails with our failure of an upstream's; `map` gets the time of the failure in milliseconds. */
export const failWith = (map: (failure: UpstreamFailure, now: number) => Failure) =>
  Effect.catchAll((failure: UpstreamFailure) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.fail(map(failure, now)))
  )
