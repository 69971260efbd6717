/** The published document, as far as tests read it. */
import * as OpenApi from "@effect/platform/OpenApi"
import { Api } from "../../src/http/Api.ts"
import type { CallName } from "./support.ts"

interface Content {
  readonly "application/json": {
    readonly examples?: Readonly<Record<string, { readonly value?: unknown }>>
  }
}

interface Parameter {
  readonly name: string
  readonly description?: string
  readonly schema: { readonly examples?: ReadonlyArray<unknown> }
}

interface Response {
  readonly description: string
  readonly headers: Readonly<Record<string, unknown>>
  readonly content?: Content
}

interface Operation {
  readonly operationId: string
  readonly security: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly parameters: ReadonlyArray<Parameter | { readonly $ref: string }>
  readonly requestBody?: {
    readonly "x-max-bytes"?: number
    readonly required?: boolean
    readonly content: Content
  }
  readonly responses: Readonly<Record<string, Response>>
  readonly "x-codeSamples"?: ReadonlyArray<{ readonly source: string }>
}

export interface Call extends Operation {
  readonly method: string
  readonly path: string
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly parameters: Readonly<Record<string, Parameter>> }
}

/** A copy that a test may change. */
export const freshDocument = (): Document => JSON.parse(JSON.stringify(OpenApi.fromApi(Api))) as Document

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
