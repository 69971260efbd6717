/** A response as plain data, and writing it to the connection. */
import type { IncomingMessage, ServerResponse } from "node:http"
import { securityHeaders } from "../../schema/SecurityHeaders.ts"

export interface HttpResponse {
  readonly status: number
  /** Names in lower case. Those of `securityHeaders` are added, unless they are among these. */
  readonly headers: Readonly<Record<string, string>>
  /** None for a status without content. */
  readonly body?: string | Uint8Array
}

export const jsonResponse = (
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {}
): HttpResponse => ({
  status,
  headers: { ...headers, "content-type": "application/json" },
  body: JSON.stringify(value)
})

/** Whether reading a body began and its end has not arrived: the connection can then serve no other request. */
const isPartlyRead = ({ complete, readableFlowing }: IncomingMessage): boolean =>
  // Node keeps `readableFlowing` at null until a stream gets its first consumer.
  readableFlowing !== null && !complete

/** Whether the body was refused while it arrives. Its rest would be read as the next request, so the connection ends. */
export const leavesUnreadBody = (message: IncomingMessage, status: number): boolean =>
  isPartlyRead(message) || (status === 413 && !message.complete)

/** Milliseconds of Node's timers, because they bound the time of a socket. */
const lingerMillis = 5_000
/** The same while the process drains: a client that has its answer must not delay the exit. */
const lingerMillisWhileDraining = 1_000

/** Reads and drops the rest of a request, until its end or the timeout; then calls `done`. */
const discardRest = (message: IncomingMessage, milliseconds: number, done: () => void): void => {
  const finish = () => {
    clearTimeout(timer)
    message.off("end", finish).off("close", finish).off("error", finish)
    done()
  }
  const timer = setTimeout(finish, milliseconds)
  if (message.complete || message.destroyed) finish()
  else {
    message.on("end", finish).on("close", finish).on("error", finish)
    message.resume()
  }
}

/**
 * Writes the response. While the client still sends a refused body, the connection stays open after the response, which is
 * complete by its length: closing with unread bytes would make the kernel reset the connection, and the client would
 * not see the response.
 */
export const writeResponse = (
  message: IncomingMessage,
  target: ServerResponse,
  { body, headers: given, status }: HttpResponse,
  { closing, draining }: { readonly closing: boolean; readonly draining: boolean }
): void => {
  // The connection is gone; writing to it would raise an error that nothing handles.
  if (target.destroyed || target.writableEnded) return
  const headers = { ...securityHeaders, ...given }
  if (body === undefined) {
    target.writeHead(status, headers)
    target.end()
    return
  }
  target.writeHead(status, { ...headers, "content-length": String(Buffer.byteLength(body)) })
  if (closing && !message.complete) {
    // `write` does not send the head of a response to HEAD.
    if (message.method === "HEAD") target.flushHeaders()
    else target.write(body)
    discardRest(message, draining ? lingerMillisWhileDraining : lingerMillis, () => target.end())
  } else target.end(body)
}
