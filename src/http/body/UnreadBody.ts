/** The connection of a request whose body was refused while it arrives. Its rest would be read as the next request, so the connection ends. */
import type { IncomingMessage } from "node:http"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

type Response = HttpServerResponse.HttpServerResponse

export const leavesUnreadBody = (
  { complete, readableFlowing }: IncomingMessage,
  { status }: Response
): boolean =>
  // Node keeps `readableFlowing` at null until a stream gets its first consumer.
  !complete && (readableFlowing !== null || status === 413)

/** Reads and drops the rest of a request, for a time of Node's timers, because it bounds that of a socket. */
const discardRest = (message: IncomingMessage, millis: number): Effect.Effect<void> =>
  Effect.async((resume) => {
    const finish = () => {
      clearTimeout(timer)
      message.off("end", finish).off("close", finish).off("error", finish)
      resume(Effect.void)
    }
    const timer = setTimeout(finish, millis)
    message.on("end", finish).on("close", finish).on("error", finish)
    message.resume()
  })

/**
 * The response, complete by its length, on a connection that stays open while the client sends the rest of a refused body: closing with
 * unread bytes would make the kernel reset the connection, and the client would not see the response.
 */
export const lingering = (response: Response, message: IncomingMessage, millis: number): Response => {
  const { body, headers, status } = response
  if (body._tag !== "Uint8Array" || message.complete) return response
  const rest = Stream.drain(Stream.fromEffect(discardRest(message, millis)))
  return HttpServerResponse.stream(Stream.concat(Stream.make(body.body), rest), {
    status,
    headers,
    contentLength: body.body.length
  })
}
