/**
 * Around every request: its id and span, steps 1 to 3 of the order of checks (docs/api.md), the envelope of every failure, and one log
 * line. The library wraps it around its router, which has the endpoints and their tags.
 */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import { failureHeaders, failureStatus, securityHeaders, toEnvelope } from "../../schema/Envelope.ts"
import { Failure, type QuotaReading, refuseField } from "../../schema/Failure.ts"
import { clientVersionPattern, isLowerVersion, requestIdPattern } from "../../schema/Patterns.ts"
import { Drain } from "../../services/Drain.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { productionId } from "../../services/Plane.ts"
import { RequestContext, type Source } from "../../services/RequestContext.ts"
import { Settings } from "../../services/Settings.ts"
import { redact } from "../../services/text/Redaction.ts"
import { writeResponse } from "../../services/WriteResponse.ts"
import { checkFraming, misframed } from "../transport/UnparsedRequest.ts"
import { apiPrefix } from "../api/Endpoint.ts"
import { checkBodyHeaders, hasBody, makeBodyReader, withJson } from "../body/RequestBody.ts"
import { clientAddressResolver, toNetwork } from "../transport/ClientAddress.ts"
import { makeRecorder, makeRequestSpan } from "./AccessLog.ts"
import { countHeader, CurrentExchange, type Exchange, newRequestId } from "./Exchange.ts"
import { RequestPlaces } from "./RequestPlaces.ts"
import { routes, toPath } from "./Routes.ts"
import { testingHeader } from "./SentHeaders.ts"
import { corsHeaders } from "./WebOrigins.ts"

/** RFC 9112, 3.2: exactly one Host with HTTP/1.1. */
const checkHost = (message: IncomingMessage): Failure | undefined =>
  message.httpVersion === "1.0" || countHeader(message, "host") === 1
    ? undefined
    : refuseField("Host", "must be sent exactly once")

/** The caller's own request id when it is well-formed, sent once and no misplaced credential; otherwise a new one. */
const readRequestId = ({ "x-request-id": given = "" }: IncomingHttpHeaders): string => {
  const id = given.toString()
  return requestIdPattern.test(id) && redact(id) === id ? id : newRequestId()
}

const sources: ReadonlyArray<Source> = ["cli", "daemon", "web"]

// Node joins a repeated header with commas; a single `1` among the values is an opt-out.
const optOut = /(?:^|,)\s*1\s*(?:,|$)/

/** Whether the caller allows recording. Any unknown value counts as an opt-out. */
const allowsRecording = (headers: IncomingHttpHeaders): boolean =>
  (headers["x-music-telemetry"] ?? "on") === "on" &&
  !optOut.test(String(headers["sec-gpc"])) &&
  !optOut.test(String(headers.dnt))

/** `X-Music-Client-Version`; anything that is no version, or holds a credential, counts as absent, never as a refusal. */
const readClientVersion = (headers: IncomingHttpHeaders): string | undefined => {
  const version = String(headers["x-music-client-version"])
  return clientVersionPattern.test(version) && redact(version) === version ? version : undefined
}

/** `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10); none without a reading. */
const rateLimitHeaders = (readings: ReadonlyArray<QuotaReading>) =>
  readings.length === 0
    ? {}
    : {
        "ratelimit-policy": readings
          .map(({ policy }) => `"${policy.name}";q=${policy.quota};w=${policy.windowSeconds}`)
          .join(", "),
        ratelimit: readings
          .map(({ policy, remaining, resetSeconds }) => `"${policy.name}";r=${remaining};t=${resetSeconds}`)
          .join(", ")
      }

