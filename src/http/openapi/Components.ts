/** Shared components of the document: headers and examples of failures. */
import { failureName, toEnvelope } from "../../schema/Envelope.ts"
import { type Details, Failure, type FailureCode, failureTable } from "../../schema/Failure.ts"
import {
  clientVersionMaxLength,
  clientVersionPattern,
  requestIdPattern,
  testingSecretPattern
} from "../../schema/Patterns.ts"
import { placeholders } from "./Examples.ts"

export interface Reference {
  readonly $ref: string
}

const header = (name: string, required: boolean, description: string, schema: object) => ({
  name,
  in: "header",
  required,
  description,
  schema
})

/** Request headers that several calls share. */
export const parameters = {
  RequestId: header("X-Request-Id", false, "Kept when well-formed; otherwise the service generates one.", {
    type: "string",
    pattern: requestIdPattern.source,
    examples: ["cli-7f3a1c9e"]
  }),
  Traceparent: header("traceparent", false, "Continues the caller's trace (W3C Trace Context).", {
    type: "string",
    examples: ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"]
  }),
  MusicSource: header("X-Music-Source", false, "The calling client.", {
    type: "string",
    enum: ["cli", "daemon", "web"],
    examples: ["cli"]
  }),
  MusicClientVersion: header(
    "X-Music-Client-Version",
    false,
    "The client's version. The response to a version below `min_cli` carries `X-Music-Min-Cli`; anything that is no version is ignored.",
    {
      type: "string",
      maxLength: clientVersionMaxLength,
      pattern: clientVersionPattern.source,
      examples: ["0.1.0"]
    }
  ),
  MusicTelemetry: header(
    "X-Music-Telemetry",
    false,
    "With `off` no event of this request is stored, and the identity service is asked to record nothing. `Sec-GPC: 1` and `DNT: 1` mean the same.",
    { type: "string", enum: ["on", "off"], default: "on", examples: ["off"] }
  ),
  TestingEnvironmentKey: header(
    "X-Testing-Environment-Key",
    false,
    "Selects an IAM testing plane by its test application secret. A request with this header never selects production, whatever its value.",
    {
      type: "string",
      pattern: testingSecretPattern.source,
      examples: ["ask_EXAMPLEexampleEXAMPLEexampleEXAMPLEexample1"]
    }
  )
} as const

/** Signature headers of the identity service's deliveries (identity-service.md 11.1). */
export const signatureParameters = [
  header("X-Silicon-IAM-Event-ID", true, "Equal to `event_id` in the body.", {
    type: "string",
    format: "uuid",
    examples: [placeholders.eventId]
  }),
  header("X-Silicon-IAM-Timestamp", true, "Unix seconds of this attempt, at most 300 away from now.", {
    type: "string",
    pattern: "^[1-9][0-9]*$",
    examples: [placeholders.timestamp]
  }),
  header("X-Silicon-IAM-Key-Version", true, "Version of the signing secret.", {
    type: "string",
    pattern: "^[1-9][0-9]*$",
    examples: ["1"]
  }),
  header(
    "X-Silicon-IAM-Signature",
    true,
    "HMAC-SHA256 of the timestamp, a full stop and the exact bytes of the body.",
    {
      type: "string",
      pattern: "^v1=[0-9a-f]{64}$",
      examples: [placeholders.signature]
    }
  )
]

const responseHeader = (description: string, schema: object) => ({ description, schema })

/** Response headers. */
export const headers = {
  RequestId: responseHeader("Identifies this request in the service's log.", {
    type: "string",
    examples: ["req_0f8c2a6d4b1e4c7f9a3d5e6b7c8d9e0f"]
  }),
  RetryAfter: responseHeader("Seconds to wait before a retry.", {
    type: "integer",
    minimum: 1,
    examples: [3]
  }),
  RateLimit: responseHeader(
    "The remaining quotas, and the seconds until each is full again. Absent from a refusal before the request was counted.",
    {
      type: "string",
      examples: ['"address";r=1199;t=1']
    }
  ),
  RateLimitPolicy: responseHeader(
    "The quotas that count for this call, and their windows in seconds: by default 1,200 requests a minute from one address (a /64 of IPv6) and 600 with one access token. `reports` appears when a report was refused: 10 a minute and 60 an hour from one address, and more for a signed-in reporter. `webhook_signatures` appears when a delivery without a good signature was refused: 60 a minute from one address.",
    {
      type: "string",
      examples: ['"address";q=1200;w=60']
    }
  ),
  MusicMinCli: responseHeader(
    "The oldest client version that is supported. Present only when `X-Music-Client-Version` is below it; the call is served all the same.",
    {
      type: "string",
      examples: ["0.1.0"]
    }
  ),
  WwwAuthenticate: responseHeader("The authentication scheme.", {
    type: "string",
    examples: ["Bearer"]
  }),
  CacheControl: responseHeader("Responses with credentials and errors are not cached.", {
    type: "string",
    examples: ["no-store"]
  })
} as const

export const parameterRef = (name: keyof typeof parameters): Reference => ({
  $ref: `#/components/parameters/${name}`
})
export const responseHeaderRef = (name: keyof typeof headers): Reference => ({
  $ref: `#/components/headers/${name}`
})
export const exampleRef = (code: FailureCode): Reference => ({ $ref: `#/components/examples/${code}` })

// The keys of our own constant are the codes.
const codes = Object.keys(failureTable) as ReadonlyArray<FailureCode>

/** Typical `details` of the codes that have them. */
const details: Partial<Record<FailureCode, Details>> = {
  invalid_input: { fields: [{ path: "message", problem: "is missing" }] },
  forbidden: { reason: "organization_not_granted" },
  not_found: { dependency: "ting", upstream_code: "not_found" },
  recipient_not_registered: { dependency: "ting", upstream_code: "recipient_not_registered" },
  dependency_misconfigured: { dependency: "iam", upstream_code: "invalid_client" },
  dependency_unavailable: { dependency: "iam" },
  not_ready: { checks: { database: "failed", serving: "ok", tracker: "ok", tables: "ok" } }
}

const makeExampleFailure = (code: FailureCode) => {
  const known = details[code]
  return new Failure(code, known === undefined ? {} : { details: known })
}

/** One envelope for each code. `method_not_allowed` belongs to no call. */
export const examples = Object.fromEntries(
  codes
    .filter((code) => code !== "method_not_allowed")
    .map((code) => [
      code,
      { summary: failureTable[code].message, value: toEnvelope(makeExampleFailure(code)) }
    ])
)

const codeByName = new Map<string, FailureCode>(codes.map((code) => [failureName(code), code]))

/** The failure code that a component schema describes. */
export const codeOf = ({ $ref }: Reference): FailureCode | undefined =>
  codeByName.get($ref.slice($ref.lastIndexOf("/") + 1))
