/** Requests in and refusals out: the envelope, the codes and the body parsers (identity-service.md 3). */
import type { Reply, Seen } from "../Simulator.ts"
import { bodyLimit, isRecord } from "./Grammar.ts"
import type { App, Plane, State } from "./Model.ts"

/** One authenticated call of an application, as a route sees it. */
export interface Call {
  readonly state: State
  readonly request: Seen
  readonly requestId: string
  readonly plane: Plane
  readonly app: App
  /** The decoded variable segments of the path. */
  readonly params: ReadonlyArray<string>
}

interface RefusalOptions {
  readonly details?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** The version envelopes carry only a code and a message (identity-service.md 1.3). */
  readonly bare?: boolean
}

/** A negative answer. Throwing one rolls back: nothing has been changed before. */
export class Refusal extends Error {
  readonly status: number
  readonly code: string
  readonly options: RefusalOptions
  constructor(status: number, code: string, message: string, options: RefusalOptions = {}) {
    super(message)
    this.status = status
    this.code = code
    this.options = options
  }
}

export const refusalReply = (refusal: Refusal, requestId: string): Reply => ({
  status: refusal.status,
  headers: { ...refusal.options.headers },
  body: {
    error: {
      code: refusal.code,
      message: refusal.message,
      ...(refusal.options.details === undefined ? {} : { details: refusal.options.details }),
      ...(refusal.options.bare === true ? {} : { request_id: requestId })
    }
  }
})

export const invalidClient = (message = "client authentication failed") =>
  new Refusal(401, "invalid_client", message, {
    headers: { "www-authenticate": 'Basic realm="silicon-iam"' }
  })

export const unauthenticated = () =>
  new Refusal(401, "unauthenticated", "authentication is required", {
    headers: { "www-authenticate": "Bearer" }
  })

export const forbidden = (message = "this credential may not be used here") =>
  new Refusal(403, "forbidden", message)

export const notFound = () => new Refusal(404, "not_found", "the resource was not found")

export const invalidRequest = (message: string) => new Refusal(400, "invalid_request", message)

export const invalidGrant = (message = "the grant is invalid, expired or revoked") =>
  new Refusal(400, "invalid_grant", message)

export interface FieldProblem {
  readonly field: string
  readonly message: string
}

export const validationFailed = (...fields: ReadonlyArray<FieldProblem>) =>
  new Refusal(422, "validation_failed", "the request has invalid fields", { details: { fields } })

export const preconditionRequired = (header: string) =>
  new Refusal(428, "precondition_required", `the ${header} header is required`, {
    details: { precondition: header }
  })

const rejected = (status: number, message: string) => new Refusal(status, "request_rejected", message)

/** The values of a header as they came, none when it is absent. */
export const headerValues = (request: Seen, name: string): ReadonlyArray<string> =>
  request.headers.get(name) ?? []

const requireBody = (request: Seen, contentType: RegExp): string => {
  const [declared = ""] = headerValues(request, "content-type")
  const [essence = ""] = declared.split(";")
  if (!contentType.test(essence.trim())) throw rejected(415, "the content type is not supported")
  if (request.body.length > bodyLimit)
    throw new Refusal(413, "payload_too_large", "the request body is too large")
  return request.body.toString("utf8")
}

/** Reads a form. A missing required field, or a known one given twice, is the framework's 422. */
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

/** Reads a JSON body; malformed JSON is the framework's 400. */
export const readJson = (request: Seen): unknown => {
  const text = requireBody(request, /^application\/(json|[^/;]+\+json)$/i)
  try {
    return JSON.parse(text)
  } catch {
    throw rejected(400, "the body is not valid JSON")
  }
}

/** Reads typed fields off a JSON object; a missing, mistyped or unknown one is the framework's 422. */
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

/** `X-Org-ID` has no meaning on the on-behalf-of routes (identity-service.md 3). */
export const refuseOrgHeader = (request: Seen): void => {
  if (headerValues(request, "x-org-id").length > 0)
    throw new Refusal(400, "unsupported_header", "X-Org-ID is not supported on this route")
}

/** Token and proof answers are also marked for caches of HTTP/1.0 (identity-service.md 1.2). */
export const secretHeaders = { pragma: "no-cache" } as const
