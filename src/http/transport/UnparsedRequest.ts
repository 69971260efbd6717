/** The answer to bytes that never become a request: Node gives no response object for them, only the connection. */
import { type IncomingMessage, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { failureStatus, securityHeaders, toEnvelope } from "../../schema/Envelope.ts"
import { Failure } from "../../schema/Failure.ts"
import { resolveRequestId } from "../../services/RequestId.ts"

/** Milliseconds that a refused client has to read the answer before its connection is cut. */
const lingerMillis = 1_000

/** 408: the request did not arrive completely in time. */
export const requestTimeout = (): Failure<"invalid_input"> =>
  new Failure("invalid_input", {
    status: 408,
    message: "The request did not arrive in time.",
    hint: "Send the complete request without pauses, and retry with the same key."
  })

const invalidFraming = (path: string, problem: string): Failure<"invalid_input"> =>
  new Failure("invalid_input", {
    message: "The request's version or framing is not served.",
    hint: "Send HTTP/1.1, and a body by its Content-Length or by `Transfer-Encoding: chunked`.",
    details: { fields: [{ path, problem }] }
  })

/**
 * The refusal of a request that Node's parser takes, but a program before this one may read with another end: then the bytes
 * behind it would be another request (RFC 9112, 6.1 and 11.2).
 */
export const failureOfFraming = ({ headers, httpVersion }: IncomingMessage): Failure | undefined => {
  const coding = headers["transfer-encoding"]
  if (httpVersion !== "1.1" && httpVersion !== "1.0")
    return invalidFraming("HTTP version", "must be 1.1 or 1.0")
  if (coding === undefined) return undefined
  if (httpVersion === "1.0") return invalidFraming("Transfer-Encoding", "is not part of HTTP/1.0")
  return coding.toLowerCase() === "chunked"
    ? undefined
    : invalidFraming("Transfer-Encoding", "must be `chunked` alone")
}

/** By Node's error code. */
const failures: Readonly<Record<string, Failure>> = {
  HPE_HEADER_OVERFLOW: new Failure("invalid_input", {
    status: 431,
    message: "The headers of the request are too large.",
    hint: "Send at most 16 KiB of headers."
  }),
  ERR_HTTP_REQUEST_TIMEOUT: requestTimeout()
}

const malformed = new Failure("invalid_input", {
  message: "The request is not well-formed HTTP.",
  hint: "Send a complete HTTP/1.1 request; a body must have the length that its headers declare."
})

/** The refusal of what Node reports as `clientError`. */
export const failureOfParser = ({ code }: NodeJS.ErrnoException): Failure => failures[code ?? ""] ?? malformed

const formatResponse = (failure: Failure, requestId: string): string => {
  const status = failureStatus(failure)
  const body = JSON.stringify(toEnvelope(failure))
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`,
    `X-Request-Id: ${requestId}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    ...Object.entries(securityHeaders).map(([name, value]) => `${name}: ${value}`),
    "Connection: close",
    "",
    body
  ].join("\r\n")
}

/** Writes the failure with a new request id, which is returned, and ends the connection. All earlier answers must be written. */
export const refuseConnection = (socket: Duplex, failure: Failure): string => {
  const requestId = resolveRequestId(undefined)
  socket.end(formatResponse(failure, requestId))
  setTimeout(() => socket.destroy(), lingerMillis).unref()
  return requestId
}
