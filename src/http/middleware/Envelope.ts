import { HttpApiDecodeError } from "@effect/platform/HttpApiError"
import * as HttpServerError from "@effect/platform/HttpServerError"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import {
  type Failure,
  failureHeaders,
  failureStatus,
  Internal,
  InvalidInput,
  isFailure,
  NotFound,
  toEnvelope
} from "../../schema/Failure.ts"
import type { RequestState } from "./RequestState.ts"
import { fieldsOf } from "../body/ValidationErrors.ts"

/** What went wrong, as one of the declared failures. A defect is logged with its cause and tells the caller nothing. */
export const failureOf = (cause: Cause.Cause<unknown>, exchange: RequestState): Effect.Effect<Failure> => {
  const error = Cause.squash(cause)
  if (isFailure(error)) return Effect.succeed(error)
  // The same class says that our own answer did not fit its schema.
  if (error instanceof HttpApiDecodeError && !exchange.decoded) {
    return Effect.succeed(new InvalidInput({ details: { fields: fieldsOf(error.issues) } }))
  }
  if (error instanceof HttpServerError.RouteNotFound) return Effect.succeed(new NotFound())
  return Effect.as(Effect.logError("Request failed", cause), new Internal())
}

/** The one form of every error response. */
export const responseOf = (failure: Failure): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(JSON.stringify(toEnvelope(failure)), {
    status: failureStatus(failure),
    contentType: "application/json",
    headers: failureHeaders(failure)
  })
