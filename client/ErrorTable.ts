/** Message and hint of the client's own failures, by code. */

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
    hint: "Check the network and the base URL, then try again; your session is kept."
  },
  timed_out: {
    retryable: true,
    message: "No answer arrived before the deadline.",
    hint: "Retry: the same idempotency keys are sent, so a retry has no second effect; your session is kept."
  },
  unexpected_answer: {
    retryable: true,
    message: "The answer did not come from the service.",
    hint: "Check the base URL and intermediaries (proxy, captive portal), then try again; your session is kept."
  },
  aborted: {
    retryable: true,
    message: "The caller aborted the call.",
    hint: "Call again to get the result; the same idempotency keys are sent, so a retry has no second effect."
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
  }
} as const satisfies Record<string, Row>

export type ClientErrorCode = keyof typeof clientErrorTable
