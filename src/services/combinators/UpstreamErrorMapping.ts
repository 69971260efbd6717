/** Maps failures of IAM and Ting to the failures that a caller sees: the tables of api.md, "Errors". */
import * as Record from "effect/Record"
import { type Details, Failure, type FailureCode, type FailureOf } from "../../schema/Failure.ts"
import { deadTokenCodes } from "../Iam.ts"
import type { Plane } from "../Plane.ts"
import type { Refused, UpstreamFailure } from "../UpstreamFailure.ts"

/** The failure of an upstream's failure. */
type FailureMap<F> = (failure: UpstreamFailure) => F

const detailsOf = (failure: UpstreamFailure): Details =>
  failure._tag === "Refused"
    ? {
        dependency: failure.dependency,
        upstream_code: failure.code,
        ...(failure.requestId === undefined ? {} : { upstream_request_id: failure.requestId })
      }
    : { dependency: failure.dependency }

/** Under a code of ours, with the upstream's own beside it. */
const named = <Code extends FailureCode>(code: Code, refused: Refused) =>
  new Failure(code, { details: detailsOf(refused) })

const unavailable = (failure: UpstreamFailure) =>
  new Failure("dependency_unavailable", {
    details: detailsOf(failure),
    ...(failure.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: failure.retryAfterSeconds })
  })

const limited = <Code extends FailureCode>(code: Code, { retryAfterSeconds }: Refused) =>
  new Failure(code, { retryAfterSeconds: retryAfterSeconds ?? 1 })

/** What any operation at IAM can become. */
const mapAny = (
  failure: UpstreamFailure
): FailureOf<"rate_limited" | "forbidden" | "dependency_unavailable"> => {
  if (failure._tag !== "Refused") return unavailable(failure)
  if (failure.status === 429) return limited("rate_limited", failure)
  return failure.status === 403 ? named("forbidden", failure) : unavailable(failure)
}

/** Of an operation that has neither a key nor a token of a caller to be refused. */
const mapPlain =
  (
    plane: Plane
  ): FailureMap<
    ReturnType<typeof mapAny> | FailureOf<"testing_secret_invalid" | "dependency_misconfigured">
  > =>
  (failure) => {
    if (failure._tag !== "Refused" || failure.status === 429) return mapAny(failure)
    const { code } = failure
    if (code === "unauthenticated" && plane._tag === "Testing") return new Failure("testing_secret_invalid")
    const isOurs = code === "unauthenticated" || code === "invalid_client"
    return isOurs ? named("dependency_misconfigured", failure) : mapAny(failure)
  }

/**
 * Our code of the upstream's, for a refusal other than a 429, which always is about the rate; everything else by `otherwise`. Ting's codes
 * are its own words about a ting, so the failure names them.
 */
const byCode =
  <Code extends FailureCode, F>(codes: Readonly<Record<string, Code>>, otherwise: FailureMap<F>) =>
  (failure: UpstreamFailure): F | FailureOf<Code> => {
    if (failure._tag !== "Refused" || failure.status === 429) return otherwise(failure)
    const code = Object.hasOwn(codes, failure.code) ? codes[failure.code] : undefined
    if (code === undefined) return otherwise(failure)
    const isInProgress = code === "idempotency_in_progress"
    const made = new Failure<FailureCode>(code, {
      ...(failure.dependency === "ting" ? { details: detailsOf(failure) } : {}),
      ...(isInProgress ? { retryAfterSeconds: 1 } : {})
    })
    // A union distributes over its codes; the class does not.
    return made as FailureOf<Code>
  }

/** Under each of the codes that it keeps. */
const kept = <Code extends FailureCode>(...codes: ReadonlyArray<Code>) =>
  Record.fromIterableWith(codes, (code) => [code, code])

/** Of the caller's token. */
const tokenRefused = <Code extends FailureCode>(code: Code) =>
  Record.fromIterableWith(deadTokenCodes, (refusal) => [refusal, code])

const inFlight = kept("idempotency_conflict", "idempotency_in_progress")
const exchanged = { ...inFlight, ...kept("idempotency_response_expired") }
/** Of a proof: no two share a key, so none meets another's content. */
const subjectRefused = {
  ...kept("idempotency_in_progress", "idempotency_response_expired"),
  invalid_subject_token: "unauthenticated"
} as const

/** The failures of IAM's operations. */
export const iamFailures = {
  introspect: mapPlain,
  login: (plane: Plane) => byCode({ ...exchanged, ...tokenRefused("slt_rejected") }, mapPlain(plane)),
  refresh: (plane: Plane) => byCode({ ...exchanged, ...tokenRefused("unauthenticated") }, mapPlain(plane)),
  revoke: (plane: Plane) => byCode(inFlight, mapPlain(plane)),
  prove: (plane: Plane) =>
    byCode(subjectRefused, (failure) =>
      failure._tag === "Refused" && failure.status === 404
        ? named("reconsent_required", failure)
        : mapPlain(plane)(failure)
    )
} as const

/** The failure of resolving a plane, where a refusal of our own credentials is one of the selector. */
export const planeFailure = byCode(
  { unauthenticated: "testing_secret_invalid", invalid_client: "testing_secret_invalid" },
  mapAny
)

const oursAtTing = ["session_expired", "authentication_required", "test_context_required"]

/** A 401 of Ting never becomes a 401 of ours: it concerns the proof, not the user's session. */
const mapTing = byCode(
  kept("permission_denied", "test_context_mismatch", "invalid_input", "payload_too_large"),
  (failure) => {
    if (failure._tag !== "Refused") return unavailable(failure)
    if (failure.status === 429) return limited("temporarily_rate_limited", failure)
    return oursAtTing.includes(failure.code)
      ? named("dependency_misconfigured", failure)
      : unavailable(failure)
  }
)

/** The failures of Ting's calls. */
export const tingFailures = {
  register: mapTing,
  send: byCode(
    kept("recipient_not_registered", "required_delivery_not_enabled", "not_found", "idempotency_conflict"),
    mapTing
  )
} as const

/** Ting's refusals of a proof: another attempt with a fresh proof may succeed. */
export const repeatableProofRefusals: ReadonlyArray<string> = [
  "invalid_proof",
  "proof_expired",
  "proof_consumed"
]
