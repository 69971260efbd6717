/** Status, retryability, message and hint of every failure, by code: the table of docs/api.md, "Errors". */

export const failureTable = {
  invalid_input: {
    status: 400,
    retryable: false,
    message: "The request is invalid.",
    hint: "Correct the fields named in details.fields and send the request again."
  },
  idempotency_key_required: {
    status: 400,
    retryable: false,
    message: "This call needs an Idempotency-Key header.",
    hint: "Send one Idempotency-Key of 16 to 255 visible ASCII characters, and the same one when you retry."
  },
  idempotency_key_invalid: {
    status: 400,
    retryable: false,
    message: "The Idempotency-Key header is malformed.",
    hint: "Send exactly one Idempotency-Key of 16 to 255 visible ASCII characters, without spaces."
  },
  unauthenticated: {
    status: 401,
    retryable: false,
    message: "The token is missing, malformed, expired or revoked.",
    hint: "Send a live access token as `Authorization: Bearer oat_…`; refresh the session or log in again."
  },
  slt_rejected: {
    status: 401,
    retryable: false,
    message: "The identity service refused the short-lived token.",
    hint: "Short-lived tokens work once and for two minutes: mint a new one for this application and log in with a new Idempotency-Key."
  },
  testing_secret_invalid: {
    status: 401,
    retryable: false,
    message: "The testing environment key is not a live secret of this application.",
    hint: "Send this application's test secret of one live testing environment in X-Testing-Environment-Key, or leave the header out for production."
  },
  webhook_signature_invalid: {
    status: 401,
    retryable: false,
    message: "The webhook delivery could not be verified.",
    hint: "Check the signing secret, its key version, and the clocks of sender and receiver; sign the exact bytes of the body."
  },
  forbidden: {
    status: 403,
    retryable: false,
    message: "The request was refused by policy.",
    hint: "Choose one of your organisations, or log in again and grant one; details contain the reason."
  },
  reconsent_required: {
    status: 403,
    retryable: false,
    message: "The session lacks a scope that this call needs.",
    hint: "Log in again and approve all requested scopes; a refresh never adds any."
  },
  recipient_not_registered: {
    status: 403,
    retryable: false,
    message: "The recipient is not registered with the notification service.",
    hint: "Register with POST /api/v1/ting/subscription, then send the ting again under the same key."
  },
  permission_denied: {
    status: 403,
    retryable: false,
    message: "The notification service refused the call.",
    hint: "Check that the application, its types and the testing environment are enabled with the notification service."
  },
  test_context_mismatch: {
    status: 403,
    retryable: false,
    message: "The notification service uses another testing environment.",
    hint: "Use one testing environment for the session and the notification, and log in again inside it."
  },
  required_delivery_not_enabled: {
    status: 403,
    retryable: false,
    message: "The recipient has not allowed required delivery.",
    hint: "Send an ordinary ting; the same key is still free."
  },
  origin_not_allowed: {
    status: 403,
    retryable: false,
    message: "Telemetry from this origin is not accepted.",
    hint: "Send telemetry from a configured web origin to a web table, or without an Origin header."
  },
  plane_mismatch: {
    status: 403,
    retryable: false,
    message: "The delivery belongs to an unknown testing environment.",
    hint: "Select the testing environment once with GET /api/v1/iam and its key, then replay the delivery."
  },
  not_found: {
    status: 404,
    retryable: false,
    message: "The resource does not exist.",
    hint: "Check path and spelling against /openapi.json; for a ting, use a type listed by GET /api/v1/iam."
  },
  method_not_allowed: {
    status: 405,
    retryable: false,
    message: "The path does not support this method.",
    hint: "Use one of the methods in the Allow header."
  },
  request_timeout: {
    status: 408,
    retryable: true,
    message: "The request did not arrive in time.",
    hint: "Send the complete request without pauses, and retry with the same key."
  },
  idempotency_conflict: {
    status: 409,
    retryable: false,
    message: "The key was already used with different content.",
    hint: "Use a new key for new content, one that no other caller can choose, such as a random UUID; retry the same content under its own key."
  },
  idempotency_in_progress: {
    status: 409,
    retryable: true,
    message: "The first request with this key is still in progress.",
    hint: "Wait a few seconds and retry with the same key."
  },
  idempotency_response_expired: {
    status: 409,
    retryable: false,
    message: "The result for this key can no longer be replayed.",
    hint: "The replay window of 10 minutes has passed: log in again with a new token and a new key."
  },
  payload_too_large: {
    status: 413,
    retryable: false,
    message: "The body is larger than this call allows.",
    hint: "Send a smaller body; the description of the call in /openapi.json has its limits."
  },
  unsupported_media_type: {
    status: 415,
    retryable: false,
    message: "The body is not JSON.",
    hint: "Send `Content-Type: application/json` and a JSON body, without a content encoding."
  },
  rate_limited: {
    status: 429,
    retryable: true,
    message: "Too many requests.",
    hint: "Wait for the seconds in Retry-After, then retry with the same key."
  },
  temporarily_rate_limited: {
    status: 429,
    retryable: true,
    message: "The notification service limits the request rate.",
    hint: "Wait for the seconds in Retry-After, then retry with the same key."
  },
  internal: {
    status: 500,
    retryable: false,
    message: "An internal error occurred.",
    hint: "Report the X-Request-Id to the operator; the service's log has the cause under this id."
  },
  dependency_misconfigured: {
    status: 502,
    retryable: false,
    message: "A dependency refused the credentials of this service.",
    hint: "A retry does not help: an operator must correct the settings of the dependency in details."
  },
  dependency_unavailable: {
    status: 503,
    retryable: true,
    message: "A dependency of this service is unavailable.",
    hint: "Retry with the same key after a short pause; your session is not affected."
  },
  not_ready: {
    status: 503,
    retryable: true,
    message: "The service is not ready.",
    hint: "Retry later; details.checks has the state of each dependency."
  },
  overloaded: {
    status: 503,
    retryable: true,
    message: "The service has too many requests in progress.",
    hint: "Wait for the seconds in Retry-After, then retry with the same key."
  },
  reports_full: {
    status: 503,
    retryable: true,
    message: "The storage for reports is full.",
    hint: "Keep the report and send it again later with the same key; signed-in callers have a larger share of the storage."
  },
  spool_full: {
    status: 503,
    retryable: true,
    message: "The telemetry spool is full.",
    hint: "Keep the events and send them again later with the same ids."
  },
  shutting_down: {
    status: 503,
    retryable: true,
    message: "The service is shutting down.",
    hint: "Retry on a new connection with the same key."
  }
} as const satisfies Record<
  string,
  { readonly status: number; readonly retryable: boolean; readonly message: string; readonly hint: string }
>

export type FailureCode = keyof typeof failureTable
