import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { failureHeaders, failureStatus, toEnvelope } from "../../schema/Envelope.ts"
import { type Failure, Internal, isFailure } from "../../schema/Failure.ts"

/**
 * The declared failure of a cause. Anything else, such as a defect or a success that does not fit its schema, is logged
 * with its cause and becomes `internal`.
 */
export const toFailure = (cause: Cause.Cause<unknown>): Effect.Effect<Failure> => {
  const error = Option.getOrUndefined(Cause.failureOption(cause))
  return isFailure(error)
    ? Effect.succeed(error)
    : Effect.as(Effect.logError("Request failed", cause), new Internal())
}

/** The envelope, which every error response has. */
export const toResponse = (failure: Failure): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(JSON.stringify(toEnvelope(failure)), {
    status: failureStatus(failure),
    contentType: "application/json",
    headers: failureHeaders(failure)
  })
