/**
 * Steps 5 to 9 of the order of checks (api.md): body, rate limits, plane, bearer, use case. Each `serve…` function makes
 * the handler of an endpoint; the only other way into a use case is `/healthz` and `/readyz`, which check nothing.
 */
import type { IncomingMessage } from "node:http"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Failure } from "../../schema/Failure.ts"
import type { ActorType } from "../../schema/Identity.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import { Planes } from "../../services/Planes.ts"
import {
  type Caller,
  type Credential,
  CurrentCredential,
  OptionalCredential,
  PlaneSelector
} from "../../services/RequestCredentials.ts"
import { Sessions } from "../../services/Sessions.ts"
import { claimsTesting } from "../../services/Webhooks.ts"
import { BodyOptional } from "../api/EndpointAnnotations.ts"
import { makeBodyDecoder } from "../body/BodyDecoder.ts"
import { CurrentBody } from "../body/BodyReader.ts"
import { DetachedWork } from "../../services/DetachedWork.ts"
import { RateLimits } from "./RateLimits.ts"
import { CurrentFindings, type RequestFindings } from "./RequestState.ts"

/** The parts of an endpoint that the guard reads. */
interface Endpoint<Payload, E> {
  readonly method: string
  readonly annotations: Context.Context<never>
  readonly payloadSchema: Option.Option<Schema.Schema<Payload, unknown, unknown>>
  readonly errorSchema: Schema.Schema<E, unknown>
}

/** The parts of a handler's argument that the guard reads. */
interface Given {
  readonly request: HttpServerRequest.HttpServerRequest
}

const record = (write: (findings: RequestFindings) => void): Effect.Effect<void> =>
  Effect.map(CurrentFindings, (findings) => {
    if (findings !== undefined) write(findings)
  })

/** Records the type of a caller whom IAM has vouched for. */
export const recordActor = (type: ActorType): Effect.Effect<void> =>
  record((findings) => {
    findings.actor = type
  })

/**
 * Fails with what the endpoint declares. An undeclared failure is a gap in the contract: it is logged, and reaches the
 * caller all the same.
 */
const failAsDeclared = <E>({ errorSchema }: Pick<Endpoint<never, E>, "errorSchema">) => {
  const isDeclared = Schema.is(errorSchema)
  return (failure: Failure): Effect.Effect<never, E> =>
    isDeclared(failure)
      ? Effect.fail(failure)
      : Effect.zipRight(
          Effect.logWarning("A call returned a failure that it does not declare", { code: failure.code }),
          // The router's type has room for declared failures only; `Pipeline` answers every failure.
          Effect.fail(failure as never)
        )
}

const readBytes = Effect.flatten(CurrentBody)

/** Reads and decodes the body of an endpoint that takes one. */
const makePayloadReader = <Payload, E>({
  annotations,
  payloadSchema
}: Endpoint<Payload, E>): ((message: IncomingMessage) => Effect.Effect<Payload, Failure>) => {
  if (Option.isNone(payloadSchema)) {
    // Without a schema the type of the payload is `never`, and no handler can name it.
    const nothing = Effect.succeed(undefined as never)
    return () => nothing
  }
  // An endpoint's type adds its middleware to the context of its payload, which itself needs no service.
  const schema = payloadSchema.value as Schema.Schema<Payload, unknown>
  const decode = makeBodyDecoder(schema, Context.get(annotations, BodyOptional))
  return ({ headers }) => Effect.flatMap(readBytes, (bytes) => decode(headers, bytes))
}

