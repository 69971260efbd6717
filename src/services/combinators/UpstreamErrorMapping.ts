/** Maps failures of IAM and Ting to the failures that a caller sees: the tables of api.md, "Errors". */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { type Details, Failure, type FailureCode, type FailureOf } from "../../schema/Failure.ts"
import { type Plane, Production } from "../Plane.ts"
import type { Refused, UpstreamFailure } from "../UpstreamFailure.ts"

const refusalDetails = (refused: Refused): Details => ({
  dependency: refused.dependency,
  upstream_code: refused.code,
  ...(refused.requestId === undefined ? {} : { upstream_request_id: refused.requestId })
})

const retryAfter = (seconds: number | undefined) =>
  seconds === undefined ? {} : { retryAfterSeconds: seconds }

const unavailable = (failure: UpstreamFailure) =>
  new Failure("dependency_unavailable", {
    details: failure._tag === "Refused" ? refusalDetails(failure) : { dependency: failure.dependency },
    ...retryAfter(failure.retryAfterSeconds)
  })

/** Milliseconds of clock difference beyond which the hint of a refused call names the clock. */
const skewLimit = 60_000

const misconfigured = (refused: Refused, now: number) => {
  const skewed = refused.answeredAt !== undefined && Math.abs(refused.answeredAt - now) > skewLimit
  return new Failure("dependency_misconfigured", {
    details: refusalDetails(refused),
    ...(skewed
      ? {
          hint: "The clocks of this server and the identity service differ by more than 60 seconds: an operator must correct this server's clock."
        }
      : {})
  })
}

/** The session cannot be refreshed: its refresh token is no live one. */
export const refreshRefused = (): Failure<"unauthenticated"> =>
  new Failure("unauthenticated", {
    message: "The refresh token is malformed, spent, expired or revoked.",
    hint: "Log in again with a new short-lived token; this session cannot be refreshed."
  })

/** The failure of an upstream's failure; `now` is the time of the failure in milliseconds since the epoch. */
type FailureMap<F> = (failure: UpstreamFailure, now: number) => F

/** What an operation at IAM can become that has neither a key nor a token of a caller to be refused. */
type PlainFailure = FailureOf<
  | "rate_limited"
  | "forbidden"
  | "testing_secret_invalid"
  | "dependency_misconfigured"
  | "dependency_unavailable"
>

const mapPlain =
  (plane: Plane): FailureMap<PlainFailure> =>
  (failure, now) => {
    if (failure._tag !== "Refused") return unavailable(failure)
    if (failure.status === 429) return new Failure("rate_limited", retryAfter(failure.retryAfterSeconds ?? 1))
    if (failure.code === "unauthenticated" && failure.status === 401 && plane._tag === "Testing")
      return new Failure("testing_secret_invalid")
    if (failure.code === "unauthenticated" || failure.code === "invalid_client")
      return misconfigured(failure, now)
    return failure.status === 403
      ? new Failure("forbidden", { details: refusalDetails(failure) })
      : unavailable(failure)
  }

/** The failure of the code, for a refusal other than a 429, which always is about the rate. */
const byCode = <Codes extends Readonly<Record<string, (refused: Refused) => unknown>>>(
  failure: UpstreamFailure,
  codes: Codes
) => {
  if (failure._tag !== "Refused" || failure.status === 429 || !Object.hasOwn(codes, failure.code))
    return undefined
  // The record's own function returns what the record says.
  return codes[failure.code]?.(failure) as ReturnType<Codes[keyof Codes]>
}

const inFlight = {
  idempotency_conflict: () => new Failure("idempotency_conflict"),
  idempotency_in_progress: () => new Failure("idempotency_in_progress", retryAfter(1))
}
const keyed = { ...inFlight, idempotency_response_expired: () => new Failure("idempotency_response_expired") }

/** Of the caller's token. */
const tokenRefused = <F>(refuse: () => F) => ({
  invalid_grant: refuse,
  refresh_token_reuse: refuse,
  invalid_token: refuse
})

