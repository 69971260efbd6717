/** The failures that the measured calls can answer, and their envelope. */

/** Status, retryable, message, hint. */
const table = {
  invalid_input: [
    400,
    false,
    "The request is invalid.",
    "Correct the fields named in details.fields and send the request again."
  ],
  idempotency_key_required: [
    400,
    false,
    "An Idempotency-Key is required.",
    "Send a random UUID as Idempotency-Key."
  ],
  idempotency_key_invalid: [
    400,
    false,
    "The Idempotency-Key is malformed.",
    "Send 16 to 255 visible ASCII characters as Idempotency-Key."
  ],
  unauthenticated: [
    401,
    false,
    "The token is missing, malformed, expired or revoked.",
    "Send a live access token as `Authorization: Bearer oat_…`; refresh the session or log in again."
  ],
  webhook_signature_invalid: [
    401,
    false,
    "The signature is invalid.",
    "Sign the delivery with the shared secret."
  ],
  testing_secret_invalid: [
    401,
    false,
    "The testing secret is invalid.",
    "Send a testing secret of this application."
  ],
  forbidden: [403, false, "The token does not reach this organisation.", "Choose one of your org_ids."],
  reconsent_required: [403, false, "The token lacks a scope.", "Log in again."],
  not_found: [404, false, "There is nothing at this path.", "See /openapi.json."],
  method_not_allowed: [405, false, "The method is not allowed here.", "Use a method of the Allow header."],
  idempotency_conflict: [
    409,
    false,
    "The Idempotency-Key was used with different content.",
    "Send the request under a new key."
  ],
  payload_too_large: [413, false, "The body is too large.", "Send a smaller body."],
  unsupported_media_type: [415, false, "The body is not JSON.", "Send application/json."],
  rate_limited: [429, true, "Too many requests.", "Wait for Retry-After."],
  internal: [500, false, "A defect.", "Report the request id."],
  dependency_misconfigured: [502, false, "An upstream refused this service.", "Tell the operator."],
  dependency_unavailable: [503, true, "An upstream does not answer.", "Try again."],
  reports_full: [503, true, "The bound of stored reports is reached.", "Try again later."],
  spool_full: [503, true, "The spool is full.", "Try again later."],
  overloaded: [503, true, "The server is overloaded.", "Try again."]
}

export class Failure extends Error {
  constructor(code, details, headers = {}) {
    super(code)
    this.code = code
    this.details = details
    this.headers = headers
  }
}

/** Failures are frequent and expected: their stack is never read. */
Error.stackTraceLimit = 4

export const statusOf = ({ code }) => table[code][0]

export const envelopeOf = ({ code, details }) => {
  const [, retryable, message, hint] = table[code]
  return { error: { code, message, hint, retryable, ...(details === undefined ? {} : { details }) } }
}

export const headersOf = ({ code, headers }) => ({
  "cache-control": "no-store",
  ...(code === "unauthenticated" ? { "www-authenticate": "Bearer" } : {}),
  ...headers
})
