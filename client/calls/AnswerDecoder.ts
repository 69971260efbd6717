/** Reads an answer: its value, or its failure. Plain functions. */
import {
  isServiceFailureCode,
  isSuccess,
  serviceFailure,
  unexpectedAnswer,
  unknownFailure,
  withFacts,
  withFirstField
} from "../failures/Failures.ts"
import { shapes } from "../Contract.ts"
import { fits, type Shape } from "./Answers.ts"
import { isRecord, isText, present, tried } from "../Values.ts"
import type { ErrorDetails, MusicError, RateLimit, RawAnswer } from "../Types.ts"
import type { Endpoint } from "./Endpoints.ts"
import { clientErrorTable, hintOf } from "../failures/ErrorTable.ts"
import type { WireAnswer, WireHead } from "../Transport.ts"
import { type FailureCode, failureTable } from "../../src/schema/FailureTable.ts"

/** The forms of RFC 9110, section 5.6.7, that end in GMT. `Date.parse` alone accepts `wait 5`, too. */
const httpDate = /^[A-Z][a-z]+, \d\d[ -][A-Z][a-z]{2}[ -](?:\d\d|\d{4}) \d\d:\d\d:\d\d GMT$/

/** Milliseconds since the epoch; NaN for any other text. */
const parseDate = (text: string): number => (httpDate.test(text) ? Date.parse(text) : Number.NaN)

/**
 * Seconds of `Retry-After`, which holds seconds or a date. A date counts from the answer's own `Date`, or from `now`
 * (milliseconds since the epoch) where a page cannot read that.
 */
export const readRetryAfter = ({ headers }: WireHead, now: number): number | undefined => {
  const value = headers["retry-after"]?.trim() ?? ""
  if (/^\d+$/.test(value)) return Math.min(Number(value), Number.MAX_SAFE_INTEGER)
  const until = parseDate(value)
  const sent = parseDate(headers.date ?? "")
  return Number.isNaN(until)
    ? undefined
    : Math.max(0, Math.ceil((until - (Number.isNaN(sent) ? now : sent)) / 1_000))
}

/** An integer of RFC 9651 has at most 15 digits. */
const rateLimitParameter = (item: string, name: "r" | "t"): string | undefined =>
  new RegExp(`;\\s*${name}=(\\d{1,15})(?:;|\\s|$)`).exec(item)?.[1]

/** `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10); an item without remaining count or time is left out. */
export const readRateLimits = ({ headers }: WireHead): ReadonlyArray<RateLimit> =>
  (headers.ratelimit ?? "").split(",").flatMap((item) => {
    const policy = /^\s*"([ !#-~]+)"/.exec(item)?.[1]
    const remaining = rateLimitParameter(item, "r")
    const resetSeconds = rateLimitParameter(item, "t")
    return policy === undefined || remaining === undefined || resetSeconds === undefined
      ? []
      : [{ policy, remaining: Number(remaining), resetSeconds: Number(resetSeconds) }]
  })

