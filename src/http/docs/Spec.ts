/** The parts of the OpenAPI document that the page reads. */

export interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly description?: string
  readonly enum?: ReadonlyArray<unknown>
  readonly anyOf?: ReadonlyArray<Schema>
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: ReadonlyArray<string>
  readonly additionalProperties?: Schema | boolean
  readonly items?: Schema
  readonly minItems?: number
  readonly maxItems?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly pattern?: string
  readonly format?: string
  readonly examples?: ReadonlyArray<unknown>
}

export interface Parameter {
  readonly name: string
  readonly required?: boolean
  readonly description?: string
  readonly schema: Schema
}

export interface Header {
  readonly description: string
  readonly schema: Schema
}

export interface Reference {
  readonly $ref: string
}

export interface Example {
  readonly summary?: string
  readonly value?: unknown
}

interface Content {
  readonly "application/json": {
    readonly schema: Schema
    readonly examples?: Readonly<Record<string, Example | Reference>>
  }
}

export interface Response {
  readonly description: string
  readonly headers?: Readonly<Record<string, Header | Reference>>
  readonly content?: Content
}

export interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly tags: ReadonlyArray<string>
  readonly security: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly parameters: ReadonlyArray<Parameter | Reference>
  readonly requestBody?: { readonly description?: string; readonly content: Content }
  readonly responses: Readonly<Record<string, Response>>
}

export interface Spec {
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly tags: ReadonlyArray<{ readonly name: string; readonly description: string }>
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly parameters: Readonly<Record<string, Parameter>>
    readonly headers: Readonly<Record<string, Header>>
    readonly examples: Readonly<Record<string, Example>>
    readonly securitySchemes: Readonly<Record<string, { readonly description: string }>>
  }
}

/** One call with its method and path. */
export interface Call extends Operation {
  readonly method: string
  readonly path: string
}

export const callsOf = ({ paths }: Spec): ReadonlyArray<Call> =>
  Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path }))
  )

/** The name at the end of a reference. */
export const nameOf = ($ref: string): string => $ref.slice($ref.lastIndexOf("/") + 1)

const isReference = (value: object): value is Reference => "$ref" in value

/** Resolves a reference into one kind of component; components do not refer to each other. */
export const resolve = <A extends object>(
  value: A | Reference,
  components: Readonly<Record<string, A>>
): A | undefined => (isReference(value) ? components[nameOf(value.$ref)] : value)

export const parametersOf = (spec: Spec, call: Call): ReadonlyArray<Parameter> =>
  call.parameters.flatMap((parameter) => resolve(parameter, spec.components.parameters) ?? [])

/** Whether the call takes a session. */
export const isSigned = ({ security }: Call): boolean => security.some((scheme) => "bearer" in scheme)
/** Whether it is also answered without one. */
export const isOptional = ({ security }: Call): boolean =>
  security.some((scheme) => Object.keys(scheme).length === 0)

/** The example of the request's body; undefined for a call without one. */
export const exampleBody = ({ requestBody }: Call): unknown => {
  const example = requestBody?.content["application/json"].examples?.success
  return example !== undefined && "value" in example ? example.value : undefined
}

/** Every failure that a call declares: its status and code. */
export const failuresOf = (
  spec: Spec,
  { responses }: Operation
): ReadonlyArray<{ readonly status: string; readonly code: string }> =>
  Object.entries(responses)
    .filter(([status]) => Number(status) >= 400)
    .flatMap(([status, { content }]) =>
      Object.keys(content?.["application/json"].examples ?? {}).map((code) => ({ status, code }))
    )
    .filter(({ code }) => code in spec.components.examples)
