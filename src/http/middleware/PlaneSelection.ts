/** `X-Testing-Environment-Key`: which plane a request selects. A header in any form selects testing, never production. */
import type { IncomingMessage } from "node:http"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { TestingSecretInvalid } from "../../schema/Failure.ts"
import { testingSecretPattern } from "../../schema/Identity.ts"
import { PlaneSelection } from "../api/Middleware.ts"
import type { Call } from "./Routes.ts"

const header = "x-testing-environment-key"

/** Whether a request belongs to testing: it has the header, and its call does not ignore it. */
export const selectsTestingPlane = (message: IncomingMessage, call: Call | undefined): boolean =>
  call?.planes !== false && message.headers[header] !== undefined

/** Checks the shape of the testing secret; an empty, repeated or malformed one is refused. */
export const PlaneSelectionLive: Layer.Layer<PlaneSelection> = Layer.succeed(
  PlaneSelection,
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) => {
    const secret = headers[header]
    if (secret === undefined) return Effect.succeed(Option.none())
    return testingSecretPattern.test(secret)
      ? Effect.succeed(Option.some(Redacted.make(secret)))
      : Effect.fail(new TestingSecretInvalid())
  })
)
