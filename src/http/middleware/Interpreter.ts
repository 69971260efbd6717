/**
 * Steps 5 to 9 of the order of checks (docs/api.md): body, rate limits, plane, bearer, use case. Makes the way of a request
 * from an endpoint of the contract and its handler; the schemas are compiled once.
 */
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as AST from "effect/SchemaAST"
import { type Failure, Unauthenticated } from "../../schema/Failure.ts"
import { type Plane, planeId, productionId } from "../../services/Plane.ts"
import { Planes } from "../../services/Planes.ts"
import { Sessions } from "../../services/Sessions.ts"
import { Webhooks } from "../../services/Webhooks.ts"
import { checkNesting, makeBodyDecoder } from "../body/BodyDecoder.ts"
import type { AnyGiven, Handler } from "../handlers/Handler.ts"
import { type HttpResponse, jsonResponse } from "../transport/HttpResponse.ts"
import type { HeaderValues } from "./HeaderChecks.ts"
import { RateLimits } from "./RateLimits.ts"
import type { RequestFacts, RequestFindings } from "./RequestState.ts"
import type { Call, Endpoint } from "./Routes.ts"

/** A request that passed steps 1 to 4. */
export interface Admitted {
  readonly facts: RequestFacts
  readonly findings: RequestFindings
  readonly headers: HeaderValues
  /** Empty for a call without a body. */
  readonly body: Uint8Array
  /** Monotonic milliseconds. */
  readonly now: number
}

/** Answers an admitted request. */
export type Serve = (admitted: Admitted) => Effect.Effect<HttpResponse, Failure>

type Decode = (admitted: Admitted) => Either.Either<unknown, Failure>

const makeDecoder = ({ payloadSchema }: Endpoint, { bodyOptional, tags }: Call): Decode => {
  if (tags.signature || Option.isNone(payloadSchema)) return () => Either.void
  const decode = makeBodyDecoder(payloadSchema.value, bodyOptional)
  return ({ body, facts }) => decode(facts.message.headers, body)
}

/** The response of a success. A success that does not fit its schema is a defect. */
const makeEncoder = ({ successSchema }: Endpoint): ((success: unknown) => Effect.Effect<HttpResponse>) => {
  const status = HttpApiSchema.getStatusSuccess(successSchema)
  if (AST.isVoidKeyword(successSchema.ast)) {
    const empty = Effect.succeed<HttpResponse>({ status, headers: {} })
    return () => empty
  }
  const encode = Schema.encodeUnknownEither(successSchema)
  return (success) =>
    Either.match(encode(success), {
      onLeft: (error) => Effect.die(error),
      onRight: (encoded) => Effect.succeed(jsonResponse(status, encoded))
    })
}

/** Interprets the endpoints of the contract. */
export const makeInterpreter = Effect.gen(function* () {
  const planes = yield* Planes
  const sessions = yield* Sessions
  const webhooks = yield* Webhooks
  const limits = yield* RateLimits

  /** Counts a request; the failure when a quota is used up. */
  const checkRateLimits = ({ facts, findings, headers, now }: Admitted): Failure | undefined => {
    const {
      exceeded,
      failure,
      headers: reported
    } = limits.count(facts.message, facts.info.clientNetwork, headers.credential, now)
    findings.rateLimitHeaders = reported
    findings.exceededQuota = exceeded
    return failure
  }

  return (endpoint: Endpoint, call: Call, handler: Handler): Serve => {
    const { tags } = call
    const decode = makeDecoder(endpoint, call)
    const encode = makeEncoder(endpoint)

    const runInPlane = (
      { findings, headers }: Admitted,
      given: AnyGiven,
      plane: Plane
    ): Effect.Effect<unknown, Failure> => {
      findings.plane = planeId(plane)
      if (tags.bearer !== "required") return handler.run({ ...given, plane })
      if (Option.isNone(headers.credential)) return Effect.fail(new Unauthenticated())
      return Effect.flatMap(sessions.authenticate(plane, headers.credential.value), (caller) => {
        findings.actor = caller.actor.type
        return handler.run({ ...given, plane, caller })
      })
    }

    /** The signature covers the exact bytes: nothing of them is read before it is verified. */
    const runSigned = ({ findings }: Admitted, given: AnyGiven): Effect.Effect<unknown, Failure> => {
      const { body, message } = given
      findings.plane = "unverified"
      return Effect.flatMap(webhooks.verify({ rawHeaders: message.rawHeaders, body }), (event) => {
        findings.plane = event.plane._tag === "Production" ? productionId : "testing"
        const nesting = checkNesting(body)
        return Either.isLeft(nesting) ? Effect.fail(nesting.left) : handler.run({ ...given, event })
      })
    }

    return (admitted) => {
      const { body, facts, findings, headers } = admitted
      const payload = decode(admitted)
      if (Either.isLeft(payload)) return Effect.fail(payload.left)
      if (!tags.signature && !call.probe) {
        const failure = checkRateLimits(admitted)
        if (failure !== undefined) return Effect.fail(failure)
      }
      findings.committing = endpoint.method === "POST"
      const given: AnyGiven = {
        message: facts.message,
        body,
        payload: payload.right,
        plane: undefined,
        key: headers.key,
        caller: undefined,
        event: undefined,
        credential: headers.credential
      }
      const inPlane = tags.plane || tags.bearer !== "none"
      const run = inPlane
        ? Effect.flatMap(planes.resolve(headers.testingSecret), (plane) => runInPlane(admitted, given, plane))
        : tags.signature
          ? runSigned(admitted, given)
          : handler.run(given)
      return Effect.flatMap(run, (success) => {
        findings.actor = handler.actorOf(success) ?? findings.actor
        return encode(success)
      })
    }
  }
})
