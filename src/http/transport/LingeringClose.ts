import type { IncomingMessage } from "node:http"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

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

/** Reads and drops the rest of a request, until its end or the timeout. */
const discardRest = (message: IncomingMessage, milliseconds: number): Effect.Effect<void> =>
  Effect.async((resume) => {
    const done = () => {
      clearTimeout(timer)
      message.off("end", done).off("close", done).off("error", done)
      resume(Effect.void)
    }
    const timer = setTimeout(done, milliseconds)
    if (message.complete || message.destroyed) return done()
    message.on("end", done).on("close", done).on("error", done)
    message.resume()
    return Effect.sync(done)
  })

/**
 * Keeps the connection open after the response while the client still sends. The response is complete at once, by its
 * length. Closing with unread bytes would make the kernel reset the connection, and the client would not see the response.
 */
export const lingerOnClose = (
  response: HttpServerResponse.HttpServerResponse,
  message: IncomingMessage,
  draining: boolean
): HttpServerResponse.HttpServerResponse =>
  response.body._tag !== "Uint8Array"
    ? response
    : HttpServerResponse.stream(
        Stream.concat(
          Stream.make(response.body.body),
          Stream.execute(discardRest(message, draining ? lingerMillisWhileDraining : lingerMillis))
        ),
        {
          status: response.status,
          headers: response.headers,
          contentType: response.body.contentType,
          contentLength: response.body.body.length
        }
      )
