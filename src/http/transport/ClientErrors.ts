/** Answers for what never becomes a request: the parser's errors arrive on the socket, with no response object. */
import { type Server, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import {
  type Failure,
  type FailureCode,
  failureStatus,
  InvalidInput,
  NotFound,
  toEnvelope
} from "../../schema/Failure.ts"
import { resolveRequestId } from "../../services/RequestId.ts"
import type { Connections } from "./Connections.ts"
import { lateFailure } from "../middleware/Late.ts"

/** Milliseconds that a refused peer has to read the answer before its connection is cut. */
const patience = 1_000

const failures: Readonly<Record<string, Failure>> = {
  HPE_HEADER_OVERFLOW: new InvalidInput({
    status: 431,
    message: "The headers of the request are too large.",
    hint: "Send at most 16 KiB of headers."
  }),
  ERR_HTTP_REQUEST_TIMEOUT: lateFailure()
}

const malformed = new InvalidInput({
  message: "The request is not well-formed HTTP.",
  hint: "Send a complete HTTP/1.1 request; a body must have the length that its headers declare."
})

const rawResponse = (failure: Failure, requestId: string): string => {
  const status = failureStatus(failure)
  const body = JSON.stringify(toEnvelope(failure))
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`,
    `X-Request-Id: ${requestId}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    "Connection: close",
    "",
    body
  ].join("\r\n")
}

/** Tells of an answer that no handler gave. */
export type Report = (facts: {
  readonly status: number
  readonly code: FailureCode
  readonly request_id: string
}) => void

/**
 * Gives bad syntax, oversized headers, late requests and CONNECT the same envelope and a request id. What stands behind
 * whole requests on the same connection is answered after them: it must not pass for the answer to one of them.
 */
export const answerSyntaxErrors = (server: Server, connections: Connections, report: Report): void => {
  // The parser fails again with every further packet.
  const refused = new WeakSet<Duplex>()
  const end = (socket: Duplex, failure: Failure) => {
    refused.add(socket)
    connections.afterAnswers(socket, () => {
      if (!socket.writable) {
        socket.destroy()
        return
      }
      const requestId = resolveRequestId(undefined)
      socket.end(rawResponse(failure, requestId))
      setTimeout(() => socket.destroy(), patience).unref()
      report({ status: failureStatus(failure), code: failure.code, request_id: requestId })
    })
  }
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (refused.has(socket)) return
    if (error.code === "ECONNRESET" || !socket.writable || connections.answersHalf(socket)) socket.destroy()
    else end(socket, failures[error.code ?? ""] ?? malformed)
  })
  server.on("connect", (_, socket) => {
    // Node takes its own listeners off before it gives the connection away: a reset would end the process.
    socket.on("error", () => socket.destroy())
    // Nobody reads what comes now, and unread bytes would turn the end into a reset.
    socket.resume()
    end(socket, new NotFound())
  })
}