export const AnswersLive = HttpApiBuilder.middleware(
  Effect.gen(function* () {
    const { minCli, requestDeadlineSeconds, telemetry, trustedProxies, webOrigins } = yield* Settings
    const drain = yield* Drain
    const places = yield* RequestPlaces
    const record = yield* makeRecorder
    const withRequestSpan = yield* makeRequestSpan
    const clock = yield* Effect.clock
    const readBody = yield* makeBodyReader(Duration.seconds(requestDeadlineSeconds))
    const resolveAddress = clientAddressResolver(trustedProxies)

    const begin = (request: HttpServerRequest.HttpServerRequest): Exchange => {
      const message = NodeHttpServerRequest.toIncomingMessage(request)
      const { headers, method = "", url = "" } = message
      const path = toPath(url)
      const route = routes.get(path)
      const call = route?.calls.get(method)
      return {
        message,
        path,
        route,
        call,
        requestId: readRequestId(headers),
        source: sources.find((source) => source === headers["x-music-source"]) ?? "unknown",
        clientNetwork: toNetwork(resolveAddress(message)),
        recording: telemetry.enabled && allowsRecording(headers),
        deadlineAt: unsafeMonotonicMillis(clock) + requestDeadlineSeconds * 1_000,
        body: readBody(message, call?.bodyBound ?? 0),
        clientVersion: readClientVersion(headers),
        startedAt: clock.unsafeCurrentTimeNanos(),
        plane: headers[testingHeader] === undefined ? productionId : "testing",
        actor: "anonymous",
        credential: Option.none(),
        quotas: [],
        committing: false,
        closing: false,
        failure: undefined
      }
    }

    /** Steps 1 to 3, then the call. */
    const answer = (
      exchange: Exchange,
      request: HttpServerRequest.HttpServerRequest,
      app: HttpApp.Default
    ): HttpApp.Default<Failure> => {
      const { call, message, path, route } = exchange
      const misframing = checkFraming(message)
      exchange.closing = misframing !== undefined
      const malformed = misframing ?? checkHost(message)
      if (malformed !== undefined) return malformed
      if (route === undefined) return new Failure("not_found")
      const { allow } = route
      if (message.method === "OPTIONS")
        return Effect.succeed(HttpServerResponse.empty({ status: 204, headers: { allow } }))
      if (call === undefined) return new Failure("method_not_allowed", { allow })
      // What arrived with the head of the request is read before the answer, which ends the connection.
      if (drain.isDraining() && !call.probe)
        return Effect.zipRight(Effect.yieldNow(), new Failure("shutting_down"))
      // The router matches the path alone: the target may have an authority, and a query is not read.
      const local = request.url === path ? request : request.modify({ url: path })
      const routed = call.bodyBound === undefined ? local : withJson(local, exchange, call)
      const services = Context.make(HttpServerRequest.HttpServerRequest, routed).pipe(
        Context.add(CurrentExchange, exchange),
        Context.add(RequestContext, exchange)
      )
      // Not `Effect.provide`: as below, nothing is put back.
      const served = Effect.zipRight(FiberRef.update(FiberRef.currentContext, Context.merge(services)), app)
      return call.probe ? served : places.run(exchange, checkBodyHeaders(message, call) ?? served)
    }

    /**
     * Records the request, and gives its response with the headers that do not depend on its content (docs/api.md, "Conventions"): the
     * request id always, `no-store` for all but the documents, CORS, rate limits, the end of the connection, and under `/api/v1` the
     * oldest supported version for a client that sends a lower one.
     */
    const respond = (exchange: Exchange, given: HttpServerResponse.HttpServerResponse) => {
      const { clientVersion, message, path, quotas, requestId } = exchange
      const allow = message.method === "OPTIONS" ? given.headers.allow : undefined
      // While a body still arrives, the end of the connection would reset it, and the answer would be lost.
      const isArriving = !message.complete && hasBody(message)
      // Node drops what has arrived behind a request for an upgrade.
      const isLast = exchange.closing || (message.headers.upgrade !== undefined && !isArriving)
      const closing = isLast || (drain.isDraining() && message.complete)
      // What the response has itself counts.
      const response = HttpServerResponse.setHeaders(given, {
        ...securityHeaders,
        "cache-control": "no-store",
        ...corsHeaders(webOrigins, exchange, allow),
        ...rateLimitHeaders(quotas),
        ...(clientVersion !== undefined && path.startsWith(apiPrefix) && isLowerVersion(clientVersion, minCli)
          ? { "x-music-min-cli": minCli }
          : {}),
        ...(closing ? { connection: "close" } : {}),
        "x-request-id": requestId,
        ...given.headers
      })
      return Effect.as(record(exchange, response.status), response)
    }

    /** The envelope, which every error response has. */
    const respondWithFailure = (exchange: Exchange, failure: Failure) => {
      exchange.failure = failure
      if (failure.quota !== undefined) exchange.quotas = [...exchange.quotas, failure.quota]
      const options = { status: failureStatus(failure), headers: failureHeaders(failure) }
      return respond(exchange, HttpServerResponse.unsafeJson(toEnvelope(failure), options))
    }

    /** Anything but a failure, such as a defect or a success that does not fit its schema, is logged with its cause. */
    const respondToCause = (exchange: Exchange, cause: Cause.Cause<unknown>) => {
      const error = Cause.squash(cause)
      if (error instanceof Failure) return respondWithFailure(exchange, error)
      if (!Cause.isInterruptedOnly(cause))
        return Effect.zipRight(
          Effect.logError("Request failed", cause),
          respondWithFailure(exchange, new Failure("internal"))
        )
      // By the client, or the process ends. A response behind others has no connection yet, and a request always has it.
      return exchange.message.socket.destroyed
        ? respond(exchange, HttpServerResponse.empty({ status: 499 }))
        : respondWithFailure(exchange, new Failure("shutting_down"))
    }

    return (app) =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
        const exchange = begin(request)
        if (misframed.has(exchange.message.socket))
          return Effect.succeed(writeResponse(request, HttpServerResponse.empty()))
        const answered = Effect.matchCauseEffect(
          Effect.suspend(() => answer(exchange, request, app)),
          {
            onSuccess: (response) => respond(exchange, response),
            onFailure: (cause) => respondToCause(exchange, cause)
          }
        )
        // The fiber is this request's own, so nothing is put back after it.
        const annotate = HashMap.set<string, unknown>("request_id", exchange.requestId)
        return Effect.zipRight(
          FiberRef.update(FiberRef.currentLogAnnotations, annotate),
          Effect.map(withRequestSpan(exchange, answered), (response) => writeResponse(request, response))
        )
      })
  })
)
