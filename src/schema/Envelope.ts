/** The envelope: the response body, status and headers of every failure (docs/api.md, "Errors"). */
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as Schema from "effect/Schema"
import { Details, type Failure, type FailureCode, type failureClasses, failureTable } from "./Failure.ts"

/** The wire form of every error response. */
export const Envelope = <Code extends string>(code: Code) =>
  Schema.Struct({
    error: Schema.Struct({
      code: Schema.Literal(code),
      message: Schema.String,
      hint: Schema.String,
      retryable: Schema.Boolean,
      details: Schema.optionalWith(Details, { exact: true })
    })
  })

export const failureStatus = (failure: Failure): number => failure.status ?? failureTable[failure.code].status

/** The response body of a failure. */
export const toEnvelope = (failure: Failure) => ({
  error: {
    code: failure.code,
    message: failure.message,
    hint: failure.hint,
    retryable: failureTable[failure.code].retryable,
    ...(failure.details === undefined ? {} : { details: failure.details })
  }
})

/** The response headers of a failure. */
export const failureHeaders = (failure: Failure): Readonly<Record<string, string>> => {
  const retryAfter = failure.retryAfterSeconds ?? (failureStatus(failure) === 429 ? 1 : undefined)
  return {
    "cache-control": "no-store",
    ...(retryAfter === undefined ? {} : { "retry-after": String(Math.max(1, Math.ceil(retryAfter))) }),
    ...(failure.allow === undefined ? {} : { allow: failure.allow }),
    ...(failure.code === "unauthenticated" ? { "www-authenticate": "Bearer" } : {})
  }
}

type FailureClass = (typeof failureClasses)[FailureCode]

/**
 * The schema of a failure for the HttpApi: the envelope on the wire, the class in programs. The class instance selects the schema,
 * so that no defect is encoded as a declared error.
 */
export const wire = <C extends FailureClass>(failureClass: C) => {
  const code = codeOf(failureClass)
  return Schema.transform(Envelope(code), Schema.instanceOf(failureClass), {
    strict: false,
    decode: ({ error }: { readonly error: { message: string; hint: string; details?: Details } }) =>
      new failureClass({
        message: error.message,
        hint: error.hint,
        ...(error.details === undefined ? {} : { details: error.details })
      }),
    encode: (failure: Failure) => toEnvelope(failure)
  }).annotations({
    ...HttpApiSchema.annotations({ status: failureTable[code].status }),
    identifier: failureClass.name,
    description: failureTable[code].message
  })
}

const codeOf = (failureClass: FailureClass): FailureCode => new failureClass({}).code