/** A failed answer may have the tokens of a session all the same, and that of an intermediary those of the request that it got. */
export const withoutTokens = (text: string): string =>
  text
    .replace(/("(?:access|refresh)_token"\s*:\s*")(?:[^"\\]|\\.)*/g, "$1…")
    .replace(/(\b|%[\da-f]{2}|\\u[\da-f]{4}|\\[bfnrt])(?:oat|ort|oac|ask)_(?=[\w-])[^\s"'<>&\\]+/gi, "$1…")

const parse = (text: string): { readonly json: unknown } | undefined => {
  try {
    return { json: JSON.parse(text) }
  } catch {
    return undefined
  }
}

/** A browser shows a redirect as status 0. */
const isRedirect = (status: number): boolean => status === 0 || (status >= 300 && status < 400)

/** The failure of a redirect; its hint names the right address where the target shows it. */
const redirected = ({ path }: Endpoint<unknown>, { headers, status }: WireHead, asked: string) => {
  const failure = unexpectedAnswer(status, "redirect")
  const { location } = headers
  if (location === undefined || !URL.canParse(location)) return failure
  const { hostname, href, protocol } = new URL(location)
  // An intermediary's target is no address to send a session to.
  const isSameHost = hostname === new URL(asked).hostname && /^https?:$/.test(protocol)
  return withFacts(failure, {
    hint:
      isSameHost && href.endsWith(path)
        ? `Use ${href.slice(0, -path.length)} as baseUrl.`
        : `Check baseUrl: the client follows no redirect (to ${hostname}).`
  })
}

/** Details of any later version; known members in another form are left out, and details that nest too deeply to be written again. */
const readDetails = (details: unknown): ErrorDetails | undefined => {
  const clean = (_: string, value: unknown) => (isText(value) ? readable(value) : value)
  const read: unknown = tried(() => JSON.parse(JSON.stringify(details), clean))
  if (!isRecord(read)) return undefined
  const known = shapes.details as { readonly [name: string]: Shape }
  return Object.fromEntries(
    Object.entries(read).filter(([name, value]) => fits(known[`${name}?`] ?? {}, value))
  )
}

/**
 * A failure that ends a session counts only with the service's own status and whole envelope or request id: an intermediary must not end one,
 * and may use the same code.
 */
const isForeign = (code: FailureCode, status: number, isOwn: boolean): boolean =>
  (code === "unauthenticated" || code === "idempotency_response_expired") &&
  (failureTable[code].status !== status || !isOwn)

/** Only the service itself answers with a request id. */
const isOfService = ({ headers }: WireHead): boolean => headers["x-request-id"] !== undefined

/** Control characters could move a terminal's cursor or change its colours, and bidirectional ones the order of the text. */
export const readable = (text: string): string =>
  text.replace(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu, " ")

/** A later service may leave out hint and retryable. */
const retryableStatuses: ReadonlyArray<number> = [408, 425, 429, 500, 502, 503, 504]

const isEnvelope = (json: unknown): boolean => isRecord(json) && isRecord(json.error)

const readEnvelope = (json: unknown, answer: WireHead, isRaw: boolean): MusicError | undefined => {
  const { status } = answer
  const error = isRecord(json) ? json.error : undefined
  if (!isRecord(error) || !isText(error.code) || !isText(error.message)) return undefined
  const code = readable(error.code)
  const details = readDetails(error.details)
  const message = readable(
    code === "invalid_input" ? withFirstField(error.message, details?.fields) : error.message
  )
  const row = isServiceFailureCode(code) ? failureTable[code] : undefined
  const hint = isText(error.hint)
    ? readable(error.hint)
    : (row?.hint ?? "Update the client, or report the requestId to the operator.")
  const retryable =
    typeof error.retryable === "boolean"
      ? error.retryable
      : (row?.retryable ?? retryableStatuses.includes(status))
  if (!isServiceFailureCode(code)) {
    // A program acts on the client's own codes, such as `logged_out`: in an answer they get another name.
    const distinct = Object.hasOwn(clientErrorTable, code) ? `service_${code}` : code
    return unknownFailure(distinct, { status, message, hint, retryable, details })
  }
  const isWhole = isText(error.hint) && error.retryable === false
  const isOwn = isWhole || (isOfService(answer) && !retryable)
  if (isForeign(code, status, isOwn)) return undefined
  return serviceFailure(code, {
    message,
    // A raw call is made in terms of HTTP.
    hint: isRaw ? hint : hintOf(code, hint, details),
    details
  })
}

/** A page is a captive portal, which has done nothing. */
const isPage = ({ headers }: WireHead): boolean => /html/i.test(headers["content-type"] ?? "")

const readValue = <A>({ answer }: Endpoint<A>, { headers, status }: WireHead, json: unknown) => {
  // A later service may answer more than nothing.
  if (answer === "empty")
    return isPage({ headers, status }) || isEnvelope(json) ? undefined : { value: undefined as A }
  if (answer !== "raw") return answer(json) ? { value: json } : undefined
  const value: RawAnswer = { status, headers: present(headers) as RawAnswer["headers"], body: json }
  // `raw` is declared for endpoints of this type only.
  return { value: value as A }
}

/** The value of an answer, or its failure. `url` is the address that was asked. */
export const decodeAnswer = <A>(
  endpoint: Endpoint<A>,
  answer: WireAnswer,
  url: string
): { readonly value: A } | MusicError => {
  const { body, status } = answer
  if (isRedirect(status)) return redirected(endpoint, answer, url)
  const isRaw = endpoint.answer === "raw"
  if (isSuccess(status)) {
    const isEmpty = body.trim() === ""
    const parsed = isEmpty ? { json: undefined } : parse(body)
    // A page of an intermediary is no answer to a raw call either.
    const content = parsed ?? (isRaw && isOfService(answer) ? { json: body } : undefined)
    const read = content === undefined ? undefined : readValue(endpoint, answer, content.json)
    return (
      read ?? unexpectedAnswer(status, isEmpty || content === undefined ? "not_json" : "outside_contract")
    )
  }
  // The answer to a HEAD request has no envelope.
  if (status === 401 && endpoint.method === "HEAD" && isOfService(answer))
    return serviceFailure("unauthenticated")
  const parsed = parse(withoutTokens(body))
  if (parsed === undefined) return unexpectedAnswer(status, "not_json")
  return readEnvelope(parsed.json, answer, isRaw) ?? unexpectedAnswer(status, "outside_contract")
}
