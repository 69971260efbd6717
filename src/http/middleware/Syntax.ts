/** Answers for what never becomes a request: the parser's errors arrive on the socket, with no response object. */
import { type Server, type ServerResponse, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { type Failure, type FailureCode, InvalidInput, NotFound, toEnvelope } from "../../schema/Failure.ts"
import { requestIdOf } from "./RequestId.ts"

/** Milliseconds that a refused peer has to read the answer before its connection is cut. */
const patience = 1_000

interface Answer {
  readonly status: number
  readonly failure: Failure
}

const answers: Readonly<Record<string, Answer>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    failure: new InvalidInput({
      message: "The headers of the request are too large.",
      hint: "Send at most 16 KiB of headers."
    })
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    failure: new InvalidInput({
      message: "The request did not arrive in time.",
      hint: "Send the whole request without pauses, and retry with the same key."
    })
  }
}

const malformed: Answer = {
  status: 400,
  failure: new InvalidInput({
    message: "The request is not well-formed HTTP.",
    hint: "Send a complete HTTP/1.1 request; a body must have the length that its headers declare."
  })
}

const rawResponse = ({ status, failure }: Answer, requestId: string): string => {
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

/** An answer that has begun cannot be replaced by another. Node keeps the response in hand in an undeclared member. */
const hasBegun = (socket: Duplex): boolean =>
  (socket as Duplex & { readonly _httpMessage?: ServerResponse })._httpMessage?.headersSent === true

/** Tells of an answer that no handler gave. */
export type Report = (facts: {
  readonly status: number
  readonly code: FailureCode
  readonly request_id: string
}) => void

/** Gives bad syntax, oversized headers, late requests and CONNECT the same envelope and a request id. */
export const answerSyntaxErrors = (server: Server, report: Report): void => {
  const end = (socket: Duplex, answer: Answer) => {
    const requestId = requestIdOf(undefined)
    socket.end(rawResponse(answer, requestId))
    setTimeout(() => socket.destroy(), patience).unref()
    report({ status: answer.status, code: answer.failure.code, request_id: requestId })
  }
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (socket.writableEnded) return
    if (error.code === "ECONNRESET" || !socket.writable || hasBegun(socket)) socket.destroy()
    else end(socket, answers[error.code ?? ""] ?? malformed)
  })
  server.on("connect", (_, socket) => end(socket, { status: 404, failure: new NotFound() }))
}
