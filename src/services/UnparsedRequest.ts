/** The answer to bytes that never become a request: Node gives no response object for them, only the connection. */
import { STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { failureStatus, toEnvelope } from "../schema/Envelope.ts"
import { type Failure, InvalidInput } from "../schema/Failure.ts"
import { securityHeaders } from "../schema/SecurityHeaders.ts"
import { resolveRequestId } from "./RequestId.ts"

/** Milliseconds that a refused client has to read the answer before its connection is cut. */
const lingerMillis = 1_000

/** 408: the request did not arrive completely in time. */
export const requestTimeout = (): InvalidInput =>
  new InvalidInput({
    status: 408,
    message: "The request did not arrive in time.",
    hint: "Send the complete request without pauses, and retry with the same key."
  })

/** By Node's error code. */
const failures: Readonly<Record<string, Failure>> = {
  HPE_HEADER_OVERFLOW: new InvalidInput({
    status: 431,
    message: "The headers of the request are too large.",
    hint: "Send at most 16 KiB of headers."
  }),
  ERR_HTTP_REQUEST_TIMEOUT: requestTimeout()
}

const malformed = new InvalidInput({
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
