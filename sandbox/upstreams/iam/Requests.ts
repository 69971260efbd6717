/** Reading requests: headers, forms and JSON bodies (identity-service.md 3). */
import type { Seen } from "../Simulator.ts"
import { ErrorResponse } from "./Errors.ts"
import { bodyLimit, isRecord } from "./Identifiers.ts"
import type { App, Plane, State } from "./Model.ts"

/** One authenticated call of an application. */
export interface Call {
  readonly state: State
  readonly request: Seen
  readonly requestId: string
  readonly plane: Plane
  readonly app: App
  /** The decoded variable segment of the path, or "". */
  readonly param: string
}

const rejected = (status: number, message: string) => new ErrorResponse(status, "request_rejected", message)

/** The values of a header as they arrived; empty when it is absent. */
export const headerValues = (request: Seen, name: string): ReadonlyArray<string> =>
  request.headers.get(name) ?? []

const requireBody = (request: Seen, contentType: RegExp): string => {
  const [declared = ""] = headerValues(request, "content-type")
  const [essence = ""] = declared.split(";")
  if (!contentType.test(essence.trim())) throw rejected(415, "the content type is not supported")
  if (request.body.length > bodyLimit)
    throw new ErrorResponse(413, "payload_too_large", "the request body is too large")
  return request.body.toString("utf8")
}

/** Reads a form. A missing required field or a repeated known field is a 422. */
export const readForm = (
  request: Seen,
  fields: { readonly required: ReadonlyArray<string>; readonly optional: ReadonlyArray<string> }
): ((name: string) => string | undefined) => {
  const form = new URLSearchParams(requireBody(request, /^application\/x-www-form-urlencoded$/i))
  for (const name of fields.required) if (!form.has(name)) throw rejected(422, `missing form field ${name}`)
  for (const name of [...fields.required, ...fields.optional])
    if (form.getAll(name).length > 1) throw rejected(422, `duplicate form field ${name}`)
  return (name) => form.get(name) ?? undefined
}

/** Reads a JSON body. Malformed JSON is a 400. */
export const readJson = (request: Seen): unknown => {
  const text = requireBody(request, /^application\/(json|[^/;]+\+json)$/i)
  try {
    return JSON.parse(text)
  } catch {
    throw rejected(400, "the body is not valid JSON")
  }
}

/** Reads typed fields of a JSON object. A missing, mistyped or unknown field is a 422. */
export const readFields = (value: unknown, path: string, known: ReadonlyArray<string>) => {
  if (!isRecord(value)) throw rejected(422, `${path || "the body"} must be an object`)
  for (const name of Object.keys(value))
    if (!known.includes(name)) throw rejected(422, `unknown field ${path}${name}`)
  return {
    text: (name: string): string => {
      const field = value[name]
      if (typeof field !== "string") throw rejected(422, `field ${path}${name} must be a string`)
      return field
    },
    optionalText: (name: string): string | null => {
      const field = value[name] ?? null
      if (field !== null && typeof field !== "string")
        throw rejected(422, `field ${path}${name} must be a string or null`)
      return field
    },
    object: (name: string): Readonly<Record<string, unknown>> => {
      const field = value[name]
      if (!isRecord(field)) throw rejected(422, `field ${path}${name} must be an object`)
      return field
    }
  }
}

/** `X-Org-ID` is not supported on the on-behalf-of routes (identity-service.md 3). */
export const refuseOrgHeader = (request: Seen): void => {
  if (headerValues(request, "x-org-id").length > 0)
    throw new ErrorResponse(400, "unsupported_header", "X-Org-ID is not supported on this route")
}

/** Token and proof answers also forbid caching for HTTP/1.0 caches (identity-service.md 1.2). */
export const secretHeaders = { pragma: "no-cache" } as const
