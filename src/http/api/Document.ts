/**
 * Completes the generated document: what the library cannot say (response headers, shared parameters, examples) is
 * added, what it says of itself (its own error shapes, names of its filters) is taken away.
 */
import type { OpenAPISpec, OpenAPISpecOperation, OpenAPISpecParameter } from "@effect/platform/OpenApi"
import type { FailureCode } from "../../schema/Failure.ts"
import * as Components from "./Components.ts"

type Response = OpenAPISpecOperation["responses"][number]

/** Schemas of the framework's own decode error, which never leaves this service. */
const foreign = ["HttpApiDecodeError", "Issue", "PropertyKey"]

const canonicalNames: Readonly<Record<string, string>> = {
  "idempotency-key": "Idempotency-Key",
  "x-org-id": "X-Org-ID",
  origin: "Origin"
}

const isReference = (value: unknown): value is Components.Reference =>
  typeof value === "object" && value !== null && "$ref" in value && typeof value.$ref === "string"

/** The envelopes that a response can be, without the framework's. */
const referencesOf = (response: Response): ReadonlyArray<Components.Reference> => {
  const schema: unknown = response.content?.["application/json"]?.schema
  const members: ReadonlyArray<unknown> =
    typeof schema === "object" && schema !== null && "anyOf" in schema && Array.isArray(schema.anyOf)
      ? schema.anyOf
      : [schema]
  return members.filter(isReference).filter(({ $ref }) => !foreign.some((name) => $ref.endsWith(`/${name}`)))
}

const codesOf = (response: Response): ReadonlyArray<FailureCode> =>
  referencesOf(response).flatMap((reference) => Components.codeOf(reference) ?? [])

const headersOf = (status: number, codes: ReadonlyArray<FailureCode>) => ({
  "X-Request-Id": Components.answer("RequestId"),
  ...(status === 429 || status === 503 ? { "Retry-After": Components.answer("RetryAfter") } : {}),
  ...(codes.includes("rate_limited")
    ? {
        RateLimit: Components.answer("RateLimit"),
        "RateLimit-Policy": Components.answer("RateLimitPolicy")
      }
    : {}),
  ...(codes.includes("unauthenticated") ? { "WWW-Authenticate": Components.answer("WwwAuthenticate") } : {}),
  ...(status >= 400 ? { "Cache-Control": Components.answer("CacheControl") } : {})
})

const failureResponse = (status: number, response: Response) => {
  const codes = codesOf(response)
  const references = referencesOf(response)
  return {
    description: `One of: ${codes.map((code) => `\`${code}\``).join(", ")}`,
    headers: headersOf(status, codes),
    content: {
      "application/json": {
        schema: references.length === 1 ? references[0] : { anyOf: references },
        examples: Object.fromEntries(codes.map((code) => [code, Components.example(code)]))
      }
    }
  }
}

const completedResponses = ({ responses }: OpenAPISpecOperation) =>
  Object.fromEntries(
    Object.entries(responses).map(([key, response]) => {
      const status = Number(key)
      return [
        key,
        status >= 400 ? failureResponse(status, response) : { ...response, headers: headersOf(status, []) }
      ]
    })
  )

const completedParameter = (parameter: OpenAPISpecParameter) => ({
  ...parameter,
  name: canonicalNames[parameter.name] ?? parameter.name
})

const gives = ({ responses }: OpenAPISpecOperation, code: FailureCode): boolean =>
  Object.values(responses).some((response) => codesOf(response).includes(code))

const sharedParameters = (path: string, operation: OpenAPISpecOperation) => [
  ...(gives(operation, "testing_secret_invalid") ? [Components.parameter("TestingEnvironmentKey")] : []),
  ...(path.startsWith("/api/v1/")
    ? [Components.parameter("MusicSource"), Components.parameter("MusicTelemetry")]
    : []),
  Components.parameter("RequestId"),
  Components.parameter("Traceparent")
]

const completedOperation = (path: string, operation: OpenAPISpecOperation) => {
  const organisation = operation.parameters.find(({ name }) => name === "x-org-id")
  return {
    ...operation,
    parameters: [
      ...operation.parameters.map(completedParameter),
      ...(gives(operation, "webhook_signature_invalid") ? Components.signatureParameters : []),
      ...sharedParameters(path, operation)
    ],
    // Where the organisation may be left out, so may the bearer.
    security: organisation?.required === false ? [...operation.security, {}] : operation.security,
    responses: completedResponses(operation)
  }
}

/** Titles like `maxLength(64)`, marks of schemas that take anything, and empty lists say nothing to a reader. */
const tidied = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(tidied)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(
        ([name, member]) =>
          !(
            name === "title" &&
            typeof member === "string" &&
            (/\(.*\)$/.test(member) || member === "unknown")
          ) &&
          !(name === "$id" && typeof member === "string" && member.startsWith("/schemas/")) &&
          !(name === "required" && Array.isArray(member) && member.length === 0)
      )
      .map(([name, member]) => [name, tidied(member)])
  )
}

/** The document as it is published. */
export const completed = (document: Record<string, unknown>): Record<string, unknown> => {
  // The library hands its own document over untyped.
  const spec = document as unknown as OpenAPISpec
  const paths = Object.entries(spec.paths).map(([path, item]) => [
    path,
    Object.fromEntries(
      Object.entries(item).map(([method, operation]) => [method, completedOperation(path, operation)])
    )
  ])
  const schemas = Object.entries(spec.components.schemas).filter(([name]) => !foreign.includes(name))
  return {
    ...spec,
    paths: tidied(Object.fromEntries(paths)),
    components: {
      ...spec.components,
      schemas: tidied(Object.fromEntries(schemas)),
      parameters: Components.parameters,
      headers: Components.headers,
      examples: Components.examples
    }
  }
}
