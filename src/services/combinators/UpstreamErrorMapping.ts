/** Maps failures of IAM and Ting to the failures that a caller sees: the tables of api.md, "Errors". */
import { Failure, type FailureCode, type FailureOf } from "../../schema/Failure.ts"
import type { DeadTokenCode } from "../Iam.ts"
import type { Plane } from "../Plane.ts"
import type { UpstreamFailure } from "../UpstreamFailure.ts"

const detailsOf = (failure: UpstreamFailure) => ({
  dependency: failure.dependency,
  ...(failure._tag === "Refused" ? { upstream_code: failure.code } : {}),
  ...(failure._tag === "Refused" && failure.requestId !== undefined
    ? { upstream_request_id: failure.requestId }
    : {})
})

/**
 * Our code of the upstream's own code, or else of its status; a 429 is about the rate, whatever its code. Everything else is
 * `dependency_unavailable`. The details have the upstream's own words.
 */
const mapBy =
  <Code extends FailureCode>(codes: Readonly<Record<string, Code>>) =>
  (failure: UpstreamFailure): FailureOf<Code | "dependency_unavailable"> => {
    const { code, status } = failure._tag === "Refused" ? failure : { code: "", status: 0 }
    const words = status === 429 ? ["429"] : [code, String(status)]
    const known = words.find((word) => Object.hasOwn(codes, word))
    const ours = known === undefined ? undefined : codes[known]
    const made = new Failure<FailureCode>(ours ?? "dependency_unavailable", {
      details: detailsOf(failure),
      ...(failure.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: failure.retryAfterSeconds })
    })
    // A union distributes over its codes; the class does not.
    return made as FailureOf<Code | "dependency_unavailable">
  }

/** The upstream's codes that are ours, too. */
const kept = <Code extends FailureCode>(...codes: ReadonlyArray<Code>) =>
  // The keys are the codes.
  Object.fromEntries(codes.map((code) => [code, code])) as { readonly [Key in Code]: Key }

/** Of the token that was presented. */
const tokenRefused = <const Code extends FailureCode>(code: Code) =>
  ({ invalid_grant: code, refresh_token_reuse: code, invalid_token: code }) satisfies Record<
    DeadTokenCode,
    Code
  >

/** Of any operation at IAM in a testing plane, where a refusal of our credentials is one of the selector. */
const inTesting = {
  403: "forbidden",
  429: "rate_limited",
  invalid_client: "testing_secret_invalid",
  unauthenticated: "testing_secret_invalid"
} as const
const misconfig = "dependency_misconfigured" as const
const atIam = ({ _tag }: Plane) =>
  _tag === "Testing" ? inTesting : { ...inTesting, invalid_client: misconfig, unauthenticated: misconfig }

const inFlight = kept("idempotency_conflict", "idempotency_in_progress")
const exchanged = { ...inFlight, ...kept("idempotency_response_expired") }
/** Of a proof. No two share a key, so none has a conflict of keys. A stale signature is `invalid_client`, too. */
const proved = {
  invalid_client: "dependency_misconfigured",
  404: "reconsent_required",
  invalid_subject_token: "unauthenticated"
} as const

/** The failures of IAM's operations. */
export const iamFailures = {
  introspect: (plane: Plane) => mapBy(atIam(plane)),
  login: (plane: Plane) => mapBy({ ...atIam(plane), ...exchanged, ...tokenRefused("slt_rejected") }),
  refresh: (plane: Plane) => mapBy({ ...atIam(plane), ...exchanged, ...tokenRefused("unauthenticated") }),
  revoke: (plane: Plane) => mapBy({ ...atIam(plane), ...inFlight }),
  prove: (plane: Plane) => mapBy({ ...atIam(plane), ...proved })
} as const

/** The failure of resolving a plane. */
export const planeFailure = mapBy(inTesting)

/** A 401 of Ting never becomes a 401 of ours: it concerns the proof, not the user's session. */
const atTing = {
  ...kept("permission_denied", "test_context_mismatch", "invalid_input", "payload_too_large"),
  429: "temporarily_rate_limited",
  session_expired: "dependency_misconfigured",
  authentication_required: "dependency_misconfigured",
  test_context_required: "dependency_misconfigured"
} as const
const sent = {
  ...kept("recipient_not_registered", "required_delivery_not_enabled"),
  ...kept("not_found", "idempotency_conflict")
}

/** The failures of Ting's calls. */
export const tingFailures = { register: mapBy(atTing), send: mapBy({ ...atTing, ...sent }) } as const
