/** The published document, and a check of real answers against its schemas. */
import { openApi } from "../../src/http/openapi/OpenApiDocument.ts"
import type { CallName } from "./support.ts"

interface Media {
  readonly schema: unknown
  examples?: Record<string, { readonly value?: unknown; readonly $ref?: string }>
}

export interface Parameter {
  readonly name: string
  readonly description?: string
  readonly required?: boolean
  readonly schema: { readonly examples?: ReadonlyArray<unknown> }
}

interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly security: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly parameters: ReadonlyArray<Parameter | { readonly $ref: string }>
  readonly requestBody?: {
    readonly description?: string
    readonly "x-max-bytes"?: number
    readonly required?: boolean
    readonly content: { readonly "application/json": Media }
  }
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly description: string
        readonly headers: Readonly<Record<string, unknown>>
        readonly content?: { readonly "application/json": Media }
      }
    >
  >
}

export interface Call extends Operation {
  readonly method: string
  readonly path: string
}

interface Document {
  readonly openapi: string
  readonly tags: ReadonlyArray<{ readonly description?: string }>
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly parameters: Readonly<Record<string, Parameter>>
    readonly schemas: Readonly<Record<string, object>>
    readonly securitySchemes: Readonly<Record<string, object>>
  }
}

/** A copy that a test may change. */
export const freshDocument = (): Document => JSON.parse(JSON.stringify(openApi())) as Document

export const callsOf = ({ paths }: Document): ReadonlyArray<Call> =>
  Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path }))
  )

export const parametersOf = ({ components }: Document, { parameters }: Call): ReadonlyArray<Parameter> =>
  parameters.flatMap((given) =>
    "name" in given ? [given] : (components.parameters[given.$ref.replace(/.*\//, "")] ?? [])
  )

/** The last part of an operation's id. */
export const nameOf = (id: string): CallName => id.replace(/.*\./, "") as CallName
