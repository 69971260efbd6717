/**
 * The error envelope of IAM, Ting and the table service, and the outcome of the call for each status
 * (identity-service.md 3, notification-service.md 8, table-service.md 3). GitHub has its own: tracker/GitHubFailures.ts.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { NotExecuted, Refused, Unknown } from "../../services/UpstreamFailure.ts"
import type { FailureReader } from "./Upstream.ts"
import { readJson, retryAfterSeconds } from "./UpstreamResponse.ts"

interface EnvelopeOptions {
  /** Response header with the request id, lower case; used when the envelope has none. */
  readonly requestIdHeader: string
  /** Seconds; cuts a longer `Retry-After`. */
  readonly maxRetryAfterSeconds?: number
  /** Code of a 503 that guarantees that nothing was done. */
  readonly notExecutedCode?: string
}

export const codePattern = /^[a-z][a-z0-9_]{0,63}$/

const readEnvelope = readJson(
  Schema.Struct({
    error: Schema.Struct({
      code: Schema.String.pipe(Schema.pattern(codePattern)),
      message: Schema.String,
      request_id: Schema.optional(Schema.NullOr(Schema.String))
    })
  })
)

const isRequestId = Schema.is(Schema.String.pipe(Schema.pattern(/^[A-Za-z0-9._-]{1,128}$/)))

/**
 * A 4xx with an envelope is a refusal, and so is any 429. Redirects, 5xx and everything without an envelope are an unknown
 * outcome, except for a 503 with `notExecutedCode`.
 */
export const envelopeFailure =
  ({ maxRetryAfterSeconds, notExecutedCode, requestIdHeader }: EnvelopeOptions): FailureReader =>
  (dependency, response) => {
    const { headers, status } = response
    if (status < 400)
      return new Unknown({ dependency, reason: `answered ${status}, which is outside its contract` })
    const error = Either.getOrUndefined(readEnvelope(response))?.error
    const seconds = retryAfterSeconds(response, maxRetryAfterSeconds)
    const requestId = [error?.request_id, headers[requestIdHeader]].find(isRequestId)
    const refusal = { dependency, status, requestId }
    if (status === 429)
      return new Refused({ ...refusal, code: error?.code ?? "rate_limited", retryAfterSeconds: seconds ?? 1 })
    const pause = { dependency, retryAfterSeconds: seconds }
    if (error === undefined)
      return new Unknown({ ...pause, reason: `answered ${status}, but in a form outside its contract` })
    const { code } = error
    if (status < 500) return new Refused({ ...refusal, ...pause, code })
    const reason = `answered ${status} ${code}`
    return status === 503 && code === notExecutedCode
      ? new NotExecuted({ ...pause, reason })
      : new Unknown({ ...pause, reason })
  }