const sltRefused = tokenRefused(() => new Failure("slt_rejected"))
const sessionRefused = tokenRefused(refreshRefused)
const selectorRefused = {
  unauthenticated: () => new Failure("testing_secret_invalid"),
  invalid_client: () => new Failure("testing_secret_invalid")
}
/** No two proofs share a key, so none meets another's content. */
const subjectRefused = {
  idempotency_in_progress: keyed.idempotency_in_progress,
  idempotency_response_expired: keyed.idempotency_response_expired,
  invalid_subject_token: () => new Failure("unauthenticated")
}

const isNotFound = (failure: UpstreamFailure): failure is Refused =>
  failure._tag === "Refused" && failure.status === 404

/** The failures of IAM's operations. */
export const iamFailures = {
  introspect: mapPlain,
  login: (plane: Plane) => (failure: UpstreamFailure, now: number) =>
    byCode(failure, { ...keyed, ...sltRefused }) ?? mapPlain(plane)(failure, now),
  refresh: (plane: Plane) => (failure: UpstreamFailure, now: number) =>
    byCode(failure, { ...keyed, ...sessionRefused }) ?? mapPlain(plane)(failure, now),
  revoke: (plane: Plane) => (failure: UpstreamFailure, now: number) =>
    byCode(failure, inFlight) ?? mapPlain(plane)(failure, now),
  prove: (plane: Plane) => (failure: UpstreamFailure, now: number) =>
    byCode(failure, subjectRefused) ??
    (isNotFound(failure)
      ? new Failure("reconsent_required", { details: refusalDetails(failure) })
      : mapPlain(plane)(failure, now))
} as const

/** The failure of resolving a plane, where a refusal of our own credentials is one of the selector. */
export const planeFailure = (failure: UpstreamFailure, now: number) => {
  const refused = byCode(failure, selectorRefused)
  if (refused !== undefined) return refused
  const mapped = mapPlain(Production())(failure, now)
  return mapped.code === "dependency_misconfigured" ? unavailable(failure) : mapped
}

/** Ting's refusal under its own code. */
const refusedAs =
  <Code extends FailureCode>(code: Code) =>
  (refused: Refused) =>
    new Failure(code, { details: refusalDetails(refused) })

const atAnyCall = {
  permission_denied: refusedAs("permission_denied"),
  test_context_mismatch: refusedAs("test_context_mismatch"),
  invalid_input: refusedAs("invalid_input"),
  payload_too_large: refusedAs("payload_too_large")
}
const atSending = {
  recipient_not_registered: refusedAs("recipient_not_registered"),
  required_delivery_not_enabled: refusedAs("required_delivery_not_enabled"),
  not_found: refusedAs("not_found"),
  idempotency_conflict: refusedAs("idempotency_conflict")
}
const oursAtTing = ["session_expired", "authentication_required", "test_context_required"]

/** A 401 of Ting never becomes a 401 of ours: it concerns the proof, not the user's session. */
const mapTing = (failure: UpstreamFailure, now: number) => {
  if (failure._tag !== "Refused") return unavailable(failure)
  if (failure.status === 429)
    return new Failure("temporarily_rate_limited", retryAfter(failure.retryAfterSeconds ?? 1))
  return (
    byCode(failure, atAnyCall) ??
    (oursAtTing.includes(failure.code) ? misconfigured(failure, now) : unavailable(failure))
  )
}

/** The failures of Ting's calls. */
export const tingFailures = {
  register: mapTing,
  send: (failure: UpstreamFailure, now: number) => byCode(failure, atSending) ?? mapTing(failure, now)
} as const

/** Ting's refusals of a proof: another attempt with a fresh proof may succeed. */
export const repeatableProofRefusals: ReadonlyArray<string> = [
  "invalid_proof",
  "proof_expired",
  "proof_consumed"
]

/** Fails with our failure of an upstream's. */
export const failWith = <F>(map: FailureMap<F>) =>
  Effect.catchAll((failure: UpstreamFailure) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.fail(map(failure, now)))
  )
