/** An HTTP response of another system, and readers for it: bounded bytes, strict UTF-8, JSON of a known shape. */
import type { HttpClientError } from "@effect/platform/HttpClientError"
import type { HttpClientResponse } from "@effect/platform/HttpClientResponse"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

export interface UpstreamResponse {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** At most the upstream's `maxResponseBytes`. */
  readonly body: Uint8Array
  /** The response's own `Date`, or the time of this process when it has none; milliseconds since the epoch. */
  readonly date: number
}

/** The body, if it fits. One that declares more bytes is left at once; one that declares no length is counted as it arrives. */
export const readBody = <E>(
  response: HttpClientResponse,
  maxBytes: number,
  onTooLarge: () => E
): Effect.Effect<Uint8Array, E | HttpClientError> => {
  const declared = response.headers["content-length"]
  if (declared === undefined)
    return response.stream.pipe(
      Stream.runFoldEffect({ size: 0, chunks: Chunk.empty<Uint8Array>() }, (before, chunk) => {
        const size = before.size + chunk.length
        const chunks = Chunk.append(before.chunks, chunk)
        return size > maxBytes ? Effect.failSync(onTooLarge) : Effect.succeed({ size, chunks })
      }),
      Effect.map(({ chunks }) => Buffer.concat([...chunks]))
    )
  const whole = Effect.map(response.arrayBuffer, (bytes) => new Uint8Array(bytes))
  return Number(declared) > maxBytes
    ? Effect.timeoutFail(whole, { duration: 0, onTimeout: onTooLarge })
    : whole
}

/** Decodes a response, or says why it violates the contract. The reason never quotes the response. */
export type ResponseReader<A> = (response: UpstreamResponse) => Either.Either<A, string>

/** The first of the checks that does not hold fails: what the contract demands before an answer is trusted. */
export const expectAll = (
  ...checks: ReadonlyArray<readonly [holds: boolean, otherwise: string]>
): Either.Either<void, string> => {
  const failed = checks.find(([holds]) => !holds)
  return failed === undefined ? Either.void : Either.left(failed[1])
}

/** Accepts only the statuses of success that the contract names. */
export const expectStatus =
  <A>(status: number | ReadonlyArray<number>, read: ResponseReader<A>): ResponseReader<A> =>
  (response) =>
    [status].flat().includes(response.status)
      ? read(response)
      : Either.left(`should be ${[status].flat().join(" or ")}`)

// A byte order mark is kept, so the JSON parser refuses it.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** Refuses invalid UTF-8 and anything around the value. */
export const parseJson = (bytes: Uint8Array): Either.Either<unknown, string> =>
  Either.try({ try: (): unknown => JSON.parse(utf8.decode(bytes)), catch: () => "is not JSON" })

const isJson = (contentType = "application/json"): boolean =>
  /^application\/(?:[a-z0-9.+-]+\+)?json\s*(?:;|$)/i.test(contentType)

/** JSON of the given shape. Members that the schema does not name are ignored, because contracts grow. */
export const readJson = <A, I>(schema: Schema.Schema<A, I>): ResponseReader<A> => {
  const decode = Schema.decodeUnknownEither(schema)
  return ({ body, headers }) =>
    isJson(headers["content-type"])
      ? Either.flatMap(parseJson(body), (value) => Either.mapLeft(decode(value), () => "has another shape"))
      : Either.left("is not JSON")
}

/** Seconds; a longer pause is cut to this. */
const maxSeconds = 3_600

/** Whole seconds, at least 1 and at most `max`. */
export const boundPause = (seconds: number, max = maxSeconds): number =>
  Math.min(max, Math.max(1, Math.ceil(seconds)))

/** `Retry-After` in whole seconds or as a date, which counts from the response's own; bounded. */
export const retryAfterSeconds = (
  { date, headers }: UpstreamResponse,
  max = maxSeconds
): number | undefined => {
  const value = headers["retry-after"]?.trim() ?? ""
  const seconds = /^\d{1,9}$/.test(value) ? Number(value) : (Date.parse(value) - date) / 1_000
  return Number.isNaN(seconds) ? undefined : boundPause(seconds, max)
}
