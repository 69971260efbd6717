import type { IncomingMessage } from "node:http"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import { type Failure, InvalidInput, PayloadTooLarge, UnsupportedMediaType } from "../../schema/Failure.ts"
import { type Field, fieldsOf } from "./ValidationErrors.ts"
import { countOf } from "../transport/RawHeaders.ts"
import type { Call } from "../middleware/Routes.ts"
import { parse } from "./StrictJson.ts"

const mediaType = /^application\/json[ \t]*(?:;[ \t]*charset[ \t]*=[ \t]*"?utf-8"?[ \t]*)?;?[ \t]*$/i

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["transfer-encoding"] !== undefined ||
  (headers["content-length"] !== undefined && headers["content-length"] !== "0")

/** What the headers alone tell of a body: another media type (415), or a declared length over the bound (413). */
export const declaredProblem = (
  message: IncomingMessage,
  { bodyBound, bodyOptional }: Pick<Call, "bodyBound" | "bodyOptional">
): Failure | undefined => {
  const { headers } = message
  const type = headers["content-type"]
  const encoding = headers["content-encoding"] ?? "identity"
  // Whether chunks hold anything is known once they were read; `jsonOf` then asks for the type.
  const perhapsEmpty = bodyOptional && headers["content-length"] === undefined
  const readable =
    encoding.toLowerCase() === "identity" &&
    (type === undefined
      ? perhapsEmpty || !hasBody(message)
      : mediaType.test(type) && countOf(message, "content-type") === 1)
  if (!readable) return new UnsupportedMediaType()
  return Number(headers["content-length"] ?? 0) > bodyBound ? tooLarge(bodyBound) : undefined
}

const tooLarge = (bound: number): PayloadTooLarge =>
  new PayloadTooLarge({ hint: `Send a smaller body: this call takes ${bound} bytes.` })

/** Runs while a body arrives: is given what ends the wait early, and gives what to do when it is over. */
export type During = (cut: (failure: Failure) => void) => () => void

/**
 * The exact bytes of the body. Over the bound, or cut, it stops collecting and fails, without destroying the stream: the
 * answer must still reach the client. A client that goes away interrupts. Fails as a defect, because the router's own
 * signature has no room for our failures; the envelope knows them again.
 */
export const bytesOf = (message: IncomingMessage, bound: number, during: During): Effect.Effect<Uint8Array> =>
  Effect.async((resume) => {
    const chunks: Array<Buffer> = []
    let size = 0
    const onData = (chunk: Buffer) => {
      size += chunk.length
      if (size <= bound) chunks.push(chunk)
      else settle(Effect.die(tooLarge(bound)))
    }
    const onEnd = () =>
      settle(Effect.succeed(chunks.length === 1 ? (chunks[0] ?? empty) : Buffer.concat(chunks)))
    const onGone = () => settle(Effect.interrupt)
    const release = () => {
      over()
      message.off("data", onData).off("end", onEnd).off("close", onGone).off("error", onGone)
      message.pause()
    }
    const settle = (outcome: Effect.Effect<Uint8Array>) => {
      release()
      resume(outcome)
    }
    if (message.destroyed && !message.readableEnded) return resume(Effect.interrupt)
    const over = during((failure) => settle(Effect.die(failure)))
    message.on("data", onData).on("end", onEnd).on("close", onGone).on("error", onGone)
    return Effect.sync(release)
  })

const empty = new Uint8Array()

/** Receives the body of the request in hand, whose call takes one. */
export class CurrentBody extends Context.Reference<CurrentBody>()("music/http/Body", {
  defaultValue: (): Effect.Effect<Uint8Array> => Effect.dieMessage("no body is to be had")
}) {}

const refused = (fields: ReadonlyArray<Field>): Effect.Effect<never> =>
  Effect.die(new InvalidInput({ details: { fields } }))

/** Bytes; in a larger body, collecting every problem of it would take a hostile sender's work off their hands. */
const allProblemsBelow = 16_384

/**
 * A body as strict JSON; where it is optional, an empty one is `{}`. A large one that does not fit is refused for its first
 * problem alone.
 */
export const jsonOf = (
  { headers }: IncomingMessage,
  bytes: Uint8Array,
  { bodyOptional, firstProblem }: Pick<Call, "bodyOptional" | "firstProblem">
): Effect.Effect<unknown> => {
  if (bodyOptional && bytes.length === 0) return Effect.succeed({})
  if (bytes.length > 0 && headers["content-type"] === undefined) return Effect.die(new UnsupportedMediaType())
  return Either.match(parse(bytes), {
    onLeft: (problem) => refused([{ path: "body", problem }]),
    onRight: (body) => {
      const found = bytes.length < allProblemsBelow ? undefined : firstProblem?.(body)
      return found === undefined || Option.isNone(found)
        ? Effect.succeed(body)
        : refused(fieldsOf(ParseResult.ArrayFormatter.formatErrorSync(found.value)))
    }
  })
}
