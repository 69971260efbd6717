/**
 * The client's own failures, by code and by reason, and hints in terms of the client's methods for those of the service. No text of the
 * table holds a credential.
 */
import type { FailureCode } from "../../src/schema/FailureTable.ts"

interface Row {
  readonly retryable: boolean
  /** Without the full stop: a place and a code may follow. */
  readonly message: string
  readonly hint: string
}

export const clientErrorTable = {
  not_logged_in: {
    retryable: false,
    message: "There is no session for this server and plane",
    hint: "Log in with a short-lived token."
  },
  logged_out: {
    retryable: false,
    message: "The session has ended",
    hint: "Log in again with a new short-lived token."
  },
  transport_failed: {
    retryable: true,
    message: "The service could not be reached, or the connection was lost",
    hint: "Check the network and baseUrl, then try again; your session is kept."
  },
  timed_out: {
    retryable: true,
    message: "No answer arrived before the deadline",
    hint: "Call again; your session is kept."
  },
  unexpected_answer: {
    retryable: true,
    message: "The answer did not come from the service",
    hint: "Check baseUrl and intermediaries (proxy, captive portal), then try again; your session is kept."
  },
  aborted: {
    retryable: true,
    message: "The caller aborted the call",
    hint: "Call again to get the result."
  },
  store_failed: {
    retryable: true,
    message: "The stored session could not be read, written or locked",
    hint: "Make the session store readable and writable, then try again within 10 minutes of a login or refresh."
  },
  queue_full: {
    retryable: true,
    message: "The telemetry queue is full",
    hint: "Drop the event, or record it again after the next flush."
  },
  unsupported: {
    retryable: false,
    message: "This environment has no Web Crypto",
    hint: "Serve the page over https or from localhost, or run Node 20 or newer."
  },
  client_defect: {
    retryable: false,
    message: "The client failed with a defect",
    hint: "The outcome of the call is unknown; report this as a bug of the client."
  }
} as const satisfies Record<string, Row>

/** The codes of the client itself. */
export type ClientErrorCode = keyof typeof clientErrorTable

/** A reason: the system's codes and names of errors that lead to it, and what differs from the row of its code. */
interface Reason extends Partial<Row> {
  readonly message: string
  readonly codes?: RegExp
}

