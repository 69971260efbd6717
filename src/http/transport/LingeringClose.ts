import type { IncomingMessage } from "node:http"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

/** Milliseconds of the wall clock, not of the program's: this is about a socket. */
const patience = 5_000
/** The same while the process ends, which must not wait for a client that has its answer. */
const patienceAtTheEnd = 1_000

/** Reads and drops what the client still sends. */
const discarded = (message: IncomingMessage, milliseconds: number): Effect.Effect<void> =>
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
 * The same answer, complete at once by its length, but the connection stays open while the client still sends. Closing
 * with unread bytes makes the kernel reset the connection, and the client would never see the answer.
 */
export const lingering = (
  response: HttpServerResponse.HttpServerResponse,
  message: IncomingMessage,
  draining: boolean
): HttpServerResponse.HttpServerResponse =>
  response.body._tag !== "Uint8Array"
    ? response
    : HttpServerResponse.stream(
        Stream.concat(
          Stream.make(response.body.body),
          Stream.execute(discarded(message, draining ? patienceAtTheEnd : patience))
        ),
        {
          status: response.status,
          headers: response.headers,
          contentType: response.body.contentType,
          contentLength: response.body.body.length
        }
      )
