/** Message and hint of the client's own failures, by code, and hints in terms of the client's methods for the service's. */
import type { FailureCode } from "../../src/schema/FailureTable.ts"

interface Row {
  readonly retryable: boolean
  readonly message: string
  readonly hint: string
}

export const clientErrorTable = {
  not_logged_in: {
    retryable: false,
    message: "There is no session for this server and plane.",
    hint: "Log in with a short-lived token."
  },
  logged_out: {
    retryable: false,
    message: "The session has ended.",
    hint: "Log in again with a new short-lived token."
  },
  transport_failed: {
    retryable: true,
    message: "The service could not be reached, or the connection was lost.",
    hint: "Check the network and baseUrl, then try again; your session is kept."
  },
  timed_out: {
    retryable: true,
    message: "No answer arrived before the deadline.",
    hint: "Call again; your session is kept."
  },
  unexpected_answer: {
    retryable: true,
    message: "The answer did not come from the service.",
    hint: "Check baseUrl and intermediaries (proxy, captive portal), then try again; your session is kept."
  },
  aborted: {
    retryable: true,
    message: "The caller aborted the call.",
    hint: "Call again to get the result."
  },
  store_failed: {
    retryable: true,
    message: "The stored session could not be read, written or locked.",
    hint: "Make the session store readable and writable, then try again within 10 minutes of a login or refresh."
  },
  queue_full: {
    retryable: true,
    message: "The telemetry queue is full.",
    hint: "Drop the event, or record it again after the next flush."
  },
  unsupported: {
    retryable: false,
    message: "This environment has no Web Crypto.",
    hint: "Serve the page over https or from localhost, or run Node 20 or newer."
  },
  client_defect: {
    retryable: false,
    message: "The client failed with a defect.",
    hint: "The outcome of the call is unknown; report this as a bug of the client."
  }
} as const satisfies Record<string, Row>

/** The codes of the client itself; `MusicErrorCode` has a sentence for each. */
export type ClientErrorCode = keyof typeof clientErrorTable

/** Instead of the service's hints where those speak of HTTP. */
const methodHints: Partial<Readonly<Record<FailureCode, string>>> = {
  invalid_input: "Correct the fields in details.fields, then call again.",
  idempotency_key_required: "Pass an idempotencyKey of 16 to 255 visible ASCII characters.",
  idempotency_key_invalid: "Pass an idempotencyKey of 16 to 255 visible ASCII characters, without spaces.",
  unauthenticated: "Log in again with a new short-lived token.",
  slt_rejected:
    "Short-lived tokens work once and for two minutes: mint a new one for this application and call login() with it.",
  testing_secret_invalid:
    "Give testingKey this application's test secret of one live testing environment, or null for production.",
  reconsent_required: "Call login() with a new token and approve all requested scopes.",
  recipient_not_registered: "Call subscribe(), then ting() again with the same key.",
  origin_not_allowed:
    "An operator must add this page's origin to MUSIC_WEB_ORIGINS; pages cannot write to the daemon's table.",
  not_found: "Check baseUrl; for a ting, use a type that iam() lists.",
  idempotency_conflict: "Use a new key for new content; retry the same content under its own key.",
  rate_limited: "Wait for retryAfterSeconds, then call again.",
  temporarily_rate_limited: "Wait for retryAfterSeconds, then call again with the same key.",
  internal: "Report the requestId to the operator; the service's log has the cause under this id.",
  dependency_unavailable: "Call again after a short pause; your session is kept.",
  overloaded: "Wait for retryAfterSeconds, then call again.",
  reports_full:
    "Keep the report and its idempotencyKey, and call report() with both later; signed-in callers have a larger share.",
  spool_full: "Call flush() later: the events stay in the queue.",
  shutting_down: "Call again: another process of the service answers soon."
}

/** The next step after a failure of the service, in terms of the client's methods. `given` is the service's own hint. */
export const hintOf = (
  code: FailureCode,
  given: string,
  details: { readonly reason?: unknown; readonly fields?: unknown } | undefined
): string => {
  if (code === "forbidden" && details?.reason === "organization_not_granted")
    return "Pass one of the session's org_ids as org."
  if (code === "invalid_input" && details?.fields === undefined) return given
  return methodHints[code] ?? given
}
