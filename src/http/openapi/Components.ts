/** Headers and examples of failures, each said once. */
import * as Record from "effect/Record"
import { toEnvelope } from "../../schema/Envelope.ts"
import { type Details, Failure, type FailureCode, failureCodes, failureTable } from "../../schema/Failure.ts"
import {
  clientVersionPattern,
  idempotencyKeyPattern,
  organisationPattern,
  requestIdPattern,
  testingSecretPattern
} from "../../schema/Patterns.ts"
import { placeholders } from "./Examples.ts"

/** A text, its example, and what else its schema says. */
const text = (description: string, example: string | number, schema: object = {}) => ({
  description,
  schema: { type: "string", ...schema, examples: [example] }
})

const toParameters = <Name extends string>(
  headers: Record<Name, ReturnType<typeof text>>,
  required: boolean
) =>
  Record.map(headers, ({ description, schema }, name) => ({
    name,
    in: "header",
    required,
    description,
    schema
  }))

/** Request headers that some calls require; those of the identity service's deliveries are of identity-service.md 11.1. */
export const required = toParameters(
  {
    "Idempotency-Key": text(
      "16 to 255 visible ASCII characters. A retry with the same key replays the result instead of doing the work twice.",
      placeholders.idempotencyKey,
      { minLength: 16, maxLength: 255, pattern: idempotencyKeyPattern.source }
    ),
    "X-Org-ID": text(
      "Handle of the organisation that the bearer acts in; sent together with `Authorization`.",
      "acme",
      { minLength: 3, maxLength: 50, pattern: organisationPattern.source }
    ),
    // Telemetry, which browsers send with an origin.
    Origin: text(
      "Sent by browsers; when present, it must be a configured web origin.",
      "https://music.example"
    ),
    "X-Silicon-IAM-Event-ID": text("Equal to `event_id` in the body.", placeholders.eventId, {
      format: "uuid"
    }),
    "X-Silicon-IAM-Timestamp": text(
      "Unix seconds of this attempt, at most 300 away from now.",
      placeholders.timestamp,
      { pattern: "^[1-9][0-9]*$" }
    ),
    "X-Silicon-IAM-Key-Version": text("Version of the signing secret.", "1", { pattern: "^[1-9][0-9]*$" }),
    "X-Silicon-IAM-Signature": text(
      "HMAC-SHA256 of the timestamp, a full stop and the exact bytes of the body.",
      placeholders.signature,
      { pattern: "^v1=[0-9a-f]{64}$" }
    )
  },
  true
)

/** Request headers that many calls share. */
export const parameters = toParameters(
  {
    "X-Request-Id": text("Kept when well-formed; otherwise the service generates one.", "cli-7f3a1c9e", {
      pattern: requestIdPattern.source
    }),
    traceparent: text(
      "Continues the caller's trace (W3C Trace Context).",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    ),
    "X-Music-Source": text("The calling client.", "cli", { enum: ["cli", "daemon", "web"] }),
    "X-Music-Client-Version": text(
      "The client's version. The response to a version below `min_cli` carries `X-Music-Min-Cli`; anything that is no version is ignored.",
      "0.1.0",
      { pattern: clientVersionPattern.source }
    ),
    "X-Music-Telemetry": text(
      "With `off` no event of this request is stored, and the identity service is asked to record nothing. `Sec-GPC: 1` and `DNT: 1` mean the same.",
      "off",
      { enum: ["on", "off"], default: "on" }
    ),
    "X-Testing-Environment-Key": text(
      "Selects an IAM testing plane by its test application secret. A request with this header never selects production, whatever its value.",
      "ask_EXAMPLEexampleEXAMPLEexampleEXAMPLEexample1",
      { pattern: testingSecretPattern.source }
    )
  },
  false
)

/** Response headers. */
export const headers = {
  "X-Request-Id": text(
    "Identifies this request in the service's log.",
    "req_0f8c2a6d4b1e4c7f9a3d5e6b7c8d9e0f"
  ),
  "Retry-After": text("Seconds to wait before a retry.", 3, { type: "integer", minimum: 1 }),
  RateLimit: text(
    "The remaining quotas, and the seconds until each is full again. Absent from a refusal before the request was counted.",
    '"address";r=1199;t=1'
  ),
  "RateLimit-Policy": text(
    "The quotas that count for this call, and their windows in seconds: by default 1,200 requests a minute from one address (a /64 of IPv6) and 600 with one access token. `reports` appears when a report was refused: 10 a minute and 60 an hour from one address, and more for a signed-in reporter. `webhook_signatures` appears when a delivery without a good signature was refused: 60 a minute from one address.",
    '"address";q=1200;w=60'
  ),
  "X-Music-Min-Cli": text(
    "The oldest client version that is supported. Present only when `X-Music-Client-Version` is below it; the call is served all the same.",
    "0.1.0"
  ),
  "WWW-Authenticate": text("The authentication scheme.", "Bearer"),
  "Cache-Control": text("No response is cached.", "no-store")
} as const
export type HeaderNames = ReadonlyArray<keyof typeof headers>

/** The `headers` of a response, by reference. */
export const headerRefs = (names: HeaderNames) =>
  Record.fromIterableWith(names, (name) => [name, { $ref: `#/components/headers/${name}` }])

export const parameterRefs = (...names: ReadonlyArray<keyof typeof parameters>) =>
  names.map((name) => ({ $ref: `#/components/parameters/${name}` }))

/** Typical details of some codes. */
const occurrences: Partial<Record<FailureCode, { readonly details: Details }>> = {
  invalid_input: { details: { fields: [{ path: "message", problem: "is missing" }] } },
  forbidden: { details: { reason: "organization_not_granted" } },
  dependency_misconfigured: { details: { dependency: "iam", upstream_code: "invalid_client" } },
  dependency_unavailable: { details: { dependency: "iam" } },
  not_ready: { details: { checks: { database: "failed", serving: "ok", tracker: "ok", tables: "ok" } } }
}

/** One envelope for each code. `method_not_allowed` belongs to no call. */
export const examples = Record.fromIterableWith(
  failureCodes.filter((code) => code !== "method_not_allowed"),
  (code) => [
    code,
    { summary: failureTable[code].message, value: toEnvelope(new Failure(code, occurrences[code])) }
  ]
)
