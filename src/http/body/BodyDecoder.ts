import type { IncomingHttpHeaders } from "node:http"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { type Failure, InvalidInput, UnsupportedMediaType } from "../../schema/Failure.ts"
import { nestsTooDeep, parseJson, tooDeep } from "./StrictJson.ts"
import { type Field, reportsAllProblems, toFields } from "./ValidationErrors.ts"

const refuse = (fields: ReadonlyArray<Field>): Either.Either<never, Failure> =>
  Either.left(new InvalidInput({ details: { fields } }))

/** Decodes the bytes of a body, given the headers that came with it. */
export type BodyDecoder<Payload> = (
  headers: IncomingHttpHeaders,
  bytes: Uint8Array
) => Either.Either<Payload, Failure>

/** Strict JSON first, then the schema of the contract. An empty body means `{}` where it is optional. */
export const makeBodyDecoder = <Payload>(
  schema: Schema.Schema<Payload, unknown>,
  bodyOptional: boolean
): BodyDecoder<Payload> => {
  // The contract's own parse options collect every problem.
  const decodeAll = Schema.decodeUnknownEither(schema)
  const decodeToFirst = Schema.decodeUnknownEither(
    schema.annotations({ parseOptions: { onExcessProperty: "error", errors: "first" } })
  )
  return (headers, bytes) => {
    if (bytes.length > 0 && headers["content-type"] === undefined)
      return Either.left(new UnsupportedMediaType())
    const json = bodyOptional && bytes.length === 0 ? Either.right({}) : parseJson(bytes)
    if (Either.isLeft(json)) return refuse([{ path: "body", problem: json.left }])
    const decoded = (reportsAllProblems(bytes.length) ? decodeAll : decodeToFirst)(json.right)
    return Either.isRight(decoded)
      ? Either.right(decoded.right)
      : refuse(toFields(ParseResult.ArrayFormatter.formatErrorSync(decoded.left)))
  }
}

/** Checks the bytes of a signed body, which is not decoded before its signature: what reads it later may be recursive. */
export const checkNesting = (bytes: Uint8Array): Either.Either<void, Failure> =>
  nestsTooDeep(bytes) ? refuse([{ path: "body", problem: tooDeep }]) : Either.void
