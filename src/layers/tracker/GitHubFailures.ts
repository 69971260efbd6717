/**
 * The outcome of each failure response of GitHub (issue-tracker.md 3). GitHub differs from the other upstreams
 * (upstream/ErrorEnvelope.ts): its errors carry no code, so the code follows from the status; its limits come as 403 or 429,
 * with `Retry-After`, `x-ratelimit-*` or only a message, and nothing was executed then; a redirect refuses, because it means
 * that the repository moved; and any other status is an unknown outcome.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { NotExecuted, Refused, Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import {
  boundPause,
  readJson,
  retryAfterSeconds,
  type UpstreamResponse
} from "../upstream/UpstreamResponse.ts"

const dependency = "tracker"

/** Seconds after a limit that names none, at least (issue-tracker.md 3). The worker's own backoff makes it longer. */
const firstPause = 60

const readError = readJson(
  Schema.Struct({
    message: Schema.optional(Schema.String),
    errors: Schema.optional(Schema.Array(Schema.Unknown))
  })
)
const isFieldError = Schema.is(Schema.Struct({ field: Schema.Literal("title", "body") }))

const errorOf = (response: UpstreamResponse) => Either.getOrElse(readError(response), () => undefined)

const isLimit = (response: UpstreamResponse): boolean =>
  response.status === 429 ||
  (response.status === 403 &&
    (response.headers["retry-after"] !== undefined ||
      response.headers["x-ratelimit-remaining"] === "0" ||
      /secondary rate|abuse/i.test(errorOf(response)?.message ?? "")))

const limitPause = (response: UpstreamResponse): number => {
  const asked = retryAfterSeconds(response)
  if (asked !== undefined) return asked
  const reset = response.headers["x-ratelimit-reset"]
  return response.headers["x-ratelimit-remaining"] === "0" && reset !== undefined && /^\d{1,12}$/.test(reset)
    ? boundPause(Number(reset) - response.date / 1_000)
    : firstPause
}

/** Refusals that only an operator can end, with the explanation for the operator. */
export const configurationTroubles: Readonly<Record<string, string>> = {
  bad_credentials: "the token is missing, expired or revoked",
  permission: "the token may not write issues in the repository, or the repository is archived",
  not_found: "the repository does not exist, or the token cannot see it",
  issues_disabled: "issues are disabled in the repository",
  moved: "the repository was renamed or moved"
}

const refusalCodes: Readonly<Record<number, string>> = {
  ...{ 301: "moved", 302: "moved", 307: "moved", 308: "moved" },
  400: "bad_request",
  401: "bad_credentials",
  403: "permission",
  404: "not_found",
  410: "issues_disabled",
  451: "legal_block"
}

/** `too_long` when a shorter title or body may pass. */
const validationCode = (response: UpstreamResponse): string =>
  errorOf(response)?.errors?.some((error) => isFieldError(error)) === true ? "too_long" : "validation_failed"

export const gitHubFailure = (response: UpstreamResponse): UpstreamFailure => {
  const { headers, status } = response
  if (isLimit(response)) {
    const pause = limitPause(response)
    return new NotExecuted({ dependency, reason: "rate limit", retryAfterSeconds: pause })
  }
  const code = status === 422 ? validationCode(response) : refusalCodes[status]
  return code === undefined
    ? new Unknown({
        dependency,
        reason: `answered ${status}`,
        retryAfterSeconds: retryAfterSeconds(response)
      })
    : new Refused({
        dependency,
        status,
        code,
        advice: configurationTroubles[code],
        requestId: headers["x-github-request-id"]
      })
}
