import type { IncomingMessage } from "node:http"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { type Failure, PayloadTooLarge, UnsupportedMediaType } from "../../schema/Failure.ts"
import type { Call } from "../middleware/Routes.ts"
import { countHeader } from "../transport/RawHeaders.ts"

const mediaType = /^application\/json[ \t]*(?:;[ \t]*charset[ \t]*=[ \t]*"?utf-8"?[ \t]*)?;?[ \t]*$/i

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["transfer-encoding"] !== undefined ||
  (headers["content-length"] !== undefined && headers["content-length"] !== "0")

const tooLarge = (bound: number): PayloadTooLarge =>
  new PayloadTooLarge({ hint: `Send a smaller body: this call accepts at most ${bound} bytes.` })

/** Checks the headers of a body: another media type is 415, a declared length over the bound 413. */
export const checkBodyHeaders = (
  message: IncomingMessage,
  { bodyBound, bodyOptional }: Pick<Call, "bodyBound" | "bodyOptional">
): Failure | undefined => {
  const { headers } = message
  const type = headers["content-type"]
  const encoding = headers["content-encoding"] ?? "identity"
  // Chunks may turn out to be empty; the decoder asks for the media type when they are not.
  const perhapsEmpty = bodyOptional && headers["content-length"] === undefined
  const readable =
    encoding.toLowerCase() === "identity" &&
    (type === undefined
      ? perhapsEmpty || !hasBody(message)
      : mediaType.test(type) && countHeader(message, "content-type") === 1)
  if (!readable) return new UnsupportedMediaType()
  return Number(headers["content-length"] ?? 0) > bodyBound ? tooLarge(bodyBound) : undefined
}

/** Registers a body while it arrives: is given a way to end the wait with a failure, returns how to deregister. */
export type Register = (cut: (failure: Failure) => void) => () => void

/**
 * Reads the exact bytes of a body. Over the bound, or cut, it stops collecting and fails without destroying the stream,
 * because the answer must still reach the client. Interrupts when the client goes away.
 */
export const readBytes = (
  message: IncomingMessage,
  bound: number,
  register: Register
): Effect.Effect<Uint8Array, Failure> =>
  Effect.async((resume) => {
    const chunks: Array<Buffer> = []
    let size = 0
    const onData = (chunk: Buffer) => {
      size += chunk.length
      if (size <= bound) chunks.push(chunk)
      else settle(Effect.fail(tooLarge(bound)))
    }
    const onEnd = () =>
      settle(Effect.succeed(chunks.length === 1 ? (chunks[0] ?? empty) : Buffer.concat(chunks)))
    const onGone = () => settle(Effect.interrupt)
    const release = () => {
      deregister()
      message.off("data", onData).off("end", onEnd).off("close", onGone).off("error", onGone)
      message.pause()
    }
    const settle = (outcome: Effect.Effect<Uint8Array, Failure>) => {
      release()
      resume(outcome)
    }
    if (message.destroyed && !message.readableEnded) return resume(Effect.interrupt)
    const deregister = register((failure) => settle(Effect.fail(failure)))
    message.on("data", onData).on("end", onEnd).on("close", onGone).on("error", onGone)
    return Effect.sync(release)
  })

const empty = new Uint8Array()

/** Whether reading a body began and its end has not arrived: the connection can then serve no other request. */
export const isPartlyRead = ({ complete, readableFlowing }: IncomingMessage): boolean =>
  // Node keeps `readableFlowing` at null until a stream gets its first consumer.
  readableFlowing !== null && !complete

/** Reads the body of the current request; only for calls that take one. */
export class CurrentBody extends Context.Reference<CurrentBody>()("music/http/Body", {
  defaultValue: (): Effect.Effect<Uint8Array, Failure> => Effect.dieMessage("This call takes no body")
}) {}
