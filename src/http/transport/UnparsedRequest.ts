/**
 * Bytes that never become a request, such as the parser's errors: Node gives no response object for them, only the connection. And
 * requests whose framing another program may read differently.
 */
import { type IncomingMessage, type Server, STATUS_CODES } from "node:http"
import { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { failureStatus, securityHeaders, toEnvelope } from "../../schema/Envelope.ts"
import { Failure, refuseField } from "../../schema/Failure.ts"
import { newRequestId } from "../middleware/Exchange.ts"
import { peerAddress, toNetwork } from "./ClientAddress.ts"
import type { Connections } from "./Connections.ts"

/** Milliseconds that a refused client has to read the answer before its connection is cut. */
const lingerMillis = 1_000

/** Connections with a request of another framing than this server's: nothing behind it is a request, nor an error to answer. */
export const misframed = new WeakSet<Duplex>()

/**
 * Refuses a request that Node's parser takes, but a program before this one may read with another end: then the bytes
 * behind it would be another request (RFC 9112, 6.1 and 11.2).
 */
export const checkFraming = ({ headers, httpVersion, socket }: IncomingMessage): Failure | undefined => {
  const isServed = httpVersion === "1.1" || httpVersion === "1.0"
  const coding = headers["transfer-encoding"]?.toLowerCase()
  if (isServed && (coding === undefined || (coding === "chunked" && httpVersion === "1.1"))) return undefined
  misframed.add(socket)
  return isServed
    ? refuseField("Transfer-Encoding", "must be `chunked` alone, in HTTP/1.1")
    : refuseField("HTTP version", "must be 1.1 or 1.0")
}

/** By Node's error code. */
const failures: Readonly<Record<string, Failure>> = {
  HPE_HEADER_OVERFLOW: new Failure("invalid_input", {
    status: 431,
    message: "The headers of the request are too large.",
    hint: "Send at most 16 KiB of headers."
  }),
  ERR_HTTP_REQUEST_TIMEOUT: new Failure("request_timeout")
}

const malformed = new Failure("invalid_input", {
  message: "The request is not well-formed HTTP.",
  hint: "Send a complete HTTP/1.1 request; a body must have the length that its headers declare."
})

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

/**
 * Answers bad syntax, oversized headers, late requests and CONNECT with the envelope and a request id, ends the connection, and reports
 * the answer and the network of its connection. Complete requests before it on the same connection are answered first: the error must not
 * pass for the answer to one of them.
 */
export const answerClientErrors = (
  server: Server,
  connections: Connections,
  report: (failure: Failure, requestId: string, clientNetwork: string) => void
): void => {
  // The parser fails again at every further packet.
  const refused = new WeakSet<Duplex>()
  const refuse = (socket: Duplex, failure: Failure) => {
    refused.add(socket)
    connections.afterAnswers(socket, () => {
      if (!socket.writable) {
        socket.destroy()
        return
      }
      const requestId = newRequestId()
      socket.end(formatResponse(failure, requestId))
      setTimeout(() => socket.destroy(), lingerMillis).unref()
      report(failure, requestId, socket instanceof Socket ? toNetwork(peerAddress(socket)) : "")
    })
  }
  server.on("clientError", ({ code = "" }: NodeJS.ErrnoException, socket) => {
    if (refused.has(socket) || misframed.has(socket)) return
    if (code === "ECONNRESET" || !socket.writable || connections.hasPartialExchange(socket)) socket.destroy()
    else refuse(socket, failures[code] ?? malformed)
  })
  server.on("connect", (_, socket) => {
    // Node removes its own error listener before it emits `connect`; without one a reset would end the process.
    socket.on("error", () => socket.destroy())
    // Discards what still arrives: unread bytes would turn the close into a reset.
    socket.resume()
    refuse(socket, new Failure("not_found"))
  })
}
