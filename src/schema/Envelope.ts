/** The envelope: the response body, status and headers of every failure (docs/api.md, "Errors"). */
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as Schema from "effect/Schema"
import { Details, type Failure, type FailureCode, failureTable } from "./Failure.ts"
import { mayBeAbsent } from "./Fields.ts"

/** `rate_limited` is `RateLimited` in the document. */
export const failureName = (code: FailureCode): string =>
  code.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** The wire form of every error response. */
export const Envelope = <Code extends FailureCode>(code: Code) =>
  Schema.Struct({
    error: Schema.Struct({
      code: Schema.Literal(code),
      message: Schema.String,
      hint: Schema.String,
      retryable: Schema.Boolean,
      details: mayBeAbsent(Details)
    })
  }).annotations({
    ...HttpApiSchema.annotations({ status: failureTable[code].status }),
    identifier: failureName(code),
    description: failureTable[code].message
  })

export const failureStatus = (failure: Failure): number => failure.status ?? failureTable[failure.code].status

/**
 * Headers of every answer, also of refusals that no handler gave (docs/api.md, "Conventions"). An answer is data for a program:
 * a browser must neither render nor frame it, nor guess its type. CORS says which pages read it. `Cross-Origin-Resource-Policy` allows a page of
 * any origin to learn that the service answers: so `music-client` distinguishes an origin that is not allowed from a lost connection.
 * `Strict-Transport-Security` is left to the proxy that ends TLS.
 */
export const securityHeaders = {
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "cross-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY"
} as const

/** Drops what is not part of the contract. */
const encodeDetails = Schema.encodeSync(Details)

/** The response body of a failure. */
export const toEnvelope = (failure: Failure) => ({
  error: {
    code: failure.code,
    message: failure.message,
    hint: failure.hint,
    retryable: failureTable[failure.code].retryable,
    ...(failure.details === undefined ? {} : { details: encodeDetails(failure.details) })
  }
})

/** The response headers of a failure. */
export const failureHeaders = (failure: Failure): Readonly<Record<string, string>> => {
  const isBrief = failureStatus(failure) === 429 || failure.code === "idempotency_in_progress"
  const retryAfter = failure.retryAfterSeconds ?? (isBrief ? 1 : undefined)
  return {
    ...(retryAfter === undefined ? {} : { "retry-after": String(Math.max(1, Math.ceil(retryAfter))) }),
    ...(failure.allow === undefined ? {} : { allow: failure.allow }),
    ...(failure.code === "unauthenticated" ? { "www-authenticate": "Bearer" } : {})
  }
}
