/** What an answer of GitHub that isn't the hoped-for one means (issue-tracker.md 3). */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { NotExecuted, Refused, Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import type { Answer } from "./GitHubRequests.ts"

const dependency = "tracker"

/** Seconds; no limit of GitHub's lasts longer, and none may stop us for ever. */
const longestPause = 3600
/** Seconds after a limit that names none (issue-tracker.md 3); doubles while it stays. */
const firstPause = 60

const ErrorBody = Schema.Struct({
  message: Schema.optional(Schema.String),
  errors: Schema.optional(Schema.Array(Schema.Unknown))
})
const FieldError = Schema.Struct({ field: Schema.String })
const decodeBody = Schema.decodeUnknownOption(ErrorBody)
const isFieldError = Schema.is(FieldError)

const header = ({ headers }: Answer, name: string): string | undefined => {
  const value = headers[name]
  return value === undefined ? undefined : String(value)
}

const messageOf = (answer: Answer): string =>
  Option.match(decodeBody(answer.data), { onNone: () => "", onSome: ({ message }) => message ?? "" })

/** Seconds, or an HTTP date. */
const retryAfter = (answer: Answer, now: number): number | undefined => {
  const value = header(answer, "retry-after")
  if (value === undefined) return undefined
  const seconds = /^\d{1,9}$/.test(value) ? Number(value) : (Date.parse(value) - now) / 1000
  return Number.isNaN(seconds) ? undefined : bounded(seconds)
}

const bounded = (seconds: number): number => Math.min(longestPause, Math.max(1, Math.ceil(seconds)))

const isLimit = (answer: Answer): boolean =>
  (answer.status === 403 || answer.status === 429) &&
  (answer.headers["retry-after"] !== undefined ||
    header(answer, "x-ratelimit-remaining") === "0" ||
    /secondary rate|abuse/i.test(messageOf(answer)) ||
    answer.status === 429)

const limitPause = (answer: Answer, now: number, limitsBefore: number): number => {
  const asked = retryAfter(answer, now)
  if (asked !== undefined) return asked
  const reset = header(answer, "x-ratelimit-reset")
  return header(answer, "x-ratelimit-remaining") === "0" && reset !== undefined && /^\d{1,12}$/.test(reset)
    ? bounded(Number(reset) - now / 1000)
    : bounded(firstPause * 2 ** Math.min(limitsBefore, 10))
}

/** Refusals that only an operator can end, and what to tell one. */
export const configurationTroubles: Readonly<Record<string, string>> = {
  bad_credentials: "the token is missing, expired or revoked",
  permission: "the token may not write issues in the repository, or the repository is archived",
  not_found: "the repository does not exist, or the token cannot see it",
  issues_disabled: "issues are disabled in the repository",
  moved: "the repository was renamed or moved"
}

const refusalCodes: Readonly<Record<number, string>> = {
  301: "moved",
  302: "moved",
  307: "moved",
  308: "moved",
  400: "bad_request",
  401: "bad_credentials",
  403: "permission",
  404: "not_found",
  410: "issues_disabled",
  451: "legal_block"
}

/** `too_long` when a smaller title or body may pass. */
const validationCode = (answer: Answer): string => {
  const errors = Option.match(decodeBody(answer.data), {
    onNone: () => [],
    onSome: ({ errors: listed }) => listed ?? []
  })
  return errors.some((error) => isFieldError(error) && (error.field === "title" || error.field === "body"))
    ? "too_long"
    : "validation_failed"
}

/** `now` in milliseconds; `limitsBefore` counts the limits in a row that led here. */
export const judge = (answer: Answer, now: number, limitsBefore: number): UpstreamFailure => {
  if (isLimit(answer))
    return new NotExecuted({
      dependency,
      reason: "rate limit",
      retryAfterSeconds: limitPause(answer, now, limitsBefore)
    })
  const code = answer.status === 422 ? validationCode(answer) : refusalCodes[answer.status]
  if (code === undefined) {
    const pause = retryAfter(answer, now)
    return new Unknown({
      dependency,
      reason: `answer ${answer.status}`,
      ...(pause === undefined ? {} : { retryAfterSeconds: pause })
    })
  }
  const requestId = header(answer, "x-github-request-id")
  return new Refused({
    dependency,
    status: answer.status,
    code,
    ...(requestId === undefined ? {} : { requestId })
  })
}

/** An answer with the right status whose content is not the contract's. */
export const misshapen = (): Unknown =>
  new Unknown({ dependency, reason: "an answer that is not the contract's" })
