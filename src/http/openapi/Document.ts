/**
 * Completes the OpenAPI 3.1 document that the library generates from the contract. Adds headers, bounds, examples and samples; removes the
 * library's own error shapes and the texts that it makes of filters.
 */
import * as HttpApi from "@effect/platform/HttpApi"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type { OpenAPISpec, OpenAPISpecOperation } from "@effect/platform/OpenApi"
import * as Context from "effect/Context"
import * as Record from "effect/Record"
import { failureName } from "../../schema/Envelope.ts"
import { type FailureCode, failureCodes } from "../../schema/Failure.ts"
import { apiPrefix, Traits } from "../api/Endpoint.ts"
import { codeSamples } from "./ClientSamples.ts"
import * as Components from "./Components.ts"
import { exampleOf } from "./Examples.ts"

type Response = OpenAPISpecOperation["responses"][number]

/** What the library says of filters, such as `maxLength(64)` and `a string at most 500 character(s) long`, and empty lists. */
const isGenerated = (name: string, member: unknown): boolean =>
  typeof member === "string"
    ? name === "title" || name === "$id" || (name === "description" && member.includes("(s)"))
    : (name === "required" || name === "properties") && Object.keys(Object(member)).length === 0

/** A copy without some members, at every depth. */
const without = <A>(value: A, isRemoved: (name: string, member: unknown) => boolean): A =>
  JSON.parse(JSON.stringify(value), (name, member) => (isRemoved(name, member) ? undefined : member))

/** Names of the schemas to which a part of the document refers. */
const schemasIn = (part: unknown): ReadonlyArray<string> =>
  [...JSON.stringify(part).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name = ""]) => name)

/** The failures to which a part of the document refers, in the order of their table. */
const failuresIn = (part: unknown): ReadonlyArray<FailureCode> => {
  const names = schemasIn(part)
  return failureCodes.filter((code) => names.includes(failureName(code)))
}

const quotaHeaders = ["RateLimit", "RateLimit-Policy"] as const

const failureResponse = (status: string, response: Response, shared: Components.HeaderNames) => {
  const codes = failuresIn(response)
  const schemas = codes.map((code) => ({ $ref: `#/components/schemas/${failureName(code)}` }))
  const waits = status === "429" || status === "503" || codes.includes("idempotency_in_progress")
  return {
    description: `One of: ${codes.map((code) => `\`${code}\``).join(", ")}`,
    headers: Components.headerRefs([
      ...shared,
      ...(status === "429" ? quotaHeaders : []),
      ...(waits ? (["Retry-After"] as const) : []),
      ...(codes.includes("unauthenticated") ? (["WWW-Authenticate"] as const) : [])
    ]),
    content: {
      "application/json": {
        schema: schemas.length === 1 ? schemas[0] : { anyOf: schemas },
        examples: Record.fromIterableWith(codes, (code) => [code, { $ref: `#/components/examples/${code}` }])
      }
    }
  }
}

const exampleContent = (content: Response["content"], value: unknown) => {
  const examples = { success: { summary: "Typical result", value } }
  return content && { content: { "application/json": { ...content["application/json"], examples } } }
}

const completeOperation = (
  path: string,
  operation: OpenAPISpecOperation,
  { bodyBound = 0, bodyOptional = false }: Context.Tag.Service<typeof Traits>
) => {
  const { operationId, requestBody, responses, security } = operation
  const codes = failuresIn(responses)
  const isCall = path.startsWith(apiPrefix)
  const example = exampleOf(operationId)
  // A request is counted before most of its refusals, so they name the quotas, too; the webhook counts its forged deliveries only.
  const shared: Components.HeaderNames = [
    ...(["X-Request-Id", "Cache-Control"] as const),
    ...(isCall ? (["X-Music-Min-Cli"] as const) : []),
    ...(isCall && codes.includes("rate_limited") ? quotaHeaders : [])
  ]
  const { parameterRefs, required } = Components
  const { "Idempotency-Key": key, Origin: origin, "X-Org-ID": organisation, ...signature } = required
  return {
    ...operation,
    parameters: [
      ...(codes.includes("idempotency_key_required") ? [key] : []),
      // Goes with a bearer, which is optional where none is an alternative.
      ...security.slice(0, 1).map(() => ({ ...organisation, required: security.length === 1 })),
      ...(codes.includes("origin_not_allowed") ? [{ ...origin, required: false }] : []),
      ...(codes.includes("webhook_signature_invalid") ? Object.values(signature) : []),
      ...(codes.includes("testing_secret_invalid") ? parameterRefs("X-Testing-Environment-Key") : []),
      ...(isCall ? parameterRefs("X-Music-Source", "X-Music-Client-Version", "X-Music-Telemetry") : []),
      ...parameterRefs("X-Request-Id", "traceparent")
    ],
    ...(requestBody === undefined
      ? {}
      : {
          requestBody: {
            ...requestBody,
            required: !bodyOptional,
            description: `Strict JSON, at most ${bodyBound.toLocaleString("en")} bytes.`,
            // OpenAPI has no keyword for the size of a body.
            "x-max-bytes": bodyBound,
            ...exampleContent(requestBody.content, example?.request)
          }
        }),
    ...codeSamples(operationId),
    responses: Record.map(responses as Record<string, Response>, (response, status) =>
      Number(status) >= 400
        ? failureResponse(status, response, shared)
        : {
            ...response,
            headers: Components.headerRefs(shared),
            ...exampleContent(response.content, example?.response)
          }
    )
  }
}

/** The published document of an API, from the one that the library generates. */
export const completeDocument = <Id extends string, Groups extends HttpApiGroup.HttpApiGroup.Any, E, R>(
  api: HttpApi.HttpApi<Id, Groups, E, R>
) => {
  const traits = new Map<string, Context.Tag.Service<typeof Traits>>()
  HttpApi.reflect(api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint: { annotations, name }, group: { identifier } }) =>
      traits.set(`${identifier}.${name}`, Context.get(annotations, Traits))
  })
  return (generated: object): object => {
    // The library types its own document as a record of anything.
    const spec = generated as OpenAPISpec
    const { HttpApiDecodeError, Issue, PropertyKey, ...schemas } = without(
      spec.components.schemas,
      isGenerated
    )
    // Requests refuse unknown fields; responses may gain fields.
    const closed = new Set(
      Object.values(spec.paths).flatMap((item) =>
        Object.values(item).flatMap(({ requestBody = {} }) => schemasIn(requestBody))
      )
    )
    for (const name of closed) for (const inner of schemasIn(schemas[name])) closed.add(inner)
    return {
      ...spec,
      paths: Record.map(spec.paths, (item, path) =>
        Record.map(item as Record<string, OpenAPISpecOperation>, (operation) =>
          completeOperation(path, operation, traits.get(operation.operationId) ?? {})
        )
      ),
      components: {
        ...spec.components,
        schemas: Record.map(schemas, (schema, name) =>
          closed.has(name)
            ? schema
            : without(schema, (member, value) => member === "additionalProperties" && value === false)
        ),
        parameters: Components.parameters,
        headers: Components.headers,
        examples: Components.examples
      }
    }
  }
}
