/** The calls of the published contract, read from `docs/openapi.json`: nothing of it comes from the code of the service. */
import { readFileSync } from "node:fs"
import type { Ajv2020, ValidateFunction } from "ajv/dist/2020.js"

export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string
  readonly required?: ReadonlyArray<string>
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly additionalProperties?: boolean | JsonSchema
  readonly items?: JsonSchema
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly minItems?: number
}

interface Content {
  readonly "application/json"?: {
    readonly schema: JsonSchema
    readonly examples?: Readonly<Record<string, { readonly value?: unknown }>>
  }
}

interface Parameter {
  readonly name: string
  readonly schema: { readonly examples?: ReadonlyArray<unknown> }
}

interface DocumentedOperation {
  readonly operationId: string
  readonly parameters: ReadonlyArray<Parameter | { readonly $ref: string }>
  readonly security: ReadonlyArray<object>
  readonly requestBody?: {
    readonly required: boolean
    readonly "x-max-bytes": number
    readonly content: Content
  }
  readonly responses: Readonly<
    Record<string, { readonly headers: Readonly<Record<string, unknown>>; readonly content?: Content }>
  >
  readonly "x-codeSamples"?: ReadonlyArray<{ readonly source: string }>
}

interface Document {
  readonly info: { readonly description: string }
  readonly tags: ReadonlyArray<{ readonly name: string; readonly description: string }>
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>
  readonly components: {
    readonly parameters: Readonly<Record<string, Parameter>>
    readonly schemas: Readonly<Record<string, JsonSchema>>
  }
}

// A file of this repository; test/http/OpenApi.test.ts checks that it is a valid OpenAPI document, and that of the service.
export const document = JSON.parse(
  readFileSync(new URL("../../docs/openapi.json", import.meta.url), "utf8")
) as Document
const lastOf = (ref = ""): string => ref.slice(ref.lastIndexOf("/") + 1)

/** Compiles schemas of the document, each changed before. */
export const compileWith = (ajv: Ajv2020, change: (value: unknown) => unknown) => {
  ajv.addSchema({ $id: "contract", components: change(document.components) })
  return (schema: JsonSchema): ValidateFunction =>
    ajv.compile(JSON.parse(JSON.stringify(change(schema)).replaceAll('"$ref":"#/', '"$ref":"contract#/')))
}

/** The schema behind a reference. */
export const resolve = (schema: JsonSchema): JsonSchema =>
  schema.$ref === undefined ? schema : resolve(document.components.schemas[lastOf(schema.$ref)] ?? {})

const bodyOf = ({ requestBody }: DocumentedOperation) => {
  const schema = requestBody?.content["application/json"]?.schema
  if (requestBody === undefined || schema === undefined) return undefined
  const { required, "x-max-bytes": maxBytes } = requestBody
  return { maxBytes, required, schema }
}

/** Every call as the document has it. */
export const documentedCalls = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, given]) => ({ ...given, method: method.toUpperCase(), path }))
)
export type DocumentedCall = (typeof documentedCalls)[number]

/** The request headers of a call. */
export const parametersOf = ({ parameters }: DocumentedOperation): ReadonlyArray<Parameter> =>
  parameters.flatMap((given) =>
    "name" in given ? [given] : (document.components.parameters[lastOf(given.$ref)] ?? [])
  )

/** Every call, as suites send it. */
export const operations = documentedCalls.map((given) => {
  const isFree = given.security.some((need) => Object.keys(need).length === 0)
  const bearer: "required" | "optional" | "none" =
    given.security.length === 0 ? "none" : isFree ? "optional" : "required"
  return {
    id: given.operationId,
    method: given.method,
    path: given.path,
    bearer,
    /** Names of the request headers, in lower case. */
    parameters: new Set(parametersOf(given).map(({ name }) => name.toLowerCase())),
    body: bodyOf(given),
    /** By status: names of headers in lower case, and the schema of the body. */
    responses: new Map(
      Object.entries(given.responses).map(([status, { content, headers }]) => {
        const schema = content?.["application/json"]?.schema
        const names = new Set(Object.keys(headers).map((name) => name.toLowerCase()))
        return [Number(status), { headers: names, schema }]
      })
    )
  }
})

export type Operation = (typeof operations)[number]

/** The documents of docs/api.md, which are no calls of the API. */
export const documents: ReadonlyArray<string> = ["/openapi.json", "/docs"]

/** The path of a request's target. */
export const pathOf = (target: string): string =>
  (target.startsWith("/") ? target : target.replace(/^https?:\/\/[^/?#]*/i, "")).replace(/[?#][\s\S]*$/, "")

/** The webhook has a second spelling (docs/api.md, "Conventions"). */
const operationsAt = (path: string): ReadonlyArray<Operation> =>
  operations.filter((operation) => operation.path === (path === "/webhook/" ? "/webhook" : path))

/** The call that a request reaches. */
export const operationOf = (method: string, target: string): Operation | undefined =>
  operationsAt(pathOf(target)).find((each) => each.method === (method === "HEAD" ? "GET" : method))

/** The methods of a path, as `Allow` lists them. */
export const methodsOf = (path: string): ReadonlyArray<string> => {
  const all = documents.includes(path) ? ["GET"] : operationsAt(path).map(({ method }) => method)
  return [...new Set([...all, ...(all.includes("GET") ? ["HEAD"] : []), "OPTIONS"])].sort()
}
