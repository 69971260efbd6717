/** Request bodies by docs/api.md ("Request bodies"). */
import type { IncomingMessage } from "node:http"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import * as Runtime from "effect/Runtime"
import { nestingLimit } from "../../schema/BodyLimits.ts"
import { Failure, type FailureOf } from "../../schema/Failure.ts"
import { Drain } from "../../services/Drain.ts"
import { requestTimeout } from "../transport/UnparsedRequest.ts"
import { Bounds } from "../middleware/Bounds.ts"
import type { BodyFailure, Call, Exchange } from "../middleware/Exchange.ts"
import { countHeader } from "../transport/RawHeaders.ts"
import { nestsTooDeep, parseJson, tooDeep } from "./StrictJson.ts"

// No space can belong to two of its parts: the search would try all ways to divide them.
const mediaType = /^application\/json[ \t]*(?:;[ \t]*(?:charset[ \t]*=[ \t]*"?utf-8"?[ \t]*(?:;[ \t]*)?)?)?$/i

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["transfer-encoding"] !== undefined ||
  (headers["content-length"] !== undefined && headers["content-length"] !== "0")

const tooLarge = (bound: number): Failure<"payload_too_large"> =>
  new Failure("payload_too_large", { hint: `Send a smaller body: this call accepts at most ${bound} bytes.` })

/** Step 3 of the order of checks: another media type is 415, a declared length over the bound 413. */
export const checkBodyHeaders = (
  message: IncomingMessage,
  { bodyBound, bodyOptional = false }: Call
): BodyFailure | undefined => {
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

/** How long a body that is arriving when the drain begins has for its rest. */
const timeWhileDraining = "5 seconds"

/**
 * Makes the reader of bodies, which gives their exact bytes. A body over its bound, over that of all bodies, or later than `time` stops
 * being collected and fails without destroying the stream, because the answer must still reach the client. Interrupts when the client
 * goes away.
 */
export const makeBodyReader = (time: Duration.Duration) =>
  Effect.gen(function* () {
    const { arrivingBytes } = yield* Bounds
    const fork = Runtime.runFork(yield* Effect.runtime<never>())
    let arriving = 0
    const cuts = new Set<() => void>()
    yield* Effect.forkScoped(
      (yield* Drain).begun.pipe(
        Effect.zipRight(Effect.sleep(timeWhileDraining)),
        Effect.zipRight(
          Effect.sync(() => {
            for (const cut of cuts) cut()
          })
        )
      )
    )

    return (message: IncomingMessage, bound: number): Effect.Effect<Uint8Array, BodyFailure> =>
      Effect.async((resume) => {
        let bytes: Uint8Array = new Uint8Array()
        let size = 0
        const onData = (chunk: Buffer) => {
          const before = size
          size += chunk.length
          arriving += chunk.length
          if (arriving > arrivingBytes)
            settle(Effect.fail(new Failure("overloaded", { retryAfterSeconds: 1 })))
          else if (size > bound) settle(Effect.fail(tooLarge(bound)))
          else if (before === 0) bytes = chunk
          else bytes = append(bytes, before, chunk, bound)
        }
        const onEnd = () => settle(Effect.succeed(bytes.subarray(0, size)))
        const onGone = () => settle(Effect.interrupt)
        const cut = () => settle(Effect.fail(new Failure("shutting_down")))
        const release = () => {
          // An interruption also releases what has been settled.
          if (!cuts.delete(cut)) return
          timer.unsafeInterruptAsFork(FiberId.none)
          arriving -= size
          message.off("data", onData).off("end", onEnd).off("close", onGone).off("error", onGone)
          message.pause()
        }
        const settle = (outcome: Effect.Effect<Uint8Array, BodyFailure>) => {
          release()
          resume(outcome)
        }
        if (message.destroyed && !message.readableEnded) return resume(Effect.interrupt)
        // Not `Effect.timeout`, which takes two fibers and the race between them.
        const late = Effect.sync(() => settle(Effect.fail(requestTimeout())))
        const timer = fork(Effect.delay(late, time))
        cuts.add(cut)
        message.on("data", onData).on("end", onEnd).on("close", onGone).on("error", onGone)
        return Effect.sync(release)
      })
  })

const refuse = (problem: string): FailureOf<"invalid_input"> =>
  new Failure("invalid_input", { details: { fields: [{ path: "body", problem }] } })

/** Checks the data of a signed body, which is read only after its signature. It is one level deep in it. */
export const checkNesting = (data: unknown): Effect.Effect<void, FailureOf<"invalid_input">> =>
  nestsTooDeep(data, nestingLimit - 1) ? Effect.fail(refuse(tooDeep)) : Effect.void

/** Bytes. In a larger body only the first problem is reported: a hostile one has one in two bytes, and no quota counts it. */
const allProblemsBelow = 4_096

const readJson = (
  { headers }: IncomingMessage,
  { bodyOptional, findProblem }: Call,
  bytes: Uint8Array
): Effect.Effect<unknown, BodyFailure> => {
  if (bytes.length > 0 && headers["content-type"] === undefined)
    return Effect.fail(new Failure("unsupported_media_type"))
  if (bodyOptional && bytes.length === 0) return Effect.succeed({})
  const json = parseJson(bytes)
  if (Either.isLeft(json)) return Effect.fail(refuse(json.left))
  const problem = bytes.length < allProblemsBelow ? undefined : findProblem(json.right)
  return problem === undefined ? Effect.succeed(json.right) : Effect.fail(problem)
}

/**
 * The request whose JSON the library takes from here: it would decode UTF-8 lossily, close the connection of a body over its bound before
 * an answer, and format every problem of a hostile body. The failures become defects of the library, which `toFailure` finds.
 */
export const withJson = (
  request: HttpServerRequest.HttpServerRequest,
  { body, message }: Exchange,
  call: Call
): HttpServerRequest.HttpServerRequest =>
  Object.create(request, { json: { value: Effect.flatMap(body, (bytes) => readJson(message, call, bytes)) } })
