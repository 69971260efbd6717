/** What an upstream's failure means to our caller: the tables of api.md, "Errors". */
import * as Effect from "effect/Effect"
import type { Details, Failure } from "../schema/Failure.ts"
import * as Failures from "../schema/Failure.ts"
import type { Plane } from "./Plane.ts"
import { StoreUnavailable } from "./Store.ts"
import type { Refused, UpstreamFailure } from "./UpstreamFailure.ts"

export type IamOperation = "login" | "refresh" | "revoke" | "introspect" | "plane" | "prove"

const detailsOf = (refused: Refused): Details => ({
  dependency: refused.dependency,
  upstream_code: refused.code,
  ...(refused.requestId === undefined ? {} : { upstream_request_id: refused.requestId })
})

const after = (seconds: number | undefined) => (seconds === undefined ? {} : { retryAfterSeconds: seconds })

const unavailable = (failure: UpstreamFailure): Failure =>
  new Failures.DependencyUnavailable({
    details: failure._tag === "Refused" ? detailsOf(failure) : { dependency: failure.dependency },
    ...after(failure.retryAfterSeconds)
  })

/** Milliseconds of clock difference beyond which a refused signature is put down to it. */
const skewLimit = 60_000

const misconfigured = (refused: Refused, now: number): Failure => {
  const skewed = refused.answeredAt !== undefined && Math.abs(refused.answeredAt - now) > skewLimit
  return new Failures.DependencyMisconfigured({
    details: detailsOf(refused),
    ...(skewed
      ? {
          hint: "The clocks of this server and the identity service differ by more than 60 seconds: an operator must correct this server's clock."
        }
      : {})
  })
}

const deadToken = ["invalid_grant", "refresh_token_reuse", "invalid_token"]

/** IAM's answer, for one operation in one plane. `now` is in milliseconds since the epoch. */
export const fromIam =
  (operation: IamOperation, plane: Plane | "selecting", now: number) =>
  (failure: UpstreamFailure): Failure => {
    if (failure._tag !== "Refused") return unavailable(failure)
    if (failure.status === 429) return new Failures.RateLimited(after(failure.retryAfterSeconds ?? 1))
    const testing = plane === "selecting" || plane._tag === "Testing"
    switch (failure.code) {
      case "idempotency_conflict":
        return new Failures.IdempotencyConflict()
      case "idempotency_in_progress":
        return new Failures.IdempotencyInProgress(after(1))
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
    if (deadToken.includes(failure.code)) {
      if (operation === "login") return new Failures.SltRejected()
      if (operation === "refresh") return new Failures.Unauthenticated()
    }
    if (failure.status === 403) return new Failures.Forbidden({ details: detailsOf(failure) })
    if (operation === "prove" && failure.status === 404)
      return new Failures.ReconsentRequired({ details: detailsOf(failure) })
    return unavailable(failure)
  }

/** Ting's answer. None of its 401s ever becomes ours: the user's session is not Ting's to judge. */
export const fromTing = (failure: UpstreamFailure, now: number): Failure => {
  if (failure._tag !== "Refused") return unavailable(failure)
  const details = detailsOf(failure)
  if (failure.status === 429)
    return new Failures.TemporarilyRateLimited(after(failure.retryAfterSeconds ?? 1))
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

/** Another attempt with a fresh proof can turn these. */
export const proofRefusals: ReadonlyArray<string> = ["invalid_proof", "proof_expired", "proof_consumed"]

/** The database did not answer; see `loggingStore`. */
export const fromStore = (_: StoreUnavailable): Failure =>
  new Failures.DependencyUnavailable({ details: { dependency: "database" } })

/** The database's own reason goes to the log, under the request id; the caller learns that it did not answer. */
export const loggingStore = <A, R>(
  effect: Effect.Effect<A, StoreUnavailable, R>
): Effect.Effect<A, Failure, R> =>
  effect.pipe(
    Effect.tapError(({ reason }) => Effect.logError("Database unavailable", { reason })),
    Effect.mapError(fromStore)
  )

/** Milliseconds that a note is waited for: an answer that is ready is not held up by it. */
const notePatience = 2_000

/** Writes down what may be lost: that a database fails, or does not answer in time, is told to the log alone. */
export const noting =
  (lost: string) =>
  <A, R>(note: Effect.Effect<A, StoreUnavailable, R>): Effect.Effect<void, never, R> =>
    note.pipe(
      Effect.timeoutFail({
        duration: notePatience,
        onTimeout: () => new StoreUnavailable({ problem: { kind: "timed_out" } })
      }),
      Effect.catchAll(({ reason }) => Effect.logWarning(lost, reason)),
      Effect.asVoid
    )
