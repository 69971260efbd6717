/** Why an exchange failed, from what the platform reports. Plain functions. */
import type { ConnectionReason } from "../Types.ts"

export interface ConnectionProblem {
  readonly reason: ConnectionReason
  /** Whether waiting can help. */
  readonly retryable: boolean
  readonly message: string
  readonly hint: string
}

interface Row {
  readonly retryable: boolean
  readonly message: string
  readonly hint: string
}

const rows: Readonly<Record<ConnectionReason, Row>> = {
  not_sent: {
    retryable: false,
    message: "the request was not sent: fetch refuses it.",
    hint: "Check the port in baseUrl, which browsers may block, and a fetch of your own; the cause has the error."
  },
  refused: {
    retryable: true,
    message: "the connection was refused: nothing listens there.",
    hint: "Check that the service runs, and its port in baseUrl; your session is kept."
  },
  name_not_found: {
    retryable: false,
    message: "the host name is not known.",
    hint: "Check the host name in baseUrl, and this machine's network; your session is kept."
  },
  name_lookup_failed: {
    retryable: true,
    message: "the host name could not be looked up.",
    hint: "Check this machine's network, then try again; your session is kept."
  },
  unreachable: {
    retryable: true,
    message: "the host cannot be reached.",
    hint: "Check this machine's network and firewalls, then try again; your session is kept."
  },
  certificate: {
    retryable: false,
    message: "the server's certificate is not accepted.",
    hint: "Check the host name in baseUrl, the certificate's end and this machine's clock. In Node, NODE_EXTRA_CA_CERTS names a private authority."
  },
  tls: {
    retryable: false,
    message: "the server does not speak TLS there.",
    hint: "Check the port in baseUrl, and whether it begins with https:// or http://."
  },
  cors: {
    retryable: false,
    message: "the service does not allow this page's origin.",
    hint: "An operator must add the page's origin to MUSIC_WEB_ORIGINS."
  },
  not_http: {
    retryable: false,
    message: "what answers there does not speak HTTP, or not in a form that is read.",
    hint: "Check the port in baseUrl; the cause has the error."
  },
  connection_lost: {
    retryable: true,
    message: "the connection was lost before the answer.",
    hint: "Call again; your session is kept."
  },
  network: {
    retryable: true,
    message: "no connection.",
    hint: "Check the network and baseUrl, then try again; your session is kept."
  }
}

/** System errors of Node and undici, by code. */
const reasons: Readonly<Record<string, ConnectionReason>> = {
  ECONNREFUSED: "refused",
  ENOTFOUND: "name_not_found",
  EAI_NONAME: "name_not_found",
  EAI_AGAIN: "name_lookup_failed",
  EAI_FAIL: "name_lookup_failed",
  EHOSTUNREACH: "unreachable",
  EHOSTDOWN: "unreachable",
  ENETUNREACH: "unreachable",
  ENETDOWN: "unreachable",
  ETIMEDOUT: "unreachable",
  UND_ERR_CONNECT_TIMEOUT: "unreachable",
  ECONNRESET: "connection_lost",
  ECONNABORTED: "connection_lost",
  EPIPE: "connection_lost",
  UND_ERR_SOCKET: "connection_lost",
  UND_ERR_HEADERS_TIMEOUT: "connection_lost",
  UND_ERR_BODY_TIMEOUT: "connection_lost",
  UND_ERR_HEADERS_OVERFLOW: "not_http",
  ERR_INVALID_ARG_TYPE: "not_sent",
  ERR_INVALID_URL: "not_sent",
  EPROTO: "tls",
  DEPTH_ZERO_SELF_SIGNED_CERT: "certificate",
  SELF_SIGNED_CERT_IN_CHAIN: "certificate",
  UNABLE_TO_GET_ISSUER_CERT: "certificate",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "certificate",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "certificate",
  HOSTNAME_MISMATCH: "certificate"
}

const reasonOf = (code: string): ConnectionReason | undefined => {
  if (Object.hasOwn(reasons, code)) return reasons[code]
  if (code.startsWith("ERR_SSL_")) return "tls"
  if (code.startsWith("HPE_")) return "not_http"
  return code.startsWith("CERT_") || code.startsWith("ERR_TLS_CERT_") ? "certificate" : undefined
}

/** The codes of an error, of its causes and of the errors that it unites, at most 20. */
const codesOf = (cause: unknown): ReadonlyArray<string> => {
  const codes: Array<string> = []
  const left: Array<unknown> = [cause]
  for (let count = 0; left.length > 0 && count < 20; count += 1) {
    const error = left.shift()
    if (typeof error !== "object" || error === null) continue
    if ("code" in error && typeof error.code === "string") codes.push(error.code)
    if ("cause" in error) left.push(error.cause)
    if ("errors" in error && Array.isArray(error.errors)) left.push(...error.errors)
  }
  return codes
}

/** Ports that `fetch` refuses (fetch.spec.whatwg.org, "Port blocking"). */
const blockedPorts = new Set(
  `1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 135 137 139 143 161 179 389 427 465
  512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665
  6666 6667 6668 6669 6679 6697 10080`.split(/\s+/)
)

/** `cause` is an error of `fetch` or of an `HttpClient`; `host` is the host of the request, with its port. */
export const describeConnectionFailure = (
  facts: { readonly cause: unknown; readonly originRefused: boolean; readonly isOwnFault: boolean },
  host: string
): ConnectionProblem => {
  const codes = codesOf(facts.cause)
  const known = codes.find((code) => reasonOf(code) !== undefined)
  const isBlocked = codes.length === 0 && blockedPorts.has(/:(\d+)$/.exec(host)?.[1] ?? "")
  const otherwise = facts.isOwnFault || isBlocked ? "not_sent" : "network"
  const reason = facts.originRefused
    ? "cors"
    : ((known === undefined ? undefined : reasonOf(known)) ?? otherwise)
  const { hint, message, retryable } = rows[reason]
  const code = known ?? codes[0]
  return {
    reason,
    retryable,
    message: `${host}: ${message}${code === undefined ? "" : ` (${code})`}`,
    hint
  }
}
