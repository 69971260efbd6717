/** Request bodies by docs/api.md ("Request bodies"). */
import type { IncomingMessage } from "node:http"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import * as Runtime from "effect/Runtime"
import { nestingLimit } from "../../schema/BodyLimits.ts"
import { Failure, type FailureOf, refuseField } from "../../schema/Failure.ts"
import { Bounds } from "../middleware/Bounds.ts"
import { type BodyFailure, type Call, countHeader, type Exchange } from "../middleware/Exchange.ts"
import { nestsTooDeep, parseJson, tooDeep } from "./StrictJson.ts"

// No space can belong to two of its parts: the search would try all ways to divide them.
const mediaType = /^application\/json[ \t]*(?:;[ \t]*(?:charset[ \t]*=[ \t]*"?utf-8"?[ \t]*(?:;[ \t]*)?)?)?$/i

export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["transfer-encoding"] !== undefined ||
  (headers["content-length"] !== undefined && headers["content-length"] !== "0")

const tooLarge = (bound: number): Failure<"payload_too_large"> =>
  new Failure("payload_too_large", { hint: `Send a smaller body: this call accepts at most ${bound} bytes.` })

/** Step 3 of the order of checks: another media type is 415, a declared length over the bound 413. */
export const checkBodyHeaders = (
  message: IncomingMessage,
  { bodyBound, bodyOptional = false }: Call
): Failure | undefined => {
  if (bodyBound === undefined) return undefined
  const { headers } = message
  const type = headers["content-type"]
  // Chunks may turn out to be empty; `readJson` asks for the media type when they are not.
  const perhapsEmpty = bodyOptional && headers["content-length"] === undefined
  const readable =
    (headers["content-encoding"] ?? "identity").toLowerCase() === "identity" &&
    (type === undefined
      ? perhapsEmpty || !hasBody(message)
      : mediaType.test(type) && countHeader(message, "content-type") === 1)
  if (!readable) return new Failure("unsupported_media_type")
  return Number(headers["content-length"] ?? 0) > bodyBound ? tooLarge(bodyBound) : undefined
}

/**
 * Makes the reader of bodies, which gives their exact bytes. A body over its bound, over that of all bodies, or later than `time` fails,
 * and its rest is dropped as it arrives: to close the connection before would lose the answer. Interrupts when the client goes away.
 */
export const makeBodyReader = (time: Duration.Duration) =>
  Effect.gen(function* () {
    const { arrivingBytes } = yield* Bounds
    const fork = Runtime.runFork(yield* Effect.runtime<never>())
    let arriving = 0

    return (message: IncomingMessage, bound: number): Effect.Effect<Uint8Array, BodyFailure> =>
      Effect.async((resume) => {
        // The length was compared with the bound. A list of chunks would hold a hundred times the memory of a body in chunks of one byte.
        const bytes = Buffer.allocUnsafe(Number(message.headers["content-length"] ?? bound))
        let size = 0
        const onData = (chunk: Buffer) => {
          const at = size
          size += chunk.length
          arriving += chunk.length
          if (arriving > arrivingBytes)
            settle(Effect.fail(new Failure("overloaded", { retryAfterSeconds: 1 })))
          else if (size > bound) settle(Effect.fail(tooLarge(bound)))
          else bytes.set(chunk, at)
        }
        const onEnd = () => settle(Effect.succeed(bytes.subarray(0, size)))
        const onGone = () => settle(Effect.interrupt)
        // An interruption also releases what has been settled.
        const release = () => {
          timer.unsafeInterruptAsFork(FiberId.none)
          arriving -= size
          size = 0
          message.off("data", onData).off("end", onEnd).off("close", onGone).off("error", onGone)
          message.resume()
        }
        const settle = (outcome: Effect.Effect<Uint8Array, BodyFailure>) => {
          release()
          resume(outcome)
        }
        if (message.destroyed && !message.readableEnded) return resume(Effect.interrupt)
        // Not `Effect.timeout`, which takes two fibers and the race between them.
        const late = Effect.sync(() => settle(Effect.fail(new Failure("request_timeout"))))
        const timer = fork(Effect.delay(late, time))
        message.on("data", onData).on("end", onEnd).on("close", onGone).on("error", onGone)
        return Effect.sync(release)
      })
  })

/** Checks the data of a signed body, which is read only after its signature. It is at least one level deep in it. */
export const checkNesting = (data: unknown): Effect.Effect<void, FailureOf<"invalid_input">> =>
  nestsTooDeep(data, nestingLimit - 1) ? refuseField("body", tooDeep) : Effect.void

const readJson = (
  { headers }: IncomingMessage,
  { bodyOptional, findProblem }: Call,
  bytes: Uint8Array
): Effect.Effect<unknown, BodyFailure> => {
  if (bytes.length > 0 && headers["content-type"] === undefined) return new Failure("unsupported_media_type")
  if (bodyOptional && bytes.length === 0) return Effect.succeed({})
  const json = parseJson(bytes)
  if (Either.isLeft(json)) return refuseField("body", json.left)
  return findProblem?.(json.right) ?? Effect.succeed(json.right)
}

/**
 * The request whose JSON the library takes from here: it would decode UTF-8 lossily, close the connection of a body over its bound before
 * an answer, and format the values of a hostile body. The failures become defects of the library, which `respondToCause` finds.
 */
export const withJson = (
  request: HttpServerRequest.HttpServerRequest,
  { body, message }: Exchange,
  call: Call
): HttpServerRequest.HttpServerRequest =>
  Object.create(request, { json: { value: Effect.flatMap(body, (bytes) => readJson(message, call, bytes)) } })
