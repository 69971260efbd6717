/** Failures and successes as responses, and the connection after a refused body. */
import type { IncomingMessage } from "node:http"
import * as HttpApiError from "@effect/platform/HttpApiError"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { isLowerVersion } from "../../schema/ClientVersion.ts"
import { failureHeaders, failureStatus, toEnvelope } from "../../schema/Envelope.ts"
import { Failure } from "../../schema/Failure.ts"
import { securityHeaders } from "../../schema/SecurityHeaders.ts"
import { apiPrefix } from "../api/ApiPrefix.ts"
import { toFields } from "../body/ValidationErrors.ts"
import type { Exchange } from "./Exchange.ts"
import type { WebOrigins } from "./WebOrigins.ts"

type Response = HttpServerResponse.HttpServerResponse

/**
 * The failure of a cause. Anything else, such as a defect or a success that does not fit its schema, is logged with its cause
 * and becomes `internal`.
 */
export const toFailure = (
  cause: Cause.Cause<unknown>,
  { call, decoded }: Exchange
): Effect.Effect<Failure> => {
  const error = Cause.squash(cause)
  if (error instanceof Failure) return Effect.succeed(error)
  // The library has one error for a payload of the caller and for a success of ours.
  const ofCaller = !decoded && call !== undefined && call.bodyBound > 0
  return error instanceof HttpApiError.HttpApiDecodeError && ofCaller
    ? Effect.succeed(new Failure("invalid_input", { details: { fields: toFields(error.issues) } }))
    : Effect.as(Effect.logError("Request failed", cause), new Failure("internal"))
}

/** The envelope, which every error response has. */
export const toResponse = (failure: Failure): Response =>
  HttpServerResponse.unsafeJson(toEnvelope(failure), {
    status: failureStatus(failure),
    headers: failureHeaders(failure)
  })

const noStore = { "cache-control": "no-store" }

/**
 * The response with the headers that do not depend on its content (docs/api.md, "Conventions"): the request id always, `no-store` for
 * calls whose response may carry a credential, CORS, rate limits, the end of the connection, and under `/api/v1` the oldest
 * supported version for a client that sends a lower one.
 */
export const withHeaders =
  (origins: WebOrigins, minCli: string) =>
  (
    response: Response,
    { call, clientVersion, info, message, path, rateLimitHeaders }: Exchange,
    closing: boolean
  ): Response =>
    HttpServerResponse.setHeaders(response, {
      ...securityHeaders,
      ...response.headers,
      ...origins.responseHeaders(path, message.headers.origin),
      ...rateLimitHeaders,
      ...(call?.noStore === true ? noStore : {}),
      ...(call?.vary === undefined ? {} : { vary: call.vary }),
      ...(clientVersion !== undefined && path.startsWith(apiPrefix) && isLowerVersion(clientVersion, minCli)
        ? { "x-music-min-cli": minCli }
        : {}),
      ...(closing ? { connection: "close" } : {}),
      "x-request-id": info.requestId
    })

/** Whether the body was refused while it arrives. Its rest would be read as the next request, so the connection ends. */
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
  const rest = discardRest(message, millis)
  return HttpServerResponse.stream(
    Stream.concat(Stream.make(body.body), Stream.drain(Stream.fromEffect(rest))),
    { status, headers, contentLength: body.body.length }
  )
}
