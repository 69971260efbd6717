/**
 * Request bodies by docs/api.md ("Request bodies"). The library decodes UTF-8 lossily, closes the connection of a body over its bound before
 * an answer, and formats every problem of a hostile body, so the request that it gets reads its JSON here.
 */
import type { IncomingMessage } from "node:http"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { Failure, type FailureOf } from "../../schema/Failure.ts"
import type { Call } from "../middleware/Routes.ts"
import { countHeader } from "../transport/RawHeaders.ts"
import { nestsTooDeep, parseJson, tooDeep } from "./StrictJson.ts"
import { type Field, reportsAllProblems, toFields } from "./ValidationErrors.ts"

/** What a body can be refused for. */
export type BodyFailure = FailureOf<
  "invalid_input" | "payload_too_large" | "unsupported_media_type" | "overloaded" | "shutting_down"
>

const mediaType = /^application\/json[ \t]*(?:;[ \t]*charset[ \t]*=[ \t]*"?utf-8"?[ \t]*)?;?[ \t]*$/i

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["transfer-encoding"] !== undefined ||
  (headers["content-length"] !== undefined && headers["content-length"] !== "0")

const tooLarge = (bound: number): Failure<"payload_too_large"> =>
  new Failure("payload_too_large", { hint: `Send a smaller body: this call accepts at most ${bound} bytes.` })

/** Step 3 of the order of checks: another media type is 415, a declared length over the bound 413. */
export const checkBodyHeaders = (
  message: IncomingMessage,
  { bodyBound, bodyOptional }: Pick<Call, "bodyBound" | "bodyOptional">
): BodyFailure | undefined => {
  if (bodyBound === 0) return undefined
  const { headers } = message
  const type = headers["content-type"]
  const encoding = headers["content-encoding"] ?? "identity"
  // Chunks may turn out to be empty; `readJson` asks for the media type when they are not.
  const perhapsEmpty = bodyOptional && headers["content-length"] === undefined
  const readable =
    encoding.toLowerCase() === "identity" &&
    (type === undefined
      ? perhapsEmpty || !hasBody(message)
      : mediaType.test(type) && countHeader(message, "content-type") === 1)
  if (!readable) return new Failure("unsupported_media_type")
  return Number(headers["content-length"] ?? 0) > bodyBound ? tooLarge(bodyBound) : undefined
}

const empty: Uint8Array = new Uint8Array()

/**
 * Appends to the first `size` bytes, in a buffer that doubles when it is full. A list of the chunks would hold a hundred times the memory
 * of a body that arrives in chunks of one byte.
 */
const append = (bytes: Uint8Array, size: number, chunk: Uint8Array, bound: number): Uint8Array => {
  const needed = size + chunk.length
  // The first chunk is the connection's, and is never written to.
  const target = needed <= bytes.length ? bytes : new Uint8Array(Math.min(bound, 2 * needed))
  if (target !== bytes) target.set(bytes.subarray(0, size))
  target.set(chunk, size)
  return target
}

/** The bytes of all bodies that arrive. */
export interface Arriving {
  readonly most: number
  bytes: number
}

/** Without a bound of their bytes, bodies that stall could take 1 MiB for each place. */
export const makeArriving = (most: number = 256 * 1024 ** 2): Arriving => ({ most, bytes: 0 })

/**
 * The exact bytes of a body. Over its bound, or over that of all bodies, it stops collecting and fails without destroying the stream,
 * because the answer must still reach the client. Interrupts when the client goes away.
 */
export const readBytes = (
  message: IncomingMessage,
  bound: number,
  arriving: Arriving
): Effect.Effect<Uint8Array, BodyFailure> =>
  Effect.async((resume) => {
    let bytes = empty
    let size = 0
    const onData = (chunk: Buffer) => {
      const before = size
      size += chunk.length
      arriving.bytes += chunk.length
      if (arriving.bytes > arriving.most)
        settle(Effect.fail(new Failure("overloaded", { retryAfterSeconds: 1 })))
      else if (size > bound) settle(Effect.fail(tooLarge(bound)))
      else if (before === 0) bytes = chunk
      else bytes = append(bytes, before, chunk, bound)
    }
    const onEnd = () => settle(Effect.succeed(bytes.subarray(0, size)))
    const onGone = () => settle(Effect.interrupt)
    const release = () => {
      arriving.bytes -= size
      message.off("data", onData).off("end", onEnd).off("close", onGone).off("error", onGone)
      message.pause()
    }
    const settle = (outcome: Effect.Effect<Uint8Array, BodyFailure>) => {
      release()
      resume(outcome)
    }
    if (message.destroyed && !message.readableEnded) return resume(Effect.interrupt)
    message.on("data", onData).on("end", onEnd).on("close", onGone).on("error", onGone)
    return Effect.sync(release)
  })

const refuse = (fields: ReadonlyArray<Field>): Failure<"invalid_input"> =>
  new Failure("invalid_input", { details: { fields } })

/** Checks the bytes of a signed body, which is not decoded before its signature: what reads it later may be recursive. */
export const checkNesting = (bytes: Uint8Array): Effect.Effect<void, Failure<"invalid_input">> =>
  nestsTooDeep(bytes) ? Effect.fail(refuse([{ path: "body", problem: tooDeep }])) : Effect.void

/** The first problem of a large body by the contract; the library looks for all of them. */
const findFirstProblem = ({ endpoint }: Call) => {
  const schema = Option.map(endpoint?.payloadSchema ?? Option.none(), (payload) =>
    Schema.decodeUnknownEither(
      payload.annotations({ parseOptions: { onExcessProperty: "error", errors: "first" } })
    )
  )
  return (value: unknown): Failure<"invalid_input"> | undefined => {
    const decoded = Option.map(schema, (decode) => decode(value))
    return Option.isSome(decoded) && Either.isLeft(decoded.value)
      ? refuse(toFields(ParseResult.ArrayFormatter.formatErrorSync(decoded.value.left)))
      : undefined
  }
}

const finders = new WeakMap<Call, ReturnType<typeof findFirstProblem>>()
const firstProblemOf = (call: Call, value: unknown): Failure<"invalid_input"> | undefined => {
  const find = finders.get(call) ?? findFirstProblem(call)
  finders.set(call, find)
  return find(value)
}

const readJson = (
  { headers }: IncomingMessage,
  call: Call,
  bytes: Uint8Array
): Effect.Effect<unknown, BodyFailure> => {
  if (bytes.length > 0 && headers["content-type"] === undefined)
    return Effect.fail(new Failure("unsupported_media_type"))
  if (call.bodyOptional && bytes.length === 0) return Effect.succeed({})
  const json = parseJson(bytes)
  if (Either.isLeft(json)) return Effect.fail(refuse([{ path: "body", problem: json.left }]))
  const problem = reportsAllProblems(bytes.length) ? undefined : firstProblemOf(call, json.right)
  return problem === undefined ? Effect.succeed(json.right) : Effect.fail(problem)
}

/** The request whose JSON the library takes from here. Its failures become defects of the library, which `toFailure` finds. */
export const withJson = (
  request: HttpServerRequest.HttpServerRequest,
  message: IncomingMessage,
  body: Effect.Effect<Uint8Array, BodyFailure>,
  call: Call
): HttpServerRequest.HttpServerRequest =>
  Object.create(request, { json: { value: Effect.flatMap(body, (bytes) => readJson(message, call, bytes)) } })
