/** What the endpoints of the contract have in common. */
import * as Context from "effect/Context"
import * as Schema from "effect/Schema"
import { Envelope } from "../../schema/Envelope.ts"
import { type FailureCode, failureCodes, type FailureOf } from "../../schema/Failure.ts"

/** The paths of the calls that belong to this version of the API; probes, documents and the webhook have others. */
export const apiPrefix = "/api/v1/"

/** What the server and the document read of an endpoint beside its schemas. */
export class Traits extends Context.Reference<Traits>()("music/http/Traits", {
  defaultValue: (): {
    /** Largest request body in bytes; absent for a call without a body. */
    readonly bodyBound?: number
    /** An empty body means `{}`: for a call whose body has no fields. */
    readonly bodyOptional?: boolean
    /** A health check of the process: always served and never rate limited. */
    readonly probe?: boolean
  } => ({})
}) {}

// One schema for each code: a second one of the same code would appear twice in every error union.
const envelopes = new Map(failureCodes.map((code) => [code, Envelope(code)]))

/** The failures that a call declares, by code: classes in programs, and envelopes on the wire, which `Answers` makes. */
export const failures = <const Code extends FailureCode>(...codes: ReadonlyArray<Code>) =>
  Schema.Union(...codes.flatMap((code) => envelopes.get(code) ?? [])) as unknown as Schema.Schema<
    FailureOf<Code>,
    unknown
  >

/** Failures of every call: a malformed request, and our own defects. */
export const always = ["invalid_input", "internal"] as const

/** Failures of every call but the probes. */
export const admitted = [...always, "overloaded", "shutting_down", "rate_limited"] as const

/** Failures of a call with a body. */
export const withBody = [
  ...admitted,
  "request_timeout",
  "payload_too_large",
  "unsupported_media_type"
] as const

/** Failures of an idempotency key that IAM has seen before. */
export const replay = [
  "idempotency_conflict",
  "idempotency_in_progress",
  "idempotency_response_expired"
] as const
