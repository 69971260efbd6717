/** Implements the header tags of `api/Middleware.ts`: checks shapes only, without any call. */
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import {
  IdempotencyKeyInvalid,
  IdempotencyKeyRequired,
  InvalidInput,
  Unauthenticated
} from "../../schema/Failure.ts"
import { accessTokenPattern, idempotencyKeyPattern, organisationPattern } from "../../schema/Identity.ts"
import type { Credential } from "../../services/RequestCredentials.ts"
import { Bearer, IdempotencyKey, OptionalBearer, type PlaneSelection } from "../api/Middleware.ts"
import { countHeader } from "../transport/RawHeaders.ts"
import { PlaneSelectionLive } from "./PlaneSelection.ts"

const request = HttpServerRequest.HttpServerRequest

// Node joins a repeated header with a comma and a space, which no pattern here matches.
const IdempotencyKeyLive = Layer.succeed(
  IdempotencyKey,
  Effect.flatMap(
    request,
    ({ headers }): Effect.Effect<Redacted.Redacted, IdempotencyKeyRequired | IdempotencyKeyInvalid> => {
      const key = headers["idempotency-key"]
      if (key === undefined) return Effect.fail(new IdempotencyKeyRequired())
      return idempotencyKeyPattern.test(key)
        ? Effect.succeed(Redacted.make(key))
        : Effect.fail(new IdempotencyKeyInvalid())
    }
  )
)

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

const readCredential = Effect.flatMap(
  request,
  (given): Effect.Effect<Credential, Unauthenticated | InvalidInput> => {
    const authorization = given.headers.authorization
    const token = authorization?.startsWith(scheme) ? authorization.slice(scheme.length) : ""
    // Node keeps the first of several, so a repeated header is refused.
    const once = countHeader(NodeHttpServerRequest.toIncomingMessage(given), "authorization") === 1
    if (!once || !accessTokenPattern.test(token)) return Effect.fail(new Unauthenticated())
    const organisation = given.headers["x-org-id"]
    return organisation !== undefined && organisationPattern.test(organisation)
      ? Effect.succeed({ token: Redacted.make(token), organisation })
      : Effect.fail(invalidOrganisation(organisation))
  }
)

const BearerLive = Layer.succeed(Bearer, { bearer: () => readCredential })

const OptionalBearerLive = Layer.succeed(OptionalBearer, {
  bearer: () =>
    Effect.flatMap(request, ({ headers }) =>
      headers.authorization === undefined ? Effect.succeedNone : Effect.asSome(readCredential)
    )
})

export const HeaderChecksLive: Layer.Layer<IdempotencyKey | Bearer | OptionalBearer | PlaneSelection> =
  Layer.mergeAll(IdempotencyKeyLive, BearerLive, OptionalBearerLive, PlaneSelectionLive)
