/** Step 4 of the order of checks (docs/api.md): the shapes of the headers that an endpoint's tags name, without any call. */
import type { IncomingMessage } from "node:http"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import {
  type Failure,
  IdempotencyKeyInvalid,
  IdempotencyKeyRequired,
  InvalidInput,
  TestingSecretInvalid,
  Unauthenticated
} from "../../schema/Failure.ts"
import {
  accessTokenPattern,
  idempotencyKeyPattern,
  organisationPattern,
  testingSecretPattern
} from "../../schema/Patterns.ts"
import type { Credential } from "../../services/RequestCredentials.ts"
import { countHeader } from "../transport/RawHeaders.ts"
import type { Call } from "./Routes.ts"

/** Values of well-formed headers. */
export interface HeaderValues {
  readonly key: Redacted.Redacted | undefined
  readonly credential: Option.Option<Credential>
  /** The testing secret; none means production. */
  readonly testingSecret: Option.Option<Redacted.Redacted>
}

// Node joins a repeated header with a comma and a space, which no pattern here matches.
const readOne = (message: IncomingMessage, name: string): string | undefined => {
  const value = message.headers[name]
  return Array.isArray(value) ? value.join(", ") : value
}

const readKey = (message: IncomingMessage): Either.Either<Redacted.Redacted, Failure> => {
  const key = readOne(message, "idempotency-key")
  if (key === undefined) return Either.left(new IdempotencyKeyRequired())
  return idempotencyKeyPattern.test(key)
    ? Either.right(Redacted.make(key))
    : Either.left(new IdempotencyKeyInvalid())
}

const scheme = "Bearer "

const invalidOrganisation = (given: string | undefined): InvalidInput =>
  new InvalidInput({
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

const readCredential = (message: IncomingMessage): Either.Either<Option.Option<Credential>, Failure> => {
  const problem = problemOfAuthorization(message)
  if (problem !== undefined)
    return Either.left(
      new Unauthenticated({
        message: `The Authorization header ${problem}.`,
        details: { fields: [{ path: "Authorization", problem }] }
      })
    )
  const token = message.headers.authorization?.slice(scheme.length) ?? ""
  const organisation = readOne(message, "x-org-id")
  return organisation !== undefined && organisationPattern.test(organisation)
    ? Either.right(Option.some({ token: Redacted.make(token), organisation }))
    : Either.left(invalidOrganisation(organisation))
}

const testingHeader = "x-testing-environment-key"

/** Whether a request belongs to testing: it has the header in whatever form, and its call does not ignore it. */
export const selectsTestingPlane = (message: IncomingMessage, call: Call | undefined): boolean =>
  call?.tags.plane !== false && message.headers[testingHeader] !== undefined

/** An empty, repeated or malformed secret is refused; a header in any form never means production. */
const readTestingSecret = (
  message: IncomingMessage
): Either.Either<Option.Option<Redacted.Redacted>, Failure> => {
  const secret = readOne(message, testingHeader)
  if (secret === undefined) return noneRight
  return testingSecretPattern.test(secret)
    ? Either.right(Option.some(Redacted.make(secret)))
    : Either.left(new TestingSecretInvalid())
}

const noneRight = Either.right(Option.none())

/** The values of the headers that the call reads, or the first failure: key, then bearer, then plane. */
export const readHeaders = (
  message: IncomingMessage,
  { tags }: Pick<Call, "tags">
): Either.Either<HeaderValues, Failure> => {
  const key = tags.key ? readKey(message) : Either.right(undefined)
  if (Either.isLeft(key)) return Either.left(key.left)
  const signedIn =
    tags.bearer === "required" || (tags.bearer === "optional" && message.headers.authorization !== undefined)
  const credential = signedIn ? readCredential(message) : noneRight
  if (Either.isLeft(credential)) return Either.left(credential.left)
  const testingSecret = tags.plane ? readTestingSecret(message) : noneRight
  if (Either.isLeft(testingSecret)) return Either.left(testingSecret.left)
  return Either.right({
    key: key.right,
    credential: credential.right,
    testingSecret: testingSecret.right
  })
}
