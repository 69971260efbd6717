import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { failureHeaders, failureStatus, toEnvelope } from "../../schema/Envelope.ts"
import { type Failure, Internal, isFailure } from "../../schema/Failure.ts"
import { type HttpResponse, jsonResponse } from "../transport/HttpResponse.ts"
import type { Call, Endpoint } from "./Routes.ts"

const declared = new WeakMap<Endpoint, (failure: unknown) => boolean>()

/** Whether the contract of the endpoint declares the failure. */
const declares = (endpoint: Endpoint, failure: Failure): boolean => {
  const known = declared.get(endpoint)
  if (known !== undefined) return known(failure)
  // Compiled at the endpoint's first failure.
  const made = Schema.is(endpoint.errorSchema)
  declared.set(endpoint, made)
  return made(failure)
}

/**
 * The failure of a cause. Anything else, such as a defect or a success that does not fit its schema, is logged with its cause
 * and becomes `internal`. An undeclared failure is a gap in the contract: it is logged, and reaches the caller all the same.
 */
export const toFailure = (cause: Cause.Cause<unknown>, call: Call | undefined): Effect.Effect<Failure> => {
  const error = Option.getOrUndefined(Cause.failureOption(cause))
  if (!isFailure(error)) return Effect.as(Effect.logError("Request failed", cause), new Internal())
  return call?.endpoint === undefined || declares(call.endpoint, error)
    ? Effect.succeed(error)
    : Effect.as(
        Effect.logWarning("A call returned a failure that it does not declare", { code: error.code }),
        error
      )
}

/** The envelope, which every error response has. */
export const toResponse = (failure: Failure): HttpResponse =>
  jsonResponse(failureStatus(failure), toEnvelope(failure), failureHeaders(failure))