/** Makes the handlers of endpoints: a use case behind the checks that its endpoint needs. */
export class RequestGuard extends Effect.Service<RequestGuard>()("music/http/RequestGuard", {
  effect: Effect.gen(function* () {
    const planes = yield* Planes
    const sessions = yield* Sessions
    const limits = yield* RateLimits
    const work = yield* DetachedWork

    const checkRateLimits = (
      message: IncomingMessage,
      credential: Option.Option<Credential>
    ): Effect.Effect<void, Failure> =>
      Effect.flatMap(limits.count(message, credential), ({ failure, headers }) =>
        Effect.zipRight(
          record((findings) => {
            findings.rateLimitHeaders = headers
          }),
          failure === undefined ? Effect.void : Effect.fail(failure)
        )
      )

    const selectPlane = Effect.tap(Effect.flatMap(PlaneSelector, planes.resolve), (plane) =>
      record((findings) => {
        findings.plane = planeId(plane)
      })
    )

    /** Work of a POST may commit something: it continues when its client disconnects. */
    const detachIfPost = <A, E, R>(method: string, use: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      method === "POST" ? work.run(use) : use

    /** Body, then rate limits, then `use`. */
    const makeHandler = <Payload, E>(endpoint: Endpoint<Payload, E>) => {
      const readPayload = makePayloadReader(endpoint)
      const fail = failAsDeclared(endpoint)
      return <A, R>(
        { request }: Given,
        credential: Option.Option<Credential>,
        use: (payload: Payload) => Effect.Effect<A, Failure, R>
      ): Effect.Effect<A, E, R> => {
        const message = NodeHttpServerRequest.toIncomingMessage(request)
        return Effect.catchAll(
          Effect.flatMap(readPayload(message), (payload) =>
            Effect.zipRight(checkRateLimits(message, credential), detachIfPost(endpoint.method, use(payload)))
          ),
          fail
        )
      }
    }

    /** For calls that need neither a plane nor a bearer. */
    const serveOpen = <Payload, E, A, R>(
      endpoint: Endpoint<Payload, E>,
      use: (payload: Payload) => Effect.Effect<A, Failure, R>
    ) => {
      const handle = makeHandler(endpoint)
      return (given: Given) => handle(given, Option.none(), use)
    }

    /** For calls in a plane, without a bearer. */
    const serveInPlane = <Payload, E, A, R>(
      endpoint: Endpoint<Payload, E>,
      use: (plane: Plane, payload: Payload, message: IncomingMessage) => Effect.Effect<A, Failure, R>
    ) => {
      const handle = makeHandler(endpoint)
      return (given: Given) =>
        handle(given, Option.none(), (payload) =>
          Effect.flatMap(selectPlane, (plane) =>
            use(plane, payload, NodeHttpServerRequest.toIncomingMessage(given.request))
          )
        )
    }

    /** For calls in a plane whose bearer is optional. */
    const serveWithOptionalBearer = <Payload, E, A, R>(
      endpoint: Endpoint<Payload, E>,
      use: (
        plane: Plane,
        credential: Option.Option<Credential>,
        payload: Payload
      ) => Effect.Effect<A, Failure, R>
    ) => {
      const handle = makeHandler(endpoint)
      return (given: Given) =>
        Effect.flatMap(OptionalCredential, (credential) =>
          handle(given, credential, (payload) =>
            Effect.flatMap(selectPlane, (plane) => use(plane, credential, payload))
          )
        )
    }

    /** For calls in a plane of a caller whom IAM vouches for. */
    const serveWithBearer = <Payload, E, A, R>(
      endpoint: Endpoint<Payload, E>,
      use: (plane: Plane, caller: Caller, payload: Payload) => Effect.Effect<A, Failure, R>
    ) => {
      const handle = makeHandler(endpoint)
      return (given: Given) =>
        Effect.flatMap(CurrentCredential, (credential) =>
          handle(given, Option.some(credential), (payload) =>
            Effect.flatMap(selectPlane, (plane) =>
              Effect.flatMap(sessions.authenticate(plane, credential), (caller) =>
                Effect.zipRight(recordActor(caller.actor.type), use(plane, caller, payload))
              )
            )
          )
        )
    }

    /**
     * For IAM's deliveries. Their exact bytes are signed, so nothing is decoded here. No rate limit applies: few
     * addresses send all of them, and a refused delivery is sent again.
     */
    const serveWebhook = <Payload, E, A, R>(
      endpoint: Endpoint<Payload, E>,
      use: (rawHeaders: ReadonlyArray<string>, body: Uint8Array) => Effect.Effect<A, Failure, R>
    ) => {
      const fail = failAsDeclared(endpoint)
      const recordTesting = record((findings) => {
        findings.plane = "testing"
      })
      return ({ request }: Given): Effect.Effect<A, E, R> => {
        const { rawHeaders } = NodeHttpServerRequest.toIncomingMessage(request)
        return Effect.catchAll(
          Effect.flatMap(readBytes, (body) =>
            Effect.zipRight(
              claimsTesting(body) ? recordTesting : Effect.void,
              detachIfPost(endpoint.method, use(rawHeaders, body))
            )
          ),
          fail
        )
      }
    }

    return { serveOpen, serveInPlane, serveWithOptionalBearer, serveWithBearer, serveWebhook } as const
  })
}) {}
