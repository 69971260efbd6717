/** IAM's error responses: the envelope and the codes (identity-service.md 3). */
import type { Reply } from "../Simulator.ts"

interface ErrorOptions {
  readonly details?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** The version envelopes carry only a code and a message (identity-service.md 1.3). */
  readonly bare?: boolean
}

/** An error response. It is thrown before any state changes. */
export class ErrorResponse extends Error {
  readonly status: number
  readonly code: string
  readonly options: ErrorOptions
  constructor(status: number, code: string, message: string, options: ErrorOptions = {}) {
    super(message)
    this.status = status
    this.code = code
    this.options = options
  }
}

export const errorReply = (error: ErrorResponse, requestId: string): Reply => ({
  status: error.status,
  headers: { ...error.options.headers },
  body: {
    error: {
      code: error.code,
      message: error.message,
      ...(error.options.details === undefined ? {} : { details: error.options.details }),
      ...(error.options.bare === true ? {} : { request_id: requestId })
    }
  }
})

export const invalidClient = (message = "client authentication failed") =>
  new ErrorResponse(401, "invalid_client", message, {
    headers: { "www-authenticate": 'Basic realm="silicon-iam"' }
  })

export const unauthenticated = () =>
  new ErrorResponse(401, "unauthenticated", "authentication is required", {
    headers: { "www-authenticate": "Bearer" }
  })

export const forbidden = (message = "this credential may not be used here") =>
  new ErrorResponse(403, "forbidden", message)

export const notFound = () => new ErrorResponse(404, "not_found", "the resource was not found")

export const invalidRequest = (message: string) => new ErrorResponse(400, "invalid_request", message)

export const invalidGrant = (message = "the grant is invalid, expired or revoked") =>
  new ErrorResponse(400, "invalid_grant", message)

export interface FieldProblem {
  readonly field: string
  readonly message: string
}

export const validationFailed = (...fields: ReadonlyArray<FieldProblem>) =>
  new ErrorResponse(422, "validation_failed", "the request has invalid fields", { details: { fields } })

export const preconditionRequired = (header: string) =>
  new ErrorResponse(428, "precondition_required", `the ${header} header is required`, {
    details: { precondition: header }
  })
