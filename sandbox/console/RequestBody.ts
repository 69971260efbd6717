import type { IncomingMessage } from "node:http"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { parseJson } from "../upstreams/Contract.ts"
import { Refused } from "./Refused.ts"

/** Largest body of a page, bytes. */
export const bodyLimit = 1_048_576

/** The whole body; `"too large"` without reading the rest. Interrupts when the caller goes away. */
export const readBody = (request: IncomingMessage, limit: number): Effect.Effect<Buffer | "too large"> =>
  Effect.async((resume) => {
    const chunks: Array<Buffer> = []
    let size = 0
    request.on("data", (chunk: Buffer) => {
      size += chunk.length
      if (size <= limit) chunks.push(chunk)
      else {
        request.pause()
        resume(Effect.succeed("too large"))
      }
    })
    request.once("end", () => resume(Effect.succeed(Buffer.concat(chunks))))
    request.once("error", () => resume(Effect.interrupt))
  })

const describe = (error: ParseResult.ParseError): string => {
  const [first] = ParseResult.ArrayFormatter.formatErrorSync(error)
  return first === undefined
    ? "it does not fit"
    : [first.path.join("."), first.message].filter(Boolean).join(": ")
}

/** The value of a JSON body that fits the schema. */
export const decodeBody = <A, I>(schema: Schema.Schema<A, I>, body: Buffer): Effect.Effect<A, Refused> => {
  const json = parseJson(body)
  if (json === undefined)
    return Effect.fail(new Refused({ message: "The body is not JSON", hint: "send one JSON object" }))
  return Either.match(Schema.decodeUnknownEither(schema)(json, { onExcessProperty: "error" }), {
    onLeft: (error) =>
      Effect.fail(
        new Refused({
          message: describe(error),
          hint: "correct the field that is named, and send it again"
        })
      ),
    onRight: Effect.succeed
  })
}
