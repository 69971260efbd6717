/** The published document as tests hold real answers against it. */
import { createConfig, lintFromString } from "@redocly/openapi-core"
import { openApi } from "../../src/http/openapi/OpenApiDocument.ts"

export interface Media {
  readonly schema: unknown
  examples?: Record<string, { readonly value?: unknown; readonly $ref?: string }>
}

export interface Parameter {
  readonly name: string
  readonly required?: boolean
  readonly schema: { readonly examples?: ReadonlyArray<unknown> }
}

export interface Operation {
  readonly operationId: string
  readonly security: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly parameters: ReadonlyArray<Parameter | { readonly $ref: string }>
  readonly requestBody?: { readonly content: { readonly "application/json": Media } }
  readonly responses: Readonly<
    Record<
      string,
      {
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

export interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly parameters: Readonly<Record<string, Parameter>> }
}

/** A copy that a test may write into. */
export const freshDocument = (): Document => JSON.parse(JSON.stringify(openApi())) as Document

export const callsOf = ({ paths }: Document): ReadonlyArray<Call> =>
  Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path }))
  )

export interface RealAnswer {
  readonly operationId: string
  readonly status: number
  readonly name: string
  readonly body: unknown
}

/**
 * What is wrong with real answers by the document's own schemas: each takes the place of an example, and the linter
 * that checks examples checks them. Fields that the schema does not name are wrong too.
 */
export const misfits = async (answers: ReadonlyArray<RealAnswer>): Promise<ReadonlyArray<string>> => {
  const document = freshDocument()
  const calls = callsOf(document)
  const lost: Array<string> = []
  for (const { operationId, status, name, body } of answers) {
    const call = calls.find((each) => each.operationId === operationId)
    const media = call?.responses[String(status)]?.content?.["application/json"]
    if (media === undefined) lost.push(`${operationId} ${status} ${name}: is not documented`)
    else media.examples = { ...media.examples, [name]: { value: body } }
  }
  const config = await createConfig({ rules: { "no-invalid-media-type-examples": "error" } })
  const problems = await lintFromString({ source: JSON.stringify(document), config })
  return [...lost, ...problems.map(({ message, location }) => `${location[0]?.pointer}: ${message}`)]
}
