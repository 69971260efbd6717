/** Step 4 of the order of checks (docs/api.md): the forms of the headers that an endpoint's tags name, without any call. */
import type { IncomingMessage } from "node:http"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Failure } from "../../schema/Failure.ts"
import {
  accessTokenPattern,
  idempotencyKeyPattern,
  organisationPattern,
  testingSecretPattern
} from "../../schema/Patterns.ts"
import type { Credential } from "../../schema/Identity.ts"
import { Bearer, IdempotencyKey, OptionalBearer, PlaneSelection } from "../api/Middleware.ts"
import { countHeader } from "../transport/RawHeaders.ts"
import { CurrentExchange } from "./Exchange.ts"
import type { Call } from "./Routes.ts"

// Node joins a repeated header with a comma and a space, which no pattern here matches.
const readOne = ({ headers }: IncomingMessage, name: string): string | undefined => {
  const value = headers[name]
  return Array.isArray(value) ? value.join(", ") : value
}

const readKey = Effect.flatMap(
  CurrentExchange,
  ({
    message
  }): Either.Either<
    Redacted.Redacted,
    Failure<"idempotency_key_required"> | Failure<"idempotency_key_invalid">
  > => {
    const key = readOne(message, "idempotency-key")
    if (key === undefined) return Either.left(new Failure("idempotency_key_required"))
    return idempotencyKeyPattern.test(key)
      ? Either.right(Redacted.make(key))
      : Either.left(new Failure("idempotency_key_invalid"))
  }
)

const scheme = "Bearer "

const invalidOrganisation = (given: string | undefined): Failure<"invalid_input"> =>
  new Failure("invalid_input", {
    details: {
      fields: [
        {
          path: "X-Org-ID",
          problem:
            given === undefined
              ? "is required together with Authorization"
              : "must be 3 to 50 of a-z, 0-9, underscore and hyphen"
        }
      ]
    }
  })

/** What is wrong with the Authorization header; undefined when it has the form of a bearer. */
const problemOfAuthorization = (message: IncomingMessage): string | undefined => {
  const { authorization } = message.headers
  if (authorization === undefined) return "is missing"
  // Node keeps the first of several, so a repeated header is refused.
  if (countHeader(message, "authorization") > 1) return "must be sent exactly once"
  // Node drops the space of a scheme without a token.
  if (!`${authorization} `.startsWith(scheme)) return "must have the scheme `Bearer`, spelt exactly so"
  return accessTokenPattern.test(authorization.slice(scheme.length))
    ? undefined
    : "must have one space and one access token after the scheme: `oat_` and 28 to 8188 visible ASCII characters"
}

// Not the credential that the library reads: it takes any scheme for a bearer.
const readCredential = Effect.flatMap(
  CurrentExchange,
  (exchange): Either.Either<Credential, Failure<"unauthenticated"> | Failure<"invalid_input">> => {
    const { message } = exchange
    const problem = problemOfAuthorization(message)
    if (problem !== undefined)
      return Either.left(
        new Failure("unauthenticated", {
          message: `The Authorization header ${problem}.`,
          details: { fields: [{ path: "Authorization", problem }] }
        })
      )
    const token = message.headers.authorization?.slice(scheme.length) ?? ""
    const organisation = readOne(message, "x-org-id")
    if (organisation === undefined || !organisationPattern.test(organisation))
      return Either.left(invalidOrganisation(organisation))
    const credential = { token: Redacted.make(token), organisation }
    exchange.credential = Option.some(credential)
    return Either.right(credential)
  }
)

const readPerhapsCredential = Effect.flatMap(CurrentExchange, ({ message }) =>
  message.headers.authorization === undefined ? Effect.succeedNone : Effect.asSome(readCredential)
)

const testingHeader = "x-testing-environment-key"

/** Whether a request belongs to testing: it has the header in whatever form, and its call does not ignore it. */
export const selectsTestingPlane = (message: IncomingMessage, call: Call | undefined): boolean =>
  call?.selectsPlane !== false && message.headers[testingHeader] !== undefined

/** An empty, repeated or malformed secret is refused; a header in any form never means production. */
const readTestingSecret = Effect.flatMap(
  CurrentExchange,
  ({ message }): Either.Either<Option.Option<Redacted.Redacted>, Failure<"testing_secret_invalid">> => {
    const secret = readOne(message, testingHeader)
    if (secret === undefined) return Either.right(Option.none())
    return testingSecretPattern.test(secret)
      ? Either.right(Option.some(Redacted.make(secret)))
      : Either.left(new Failure("testing_secret_invalid"))
  }
)

/** The tags of the contract. An endpoint's last tag is checked first. */
export const SentHeadersLive = Layer.mergeAll(
  Layer.succeed(IdempotencyKey, readKey),
  Layer.succeed(Bearer, { bearer: () => readCredential }),
  Layer.succeed(OptionalBearer, { bearer: () => readPerhapsCredential }),
  Layer.succeed(PlaneSelection, readTestingSecret)
)
