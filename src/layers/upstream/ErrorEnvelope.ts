/**
 * The error envelope of IAM, Ting and the table service, and the outcome of the call for each status
 * (identity-service.md 3, notification-service.md 8, table-service.md 3). GitHub has its own: tracker/GitHubFailures.ts.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { NotExecuted, Refused, Unknown } from "../../services/UpstreamFailure.ts"
import type { FailureReader } from "./Upstream.ts"
import { readJson, retryAfterSeconds, type UpstreamResponse } from "./UpstreamResponse.ts"

export interface EnvelopeOptions {
  /** Response header with the request id, lower case; used when the envelope has none. */
  readonly requestIdHeader: string
  /** Seconds; cuts a longer `Retry-After`. */
  readonly maxRetryAfterSeconds?: number
  /** Codes of a 503 that guarantee that nothing was done. */
  readonly notExecutedCodes?: ReadonlySet<string>
}

const Envelope = Schema.Struct({
  error: Schema.Struct({
    code: Schema.String.pipe(Schema.pattern(/^[a-z][a-z0-9_]{0,63}$/)),
    message: Schema.String,
    request_id: Schema.optional(Schema.NullOr(Schema.String))
  })
})

const readBody = readJson(Envelope)

const readEnvelope = (response: UpstreamResponse): (typeof Envelope.Type)["error"] | undefined =>
  Either.match(readBody(response), { onLeft: () => undefined, onRight: ({ error }) => error })

const requestIdPattern = /^[A-Za-z0-9._-]{1,128}$/

/**
 * A 4xx with an envelope is a refusal, and so is any 429. Redirects, 5xx and everything without an envelope are an unknown
 * outcome, except for a 503 with one of `notExecutedCodes`.
 */
export const envelopeFailure =
  ({ maxRetryAfterSeconds, notExecutedCodes, requestIdHeader }: EnvelopeOptions): FailureReader =>
  (dependency, response, now) => {
    const { status } = response
    if (status < 400)
      return new Unknown({ dependency, reason: `answered ${status}, which is outside its contract` })
    const envelope = readEnvelope(response)
    const pause = { retryAfterSeconds: retryAfterSeconds(response, now, maxRetryAfterSeconds) }
    const requestId = [envelope?.request_id, response.headers[requestIdHeader]].find(
      (id): id is string => typeof id === "string" && requestIdPattern.test(id)
    )
    const facts = { dependency, status, requestId, answeredAt: response.date, ...pause }
    if (status === 429)
      return new Refused({
        ...facts,
        code: envelope?.code ?? "rate_limited",
        retryAfterSeconds: pause.retryAfterSeconds ?? 1
      })
    if (envelope === undefined)
      return new Unknown({
        dependency,
        reason: `answered ${status}, but in a form outside its contract`,
        ...pause
      })
    if (status < 500) return new Refused({ ...facts, code: envelope.code })
    const reason = `answered ${status} ${envelope.code}`
    return status === 503 && notExecutedCodes?.has(envelope.code) === true
      ? new NotExecuted({ dependency, reason, ...pause })
      : new Unknown({ dependency, reason, ...pause })
  }
