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

/** `cause` is an error of `fetch` or of an `HttpClient`; `host` is the host of the request. */
export const describeConnectionFailure = (
  facts: { readonly cause: unknown; readonly originRefused: boolean },
  host: string
): ConnectionProblem => {
  const codes = codesOf(facts.cause)
  const known = codes.find((code) => reasonOf(code) !== undefined)
  const reason = facts.originRefused
    ? "cors"
    : ((known === undefined ? undefined : reasonOf(known)) ?? "network")
  const { hint, message, retryable } = rows[reason]
  const code = known ?? codes[0]
  return {
    reason,
    retryable,
    message: `${host}: ${message}${code === undefined ? "" : ` (${code})`}`,
    hint
  }
}
