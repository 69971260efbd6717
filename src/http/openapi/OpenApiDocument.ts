/**
 * Completes the OpenAPI 3.1 document that the library generates from the contract. Adds response headers, shared parameters, bounds,
 * examples and samples; removes the library's own error shapes and the names of its filters.
 */
import * as HttpApi from "@effect/platform/HttpApi"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type { OpenAPISpec, OpenAPISpecOperation, OpenAPISpecParameter } from "@effect/platform/OpenApi"
import * as Context from "effect/Context"
import type { FailureCode } from "../../schema/Failure.ts"
import { apiPrefix } from "../api/ApiPrefix.ts"
import { codeSamples } from "./ClientSamples.ts"
import * as Components from "./Components.ts"
import { exampleOf } from "./Examples.ts"
import { BodyBound, BodyOptional, NoStore } from "../api/EndpointAnnotations.ts"
import { collectReferences, openExcept, tidy } from "./JsonSchemas.ts"

type Response = OpenAPISpecOperation["responses"][number]

/** Schemas of the library's decode error, which this service never sends. */
const foreign = ["HttpApiDecodeError", "Issue", "PropertyKey"]

const canonicalNames: Readonly<Record<string, string>> = {
  "idempotency-key": "Idempotency-Key",
  "x-org-id": "X-Org-ID",
  origin: "Origin"
}

interface EndpointFacts {
  readonly bodyBound: number
  readonly bodyOptional: boolean
  readonly noStore: boolean
}

const noFacts: EndpointFacts = { bodyBound: 0, bodyOptional: false, noStore: false }

/** By operation id. */
const readEndpointFacts = <Id extends string, Groups extends HttpApiGroup.HttpApiGroup.Any, E, R>(
  api: HttpApi.HttpApi<Id, Groups, E, R>
): ReadonlyMap<string, EndpointFacts> => {
  const facts = new Map<string, EndpointFacts>()
  HttpApi.reflect(api, {
    onGroup: () => {},
    onEndpoint: ({ group, endpoint }) => {
      facts.set(`${group.identifier}.${endpoint.name}`, {
        bodyBound: Context.get(endpoint.annotations, BodyBound),
        bodyOptional: Context.get(endpoint.annotations, BodyOptional),
        noStore: Context.get(endpoint.annotations, NoStore)
      })
    }
  })
  return facts
}

const isReference = (value: unknown): value is Components.Reference =>
  typeof value === "object" && value !== null && "$ref" in value && typeof value.$ref === "string"

/** The envelopes of a response, without the library's own error. */
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

const declaresFailure = ({ responses }: OpenAPISpecOperation, code: FailureCode): boolean =>
  Object.values(responses).some((response) => codesOf(response).includes(code))

const quotaHeaders = {
  RateLimit: Components.responseHeaderRef("RateLimit"),
  "RateLimit-Policy": Components.responseHeaderRef("RateLimitPolicy")
}
const noStoreHeader = { "Cache-Control": Components.responseHeaderRef("CacheControl") }

type HeaderReferences = Readonly<Record<string, Components.Reference>>

/**
 * Headers of every response of a call. A request is counted before most of its refusals, so they name the quotas, too. The webhook,
 * outside of the API's paths, counts its forged deliveries only.
 */
const sharedHeaders = (path: string, operation: OpenAPISpecOperation): HeaderReferences => ({
  "X-Request-Id": Components.responseHeaderRef("RequestId"),
  ...(path.startsWith(apiPrefix)
    ? {
        "X-Music-Min-Cli": Components.responseHeaderRef("MusicMinCli"),
        ...(declaresFailure(operation, "rate_limited") ? quotaHeaders : {})
      }
    : {})
})

const failureHeaders = (status: number, codes: ReadonlyArray<FailureCode>): HeaderReferences => ({
  ...(status === 429 ? quotaHeaders : {}),
  ...(status === 429 || status === 503 || codes.includes("idempotency_in_progress")
    ? { "Retry-After": Components.responseHeaderRef("RetryAfter") }
    : {}),
  ...(codes.includes("unauthenticated")
    ? { "WWW-Authenticate": Components.responseHeaderRef("WwwAuthenticate") }
    : {}),
  ...noStoreHeader
})

