/** Step 3 of the order of checks (docs/api.md): the media type and the declared length of a body. */
import type { IncomingMessage } from "node:http"
import { type Failure, PayloadTooLarge, UnsupportedMediaType } from "../../schema/Failure.ts"
import type { Call } from "../middleware/Routes.ts"
import { countHeader } from "../transport/RawHeaders.ts"

const mediaType = /^application\/json[ \t]*(?:;[ \t]*charset[ \t]*=[ \t]*"?utf-8"?[ \t]*)?;?[ \t]*$/i

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["transfer-encoding"] !== undefined ||
  (headers["content-length"] !== undefined && headers["content-length"] !== "0")

/** A body over the bound of its call, in bytes. */
export const tooLarge = (bound: number): PayloadTooLarge =>
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
