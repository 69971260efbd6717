/** Answers bytes that never become a request: the parser's errors arrive on the socket, without a response object. */
import { type Server, STATUS_CODES } from "node:http"
import { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { failureStatus, toEnvelope } from "../../schema/Envelope.ts"
import { type Failure, type FailureCode, InvalidInput, NotFound } from "../../schema/Failure.ts"
import { resolveRequestId } from "../../services/RequestId.ts"
import { peerAddress, toNetwork } from "./ClientAddress.ts"
import type { Connections } from "./Connections.ts"
import { securityHeaders } from "../../schema/SecurityHeaders.ts"

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

/** Reports an answer that no handler gave, and the network of the connection. */
export type Report = (
  facts: { readonly status: number; readonly code: FailureCode; readonly request_id: string },
  clientNetwork: string
) => void

/**
 * Answers bad syntax, oversized headers, late requests and CONNECT with the envelope and a request id. Complete requests
 * before it on the same connection are answered first: the error must not pass for the answer to one of them.
 */
export const answerClientErrors = (server: Server, connections: Connections, report: Report): void => {
  // The parser fails again at every further packet.
  const refused = new WeakSet<Duplex>()
  const refuse = (socket: Duplex, failure: Failure) => {
    refused.add(socket)
    connections.afterAnswers(socket, () => {
      if (!socket.writable) {
        socket.destroy()
        return
      }
      const requestId = resolveRequestId(undefined)
      const clientNetwork = socket instanceof Socket ? toNetwork(peerAddress(socket)) : ""
      socket.end(formatResponse(failure, requestId))
      setTimeout(() => socket.destroy(), lingerMillis).unref()
      report({ status: failureStatus(failure), code: failure.code, request_id: requestId }, clientNetwork)
    })
  }
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (refused.has(socket)) return
    if (error.code === "ECONNRESET" || !socket.writable || connections.hasPartialExchange(socket))
      socket.destroy()
    else refuse(socket, failures[error.code ?? ""] ?? malformed)
  })
  server.on("connect", (_, socket) => {
    // Node removes its own error listener before it emits `connect`; without one a reset would end the process.
    socket.on("error", () => socket.destroy())
    // Discards what still arrives: unread bytes would turn the close into a reset.
    socket.resume()
    refuse(socket, new NotFound())
  })
}