const failureResponse = (status: number, response: Response, shared: HeaderReferences) => {
  const codes = codesOf(response)
  const references = referencesOf(response)
  return {
    description: `One of: ${codes.map((code) => `\`${code}\``).join(", ")}`,
    headers: { ...shared, ...failureHeaders(status, codes) },
    content: {
      "application/json": {
        schema: references.length === 1 ? references[0] : { anyOf: references },
        examples: Object.fromEntries(codes.map((code) => [code, Components.exampleRef(code)]))
      }
    }
  }
}

const successExample = (value: unknown) => ({ success: { summary: "Typical result", value } })

const successResponse = (
  operation: OpenAPISpecOperation,
  response: Response,
  { noStore }: EndpointFacts,
  shared: HeaderReferences
) => {
  const example = exampleOf(operation.operationId)
  const json = response.content?.["application/json"]
  return {
    ...response,
    description: example?.returns ?? response.description,
    headers: {
      ...shared,
      ...(noStore ? noStoreHeader : {})
    },
    ...(json === undefined
      ? {}
      : { content: { "application/json": { ...json, examples: successExample(example?.response) } } })
  }
}

const completeResponses = (path: string, operation: OpenAPISpecOperation, facts: EndpointFacts) => {
  const shared = sharedHeaders(path, operation)
  return Object.fromEntries(
    Object.entries(operation.responses).map(([key, response]) => {
      const status = Number(key)
      return [
        key,
        status >= 400
          ? failureResponse(status, response, shared)
          : successResponse(operation, response, facts, shared)
      ]
    })
  )
}

const completeBody = (
  { operationId, requestBody }: OpenAPISpecOperation,
  { bodyBound, bodyOptional }: EndpointFacts
) => {
  const json = requestBody?.content["application/json"]
  if (requestBody === undefined || json === undefined) return {}
  return {
    requestBody: {
      ...requestBody,
      required: !bodyOptional,
      description: `Strict JSON, at most ${bodyBound.toLocaleString("en")} bytes.`,
      // OpenAPI has no keyword for the size of a body.
      "x-max-bytes": bodyBound,
      content: { "application/json": { ...json, examples: successExample(exampleOf(operationId)?.request) } }
    }
  }
}

const completeParameter = (parameter: OpenAPISpecParameter) => ({
  ...parameter,
  name: canonicalNames[parameter.name] ?? parameter.name
})

const sharedParameters = (path: string, operation: OpenAPISpecOperation) => [
  ...(declaresFailure(operation, "testing_secret_invalid")
    ? [Components.parameterRef("TestingEnvironmentKey")]
    : []),
  ...(path.startsWith(apiPrefix)
    ? [
        Components.parameterRef("MusicSource"),
        Components.parameterRef("MusicClientVersion"),
        Components.parameterRef("MusicTelemetry")
      ]
    : []),
  Components.parameterRef("RequestId"),
  Components.parameterRef("Traceparent")
]

const completeOperation = (path: string, operation: OpenAPISpecOperation, facts: EndpointFacts) => {
  const organisation = operation.parameters.find(({ name }) => name === "x-org-id")
  return {
    ...operation,
    parameters: [
      ...operation.parameters.map(completeParameter),
      ...(declaresFailure(operation, "webhook_signature_invalid") ? Components.signatureParameters : []),
      ...sharedParameters(path, operation)
    ],
    // A bearer is optional exactly where the organisation is.
    security: organisation?.required === false ? [...operation.security, {}] : operation.security,
    ...completeBody(operation, facts),
    ...codeSamples(operation.operationId),
    responses: completeResponses(path, operation, facts)
  }
}

const requestBodies = (spec: OpenAPISpec): ReadonlyArray<unknown> =>
  Object.values(spec.paths).flatMap((item) =>
    Object.values(item).flatMap(({ requestBody }) => requestBody ?? [])
  )

/** The published document of an API, from the one that the library generates. */
export const completeDocument = <Id extends string, Groups extends HttpApiGroup.HttpApiGroup.Any, E, R>(
  api: HttpApi.HttpApi<Id, Groups, E, R>
) => {
  const facts = readEndpointFacts(api)
  return (generated: object): object => {
    // The library types its own document as a record of anything.
    const spec = generated as OpenAPISpec
    const paths = Object.entries(spec.paths).map(([path, item]) => [
      path,
      Object.fromEntries(
        Object.entries(item).map(([method, operation]) => [
          method,
          completeOperation(path, operation, facts.get(operation.operationId) ?? noFacts)
        ])
      )
    ])
    const schemas = Object.fromEntries(
      Object.entries(spec.components.schemas).filter(([name]) => !foreign.includes(name))
    )
    return {
      ...spec,
      paths: tidy(Object.fromEntries(paths)),
      components: {
        ...spec.components,
        schemas: openExcept(tidy(schemas), collectReferences(requestBodies(spec), schemas)),
        parameters: Components.parameters,
        headers: Components.headers,
        examples: Components.examples
      }
    }
  }
}
