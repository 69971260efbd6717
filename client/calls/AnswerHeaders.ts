/** Reads the headers of an answer. Plain functions. */
import type { WireHead } from "../transport/Transport.ts"
import type { RateLimit } from "../Types.ts"

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
    const policy = /^\s*"([^"]+)"/.exec(item)?.[1]
    const remaining = rateLimitParameter(item, "r")
    const resetSeconds = rateLimitParameter(item, "t")
    return policy === undefined || remaining === undefined || resetSeconds === undefined
      ? []
      : [{ policy, remaining: Number(remaining), resetSeconds: Number(resetSeconds) }]
  })
