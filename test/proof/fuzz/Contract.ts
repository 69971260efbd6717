/** The published contract, read from the files `docs/openapi.json` and `docs/api.md`: nothing of it comes from the code of the service. */
import { readFileSync } from "node:fs"
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js"
import ajvFormats from "ajv-formats"

export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string
  readonly required?: ReadonlyArray<string>
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly additionalProperties?: boolean | JsonSchema
  readonly items?: JsonSchema
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly enum?: ReadonlyArray<unknown>
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
}

interface Media {
  readonly "application/json"?: { readonly schema: JsonSchema }
}

interface Parameter {
  readonly name: string
  readonly required?: boolean
}

interface DocumentedOperation {
  readonly operationId: string
  readonly parameters: ReadonlyArray<Parameter | { readonly $ref: string }>
  readonly security: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly requestBody?: {
    readonly required: boolean
    readonly "x-max-bytes": number
    readonly content: Media
  }
  readonly responses: Readonly<
    Record<string, { readonly headers: Readonly<Record<string, unknown>>; readonly content?: Media }>
  >
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>
  readonly components: {
    readonly parameters: Readonly<Record<string, Parameter>>
    readonly schemas: Readonly<Record<string, JsonSchema>>
  }
}

const readDocs = (name: string): string =>
  readFileSync(new URL(`../../../docs/${name}`, import.meta.url), "utf8")

// The file of another program; test/http/OpenApi.test.ts checks that it is a valid OpenAPI document.
const document = JSON.parse(readDocs("openapi.json")) as Document

/** A response that an operation documents. */
export interface DocumentedResponse {
  /** Names in lower case. */
  readonly headers: ReadonlySet<string>
  /** Absent for a response without content. */
  readonly validate: ValidateFunction | undefined
  readonly codes: ReadonlyArray<string>
}

export interface Operation {
  readonly id: string
  readonly method: string
  readonly path: string
  /** Names of the request headers, in lower case. */
  readonly parameters: ReadonlySet<string>
  readonly bearer: "required" | "optional" | "none"
  readonly body:
    | {
        readonly maxBytes: number
        readonly required: boolean
        readonly schema: JsonSchema
        readonly validate: ValidateFunction
      }
    | undefined
  readonly responses: ReadonlyMap<number, DocumentedResponse>
}

// Lengths count code points, as JSON Schema and docs/api.md say.
const ajv = new Ajv2020({ strict: false, allErrors: false, validateSchema: false })
ajvFormats.default(ajv)

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** A field that the schema of a response does not name is a problem, too. */
const closed = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(closed)
  if (!isObject(value)) return value
  const members = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, closed(member)]))
  return isObject(value.properties) && value.type === "object" && !("additionalProperties" in value)
    ? { ...members, additionalProperties: false }
    : members
}

ajv.addSchema({ $id: "contract:requests", components: document.components })
ajv.addSchema({ $id: "contract:responses", components: closed(document.components) })

const compile = (schema: JsonSchema, base: "requests" | "responses"): ValidateFunction => {
  const rebased = JSON.parse(
    JSON.stringify(base === "responses" ? closed(schema) : schema).replaceAll(
      '"$ref":"#/',
      `"$ref":"contract:${base}#/`
    )
  )
  return ajv.compile(rebased)
}

/** The schema behind a reference. */
export const resolve = (schema: JsonSchema): JsonSchema => {
  const name = schema.$ref?.split("/").at(-1)
  return name === undefined ? schema : resolve(document.components.schemas[name] ?? {})
}

/** The codes that the envelopes of a schema name. */
const codesOf = (schema: JsonSchema): ReadonlyArray<string> =>
  (schema.anyOf ?? [schema]).flatMap((member) => {
    const codes = resolve(member).properties?.error?.properties?.code?.enum ?? []
    return codes.map(String)
  })

const parameterNames = (operation: DocumentedOperation): ReadonlySet<string> =>
  new Set(
    operation.parameters.map((parameter) => {
      const name =
        "$ref" in parameter
          ? document.components.parameters[parameter.$ref.split("/").at(-1) ?? ""]?.name
          : parameter.name
      return (name ?? "").toLowerCase()
    })
  )

const toOperation = (path: string, method: string, documented: DocumentedOperation): Operation => {
  const schema = documented.requestBody?.content["application/json"]?.schema
  return {
    id: documented.operationId,
    method: method.toUpperCase(),
    path,
    parameters: parameterNames(documented),
    bearer:
      documented.security.length === 0
        ? "none"
        : documented.security.some((need) => Object.keys(need).length === 0)
          ? "optional"
          : "required",
    body:
      documented.requestBody === undefined || schema === undefined
        ? undefined
        : {
            maxBytes: documented.requestBody["x-max-bytes"],
            required: documented.requestBody.required,
            schema,
            validate: compile(schema, "requests")
          },
    responses: new Map(
      Object.entries(documented.responses).map(([status, { content, headers }]) => {
        const answer = content?.["application/json"]?.schema
        return [
          Number(status),
          {
            headers: new Set(Object.keys(headers).map((name) => name.toLowerCase())),
            validate: answer === undefined ? undefined : compile(answer, "responses"),
            codes: answer === undefined ? [] : codesOf(answer)
          }
        ]
      })
    )
  }
}

/** Every call of the document. */
export const operations: ReadonlyArray<Operation> = Object.entries(document.paths).flatMap(
  ([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => toOperation(path, method, operation))
)

/** The documents of docs/api.md, which are no calls of the API: path and media types. */
export const documents: ReadonlyMap<string, string> = new Map([
  ["/openapi.json", "application/json"],
  ["/docs", "text/html; charset=utf-8"],
  ["/", "text/html; charset=utf-8"]
])

/** Operations by path, with the webhook's second spelling (docs/api.md, "Conventions"). */
export const operationsByPath: ReadonlyMap<string, ReadonlyArray<Operation>> = (() => {
  const found = new Map<string, Array<Operation>>()
  for (const operation of operations)
    for (const path of operation.path === "/webhook" ? ["/webhook", "/webhook/"] : [operation.path])
      found.set(path, [...(found.get(path) ?? []), operation])
  return found
})()

interface CodeRow {
  readonly statuses: ReadonlySet<number>
  readonly retryable: boolean
}

/** Statuses and retryability by code: the table "Errors" of docs/api.md, and the two statuses that its text adds. */
export const codes: ReadonlyMap<string, CodeRow> = (() => {
  const rows = new Map<string, CodeRow>()
  const section = readDocs("api.md").split("\n## Errors\n")[1]?.split("\n### ")[0] ?? ""
  for (const line of section.split("\n")) {
    const [, statuses = "", names = "", retryable = ""] = line.split("|").map((cell) => cell.trim())
    if (!/^\d{3}/.test(statuses)) continue
    const numbers = statuses.split("/").map((status) => Number(status.trim()))
    const codesOfRow = [...names.matchAll(/`([a-z_]+)`/g)].map(([, name = ""]) => name)
    codesOfRow.forEach((name, at) => {
      // "405 / 413 / 415" pairs a status with each code.
      const status = numbers.length === codesOfRow.length && numbers.length > 1 ? numbers[at] : numbers[0]
      rows.set(name, {
        statuses: new Set([status ?? 0, ...(name === "invalid_input" ? [408, 431] : [])]),
        retryable: retryable === "yes"
      })
    })
  }
  return rows
})()
