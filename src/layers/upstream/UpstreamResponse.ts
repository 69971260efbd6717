/** What another system answered, and how it is read: bounded bytes, strict UTF-8, JSON of a known shape. */
import type * as Headers from "@effect/platform/Headers"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"

export interface Answer {
  readonly status: number
  readonly headers: Headers.Headers
  /** Never longer than the upstream's bound. */
  readonly body: Uint8Array
  /** Its own `Date`, milliseconds since the epoch. */
  readonly date: number | undefined
}

/** An answer that is what the contract promises, or why it is not; the reason never quotes the answer. */
export type Read<A> = (answer: Answer) => Either.Either<A, string>

/** A check that the contract asks for before an answer is trusted. */
export const expect = (holds: boolean, otherwise: string): Either.Either<void, string> =>
  holds ? Either.void : Either.left(otherwise)

// A byte order mark is kept, and so refused by the JSON parser.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** Strict: invalid UTF-8 and anything around the value are refused. */
export const parseJson = (bytes: Uint8Array): Either.Either<unknown, string> =>
  Either.try({ try: (): unknown => JSON.parse(utf8.decode(bytes)), catch: () => "is not JSON" })

const isJson = (contentType: string | undefined): boolean =>
  contentType === undefined || /^application\/(?:[a-z0-9.+-]+\+)?json\s*(?:;|$)/i.test(contentType)

/** JSON of the given shape; members that the shape does not name are let pass, because contracts grow. */
export const readJson = <A, I>(schema: Schema.Schema<A, I>): Read<A> => {
  const decode = Schema.decodeUnknownEither(schema)
  return ({ body, headers }) =>
    Either.gen(function* () {
      yield* expect(isJson(headers["content-type"]), "is not JSON")
      const value = yield* parseJson(body)
      return yield* Either.mapLeft(decode(value), () => "has another shape")
    })
}

/** Seconds; what asks for longer is not believed. */
const longestPause = 3_600

/**
 * `Retry-After` in whole seconds, at least 1 and at most `longest`; given as seconds or as a date. `now` is in
 * milliseconds.
 */
export const retryAfterSeconds = (
  answer: Answer,
  now: number,
  longest = longestPause
): number | undefined => {
  const told = answer.headers["retry-after"]?.trim()
  if (told === undefined) return undefined
  const seconds = /^\d{1,9}$/.test(told) ? Number(told) : (Date.parse(told) - (answer.date ?? now)) / 1_000
  return Number.isNaN(seconds) ? undefined : Math.min(longest, Math.max(1, Math.ceil(seconds)))
}

const Envelope = Schema.Struct({
  error: Schema.Struct({
    code: Schema.String.pipe(Schema.pattern(/^[a-z][a-z0-9_]{0,63}$/)),
    message: Schema.String,
    request_id: Schema.optional(Schema.NullOr(Schema.String))
  })
})

/** The error envelope that IAM and Ting have in common (identity-service.md 3, notification-service.md 8). */
export const readEnvelope = (answer: Answer): (typeof Envelope.Type)["error"] | undefined =>
  Either.match(readJson(Envelope)(answer), { onLeft: () => undefined, onRight: ({ error }) => error })
