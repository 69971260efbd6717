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
  readonly maxLength?: number
  readonly minItems?: number
}

interface Media {
  readonly "application/json"?: { readonly schema: JsonSchema }
}

interface DocumentedOperation {
  readonly operationId: string
  readonly parameters: ReadonlyArray<{ readonly name?: string; readonly $ref?: string }>
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
    readonly parameters: Readonly<Record<string, { readonly name: string }>>
    readonly schemas: Readonly<Record<string, JsonSchema>>
  }
}

const readDocs = (name: string): string =>
  readFileSync(new URL(`../../../docs/${name}`, import.meta.url), "utf8")

// A file of this repository; test/http/OpenApi.test.ts checks that it is a valid OpenAPI document.
const document = JSON.parse(readDocs("openapi.json")) as Document

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
  readonly responses: ReadonlyMap<
    number,
    {
      /** Names in lower case. */
      readonly headers: ReadonlySet<string>
      /** Absent for a response without content. */
      readonly validate: ValidateFunction | undefined
      readonly codes: ReadonlyArray<string>
    }
  >
}

// Lengths count code points, as JSON Schema and docs/api.md say.
const ajv = new Ajv2020({ strict: false, allErrors: false, validateSchema: false })
ajvFormats.default(ajv)

/** A field that the schema of a response does not name is a problem, too. */
const closed = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(closed)
  if (typeof value !== "object" || value === null) return value
  const members = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, closed(member)]))
  return typeof members.properties === "object" &&
    members.type === "object" &&
    !("additionalProperties" in members)
    ? { ...members, additionalProperties: false }
    : members
}

ajv.addSchema({ $id: "contract:requests", components: document.components })
ajv.addSchema({ $id: "contract:responses", components: closed(document.components) })

const compile = (schema: JsonSchema, base: "requests" | "responses"): ValidateFunction => {
  const text = JSON.stringify(base === "responses" ? closed(schema) : schema)
  return ajv.compile(JSON.parse(text.replaceAll('"$ref":"#/', `"$ref":"contract:${base}#/`)))
}

/** The schema behind a reference. */
export const resolve = (schema: JsonSchema): JsonSchema => {
  const name = schema.$ref?.split("/").at(-1)
  return name === undefined ? schema : resolve(document.components.schemas[name] ?? {})
}

/** The codes that the envelopes of a schema name. */
const codesOf = (schema: JsonSchema): ReadonlyArray<string> =>
  (schema.anyOf ?? [schema]).flatMap((member) =>
    (resolve(member).properties?.error?.properties?.code?.enum ?? []).map(String)
  )

const toOperation = (path: string, method: string, given: DocumentedOperation): Operation => {
  const { requestBody } = given
  const schema = requestBody?.content["application/json"]?.schema
  const isFree = given.security.some((need) => Object.keys(need).length === 0)
  return {
    id: given.operationId,
    method: method.toUpperCase(),
    path,
    parameters: new Set(
      given.parameters.map(({ $ref, name }) =>
        (name ?? document.components.parameters[$ref?.split("/").at(-1) ?? ""]?.name ?? "").toLowerCase()
      )
    ),
    bearer: given.security.length === 0 ? "none" : isFree ? "optional" : "required",
    body:
      requestBody === undefined || schema === undefined
        ? undefined
        : {
            maxBytes: requestBody["x-max-bytes"],
            required: requestBody.required,
            schema,
            validate: compile(schema, "requests")
          },
    responses: new Map(
      Object.entries(given.responses).map(([status, { content, headers }]) => {
        const answer = content?.["application/json"]?.schema
        const response = {
          headers: new Set(Object.keys(headers).map((name) => name.toLowerCase())),
          validate: answer === undefined ? undefined : compile(answer, "responses"),
          codes: answer === undefined ? [] : codesOf(answer)
        }
        return [Number(status), response]
      })
    )
  }
}

/** Every call of the document. */
export const operations: ReadonlyArray<Operation> = Object.entries(document.paths).flatMap(
  ([path, methods]) => Object.entries(methods).map(([method, given]) => toOperation(path, method, given))
)

/** The documents of docs/api.md, which are no calls of the API. */
export const documents: ReadonlyArray<string> = ["/openapi.json", "/docs", "/"]

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
export const methodsOf = (path: string): ReadonlySet<string> => {
  const own = documents.includes(path) ? ["GET"] : operationsAt(path).map(({ method }) => method)
  const all = path === "*" ? ["GET", "POST"] : own
  return new Set([...all, ...(all.includes("GET") ? ["HEAD"] : []), "OPTIONS"])
}

/** Statuses and retryability by code: the table "Errors" of docs/api.md, and the two statuses that its text adds. */
export const codes: ReadonlyMap<
  string,
  { readonly statuses: ReadonlySet<number>; readonly retryable: boolean }
> = new Map(
  (readDocs("api.md").split("\n## Errors\n")[1]?.split("\n### ")[0] ?? "").split("\n").flatMap((line) => {
    const [, statuses = "", names = "", retryable = ""] = line.split("|").map((cell) => cell.trim())
    if (!/^\d{3}/.test(statuses)) return []
    const numbers = statuses.split("/").map(Number)
    // "405 / 413 / 415" pairs a status with each code.
    return [...names.matchAll(/`([a-z_]+)`/g)].map(([, name = ""], at) => {
      const more = name === "invalid_input" ? [408, 431] : []
      const status = numbers[at] ?? numbers[0] ?? 0
      return [name, { statuses: new Set([status, ...more]), retryable: retryable === "yes" }] as const
    })
  })
)