export const reasonTable = {
  transport_failed: {
    not_sent: {
      codes: /^ERR_INVALID_(?:ARG_TYPE|URL)$/,
      retryable: false,
      message: "The request was not sent, because fetch refuses it",
      hint: "Check the port in baseUrl, which browsers may block, and a fetch of your own; the cause has the error."
    },
    refused: {
      codes: /^ECONNREFUSED$/,
      message: "The connection was refused, because nothing listens there",
      hint: "Check that the service runs, and its port in baseUrl; your session is kept."
    },
    name_not_found: {
      codes: /^(?:ENOTFOUND|EAI_NONAME)$/,
      retryable: false,
      message: "The host name is not known",
      hint: "Check the host name in baseUrl, and this machine's network; your session is kept."
    },
    name_lookup_failed: {
      codes: /^EAI_(?:AGAIN|FAIL)$/,
      message: "The host name could not be looked up",
      hint: "Check this machine's network, then try again; your session is kept."
    },
    unreachable: {
      codes: /^(?:E(?:HOST|NET)(?:UNREACH|DOWN)|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)$/,
      message: "The host cannot be reached",
      hint: "Check this machine's network and firewalls, then try again; your session is kept."
    },
    certificate: {
      codes:
        /^(?:CERT_|ERR_TLS_CERT_|UNABLE_TO_|DEPTH_ZERO_SELF_SIGNED_CERT$|SELF_SIGNED_CERT_IN_CHAIN$|HOSTNAME_MISMATCH$)/,
      retryable: false,
      message: "The server's certificate is not accepted",
      hint: "Check the host name in baseUrl, the certificate's end and this machine's clock. In Node, NODE_EXTRA_CA_CERTS names a private authority."
    },
    tls: {
      codes: /^(?:EPROTO$|ERR_SSL_)/,
      retryable: false,
      message: "The server does not speak TLS there",
      hint: "Check the port in baseUrl, and whether it begins with https:// or http://."
    },
    cors: {
      retryable: false,
      message: "The service does not allow this page's origin",
      hint: "An operator must add the page's origin to MUSIC_WEB_ORIGINS."
    },
    not_http: {
      codes: /^(?:HPE_|HTTPParserError$|UND_ERR_HEADERS_OVERFLOW$)/,
      retryable: false,
      message: "What answers there does not speak HTTP, or not in a form that is read",
      hint: "Check the port in baseUrl; the cause has the error."
    },
    connection_lost: {
      codes: /^(?:ECONNRESET|ECONNABORTED|EPIPE|UND_ERR_(?:SOCKET|HEADERS_TIMEOUT|BODY_TIMEOUT))$/,
      message: "The connection was lost before the answer",
      hint: "Call again; your session is kept."
    },
    network: { message: "There is no connection" }
  },
  unexpected_answer: {
    not_json: { message: "The answer did not come from the service, because it is no JSON" },
    incomplete: { message: "The answer was cut off" },
    too_large: { message: "The answer is longer than the client reads" },
    outside_contract: {
      message: "The answer is not what this version of the client understands",
      hint: "Check that baseUrl is a music backend, and whether a newer version of the client exists."
    },
    other_plane: { message: "The service answered for another plane", hint: "Check testingKey." },
    redirect: {
      message: "The server redirects to another address",
      hint: "Check baseUrl: the client follows no redirect."
    }
  },
  store_failed: {
    corrupt: {
      codes: /^SyntaxError$/,
      retryable: false,
      message: "The stored session is corrupt",
      hint: "Log in, which replaces it, or log out, which removes it."
    },
    no_space: {
      codes: /^(?:ENOSPC|EDQUOT|EFBIG|QuotaExceededError)$/,
      message: "No space is left to store the session",
      hint: "Free some space and retry."
    },
    permission: {
      codes: /^(?:EACCES|EPERM|EROFS|SecurityError|NotAllowedError)$/,
      retryable: false,
      message: "Access to the session store is denied",
      hint: "Let this program read and write the store and its folder, or give it another one."
    },
    misconfigured: {
      codes:
        /^(?:ENOTDIR|EISDIR|EEXIST|ELOOP|ENAMETOOLONG|ENOTSUP|ENOSYS|ERR_INVALID_ARG_(?:TYPE|VALUE)|NotFoundError|VersionError)$/,
      retryable: false,
      message: "The place of the session store cannot be used",
      hint: "Give the store another place, or remove what is in its way."
    },
    locked: {
      codes: /^(?:AbortError|TimeoutError)$/,
      message: "The wait for the session lock ended, because another program or call holds it",
      hint: "Retry after a short pause."
    },
    unavailable: {
      codes: /^(?:E[A-Z0-9]{2,19}|InvalidStateError|UnknownError)$/,
      message: "The session store failed",
      hint: "Check the store and retry."
    }
  }
} satisfies Partial<Record<ClientErrorCode, Record<string, Reason>>>

type Reasons = typeof reasonTable
/** The codes that have reasons. */
export type ReasonedCode = keyof Reasons
export type ReasonOf<Code extends ReasonedCode> = Extract<keyof Reasons[Code], string>

/** The row of a reason. */
export const rowOf = <Code extends ReasonedCode>(code: Code, reason: ReasonOf<Code>): Row => ({
  ...clientErrorTable[code],
  ...(reasonTable[code][reason] as Reason)
})

/** The reason to which a code of the system or the name of an error leads. */
export const findReason = <Code extends ReasonedCode>(
  code: Code,
  found: string
): ReasonOf<Code> | undefined =>
  (Object.entries<Reason>(reasonTable[code]) as Array<[ReasonOf<Code>, Reason]>).find(
    ([, { codes }]) => codes?.test(found) === true
  )?.[0]

/** A message with what it is about, such as a host or a file, and with a code or a status. */
export const sentenceOf = (message: string, place?: string, code?: string): string =>
  `${message}${place === undefined ? "" : `: ${place}`}${code === undefined ? "" : ` (${code})`}.`

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
  recipient_not_registered: "Call subscribe(), then ting() again with the same key.",
  origin_not_allowed:
    "An operator must add this page's origin to MUSIC_WEB_ORIGINS; pages cannot write to the daemon's table.",
  not_found: "Check baseUrl; for a ting, use a type that iam() lists.",
  rate_limited: "Wait for retryAfterSeconds, then call again.",
  temporarily_rate_limited: "Wait for retryAfterSeconds, then call again with the same key.",
  internal: "Report the requestId to the operator; the service's log has the cause under this id.",
  overloaded: "Wait for retryAfterSeconds, then call again.",
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
