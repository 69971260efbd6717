/**
 * What an endpoint requires of a request besides its body. Each tag checks the form of a header before the body is read, without any
 * call (step 4 of the order of checks, docs/api.md), and provides what was sent; its failures are also those of verifying it later. A
 * handler that asks for what its endpoint has no tag for does not compile. An endpoint's last tag is checked first.
 */
import type { IncomingMessage } from "node:http"
import * as HttpApiMiddleware from "@effect/platform/HttpApiMiddleware"
import * as HttpApiSecurity from "@effect/platform/HttpApiSecurity"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Failure, type FailureCode, type FailureOf, refuseField } from "../../schema/Failure.ts"
import type { Credential } from "../../schema/Identity.ts"
import {
  accessTokenPattern,
  idempotencyKeyPattern,
  organisationPattern,
  testingSecretPattern
} from "../../schema/Patterns.ts"
import { failures } from "../api/Endpoint.ts"
import { countHeader, CurrentExchange } from "./Exchange.ts"

/** What was sent, or the failure of its form: Node joins a repeated header with a comma and a space, which no pattern here matches. */
type Sent<A, Code extends FailureCode> = Effect.Effect<A, FailureOf<Code>>

/** The caller's idempotency key. */
export class SentKey extends Context.Tag("music/http/SentKey")<SentKey, Redacted.Redacted>() {}

/** `Idempotency-Key`, required. */
export class IdempotencyKey extends HttpApiMiddleware.Tag<IdempotencyKey>()("music/http/IdempotencyKey", {
  failure: failures("idempotency_key_required", "idempotency_key_invalid"),
  provides: SentKey
}) {}

const readKey = Effect.flatMap(
  CurrentExchange,
  ({ message }): Sent<Redacted.Redacted, "idempotency_key_required" | "idempotency_key_invalid"> => {
    const key = message.headers["idempotency-key"]?.toString()
    if (key === undefined) return new Failure("idempotency_key_required")
    return idempotencyKeyPattern.test(key)
      ? Effect.succeed(Redacted.make(key))
      : new Failure("idempotency_key_invalid")
  }
)

const bearer = HttpApiSecurity.annotateContext(
  HttpApiSecurity.bearer,
  OpenApi.annotations({
    format: "oat_",
    description:
      "Access token of a session from login or refresh: `oat_` and 28 to 8188 visible ASCII characters. Always sent together with `X-Org-ID`."
  })
)

const sessionFailures = failures("invalid_input", "unauthenticated", "forbidden", "reconsent_required")

/** A bearer and its organisation; IAM has not verified them. */
export class SentCredential extends Context.Tag("music/http/SentCredential")<SentCredential, Credential>() {}

/** `Authorization` with `X-Org-ID`, required. */
export class Bearer extends HttpApiMiddleware.Tag<Bearer>()("music/http/Bearer", {
  failure: sessionFailures,
  security: { bearer },
  provides: SentCredential
}) {}

/** The same where a caller need not sign in. */
export class PerhapsCredential extends Context.Tag("music/http/PerhapsCredential")<
  PerhapsCredential,
  Option.Option<Credential>
>() {}

/** `Authorization` with `X-Org-ID`, or neither. */
export class OptionalBearer extends HttpApiMiddleware.Tag<OptionalBearer>()("music/http/OptionalBearer", {
  failure: sessionFailures,
  security: { bearer },
  provides: PerhapsCredential
}) {}

const scheme = "Bearer "

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

const readCredential = Effect.flatMap(
  CurrentExchange,
  (exchange): Sent<Credential, "unauthenticated" | "invalid_input"> => {
    const { message } = exchange
    const problem = problemOfAuthorization(message)
    if (problem !== undefined)
      return new Failure("unauthenticated", {
        message: `The Authorization header ${problem}.`,
        details: { fields: [{ path: "Authorization", problem }] }
      })
    const organisation = message.headers["x-org-id"]?.toString()
    if (organisation === undefined || !organisationPattern.test(organisation))
      return refuseField(
        "X-Org-ID",
        "must be 3 to 50 of a-z, 0-9, underscore and hyphen, and is required together with Authorization"
      )
    const token = Redacted.make(message.headers.authorization?.slice(scheme.length) ?? "")
    exchange.credential = Option.some({ token, organisation })
    return Effect.succeed({ token, organisation })
  }
)

const readPerhapsCredential = Effect.flatMap(CurrentExchange, ({ message }) =>
  message.headers.authorization === undefined ? Effect.succeedNone : Effect.asSome(readCredential)
)

/** The testing secret; none means production. */
export class SentTestingSecret extends Context.Tag("music/http/SentTestingSecret")<
  SentTestingSecret,
  Option.Option<Redacted.Redacted>
>() {}

/** `X-Testing-Environment-Key`: a request with this header, in any form, is a testing request. */
export class PlaneSelection extends HttpApiMiddleware.Tag<PlaneSelection>()("music/http/PlaneSelection", {
  failure: failures("testing_secret_invalid", "forbidden", "rate_limited", "dependency_unavailable"),
  provides: SentTestingSecret
}) {}

/** Makes a request one of testing. */
export const testingHeader = "x-testing-environment-key"

/** An empty, repeated or malformed secret is refused; a header in any form never means production. */
const readTestingSecret = Effect.flatMap(CurrentExchange, ({ message }) => {
  const secret = message.headers[testingHeader]?.toString()
  if (secret === undefined) return Effect.succeedNone
  return testingSecretPattern.test(secret)
    ? Effect.succeedSome(Redacted.make(secret))
    : new Failure("testing_secret_invalid")
})

export const SentHeadersLive = Layer.mergeAll(
  Layer.succeed(IdempotencyKey, readKey),
  // Not the credential that the library reads: it takes any scheme for a bearer.
  Layer.succeed(Bearer, { bearer: () => readCredential }),
  Layer.succeed(OptionalBearer, { bearer: () => readPerhapsCredential }),
  Layer.succeed(PlaneSelection, readTestingSecret)
)
