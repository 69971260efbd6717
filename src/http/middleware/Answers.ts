/**
 * Around every request: its id and span, steps 1 to 3 of the order of checks (docs/api.md), the envelope of every failure, and one log
 * line. The library wraps it around its router, which has the endpoints and their tags.
 */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiError from "@effect/platform/HttpApiError"
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
import { Failure, type QuotaReading } from "../../schema/Failure.ts"
import { clientVersionMaxLength, clientVersionPattern, isLowerVersion } from "../../schema/Patterns.ts"
import { Drain } from "../../services/Drain.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { productionId } from "../../services/Plane.ts"
import { RequestContext, type Source } from "../../services/RequestContext.ts"
import { Settings } from "../../services/Settings.ts"
import { writeResponse } from "../../services/WriteResponse.ts"
import { failureOfFraming, misframed } from "../transport/UnparsedRequest.ts"
import { apiPrefix } from "../api/Endpoint.ts"
import { checkBodyHeaders, makeBodyReader, withJson } from "../body/RequestBody.ts"
import { leavesUnreadBody, lingering } from "../body/UnreadBody.ts"
import { toFields } from "../body/ValidationErrors.ts"
import { clientAddressResolver, toNetwork } from "../transport/ClientAddress.ts"
import { countHeader, resolveRequestId } from "../transport/RawHeaders.ts"
import { makeRecorder, makeRequestSpan } from "./AccessLog.ts"
import { CurrentExchange, type Exchange } from "./Exchange.ts"
import { RequestPlaces } from "./RequestPlaces.ts"
import { allowedMethods, refuseUnrouted, routes, toPath } from "./Routes.ts"
import { selectsTestingPlane } from "./SentHeaders.ts"
import { corsHeaders, preflightHeaders } from "./WebOrigins.ts"

/** Status of a request whose client disconnected; it is logged and never sent. */
const clientClosedRequest = 499

/**
 * Milliseconds for which a client may send the rest of a refused body. Shorter where the process drains, which it must not delay, and
 * where the rest has no end that this server knows.
 */
const lingerMillis = 5_000
const shortLingerMillis = 1_000

/** RFC 9112, 3.2: exactly one Host with HTTP/1.1. */
const checkHost = (message: IncomingMessage): Failure | undefined =>
  message.httpVersion === "1.0" || countHeader(message, "host") === 1
    ? undefined
    : new Failure("invalid_input", {
        details: { fields: [{ path: "Host", problem: "must be sent exactly once" }] }
      })

const sources: ReadonlyArray<Source> = ["cli", "daemon", "web"]

// Node joins a repeated header with commas, so `String` loses nothing; a single `1` among the values is an opt-out.
const isOptOut = (value: string | ReadonlyArray<string> | undefined): boolean =>
  value !== undefined &&
  String(value)
    .split(",")
    .some((part) => part.trim() === "1")

/** Whether the caller allows recording. Any unknown value counts as an opt-out. */
const allowsRecording = (headers: IncomingHttpHeaders): boolean =>
  (headers["x-music-telemetry"] ?? "on") === "on" && !isOptOut(headers["sec-gpc"]) && !isOptOut(headers.dnt)

/** `X-Music-Client-Version`; anything that is no version counts as absent, never as a refusal. */
const readClientVersion = (headers: IncomingHttpHeaders): string | undefined => {
  const version = String(headers["x-music-client-version"])
  return version.length <= clientVersionMaxLength && clientVersionPattern.test(version) ? version : undefined
}

/** Adds the headers that the response has not. The library's `setHeaders` costs several times as much. */
const addHeaders = (
  response: HttpServerResponse.HttpServerResponse,
  headers: Readonly<Record<string, string>>
): HttpServerResponse.HttpServerResponse =>
  Object.entries(headers).reduce(
    (given, [name, value]) =>
      name in given.headers ? given : HttpServerResponse.setHeader(given, name, value),
    response
  )

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

/**
 * The failure of a cause. Anything else, such as a defect or a success that does not fit its schema, is logged with its cause and becomes
 * `internal`. The library has one error for a payload of the caller and for a success of ours.
 */
const toFailure = (cause: Cause.Cause<unknown>, { call, decoded }: Exchange): Effect.Effect<Failure> => {
  const error = Cause.squash(cause)
  if (error instanceof Failure) return Effect.succeed(error)
  return error instanceof HttpApiError.HttpApiDecodeError && !decoded && call?.bodyBound !== undefined
    ? Effect.succeed(new Failure("invalid_input", { details: { fields: toFields(error.issues) } }))
    : Effect.as(Effect.logError("Request failed", cause), new Failure("internal"))
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
        info: {
          requestId: resolveRequestId(headers["x-request-id"]?.toString()),
          source: sources.find((source) => source === headers["x-music-source"]) ?? "unknown",
          clientNetwork: toNetwork(resolveAddress(message)),
          recording: telemetry.enabled && allowsRecording(headers),
          deadlineAt: unsafeMonotonicMillis(clock) + requestDeadlineSeconds * 1_000
        },
        body: readBody(message, call?.bodyBound ?? 0),
        clientVersion: readClientVersion(headers),
        startedAt: clock.unsafeCurrentTimeNanos(),
        span: undefined,
        plane: selectsTestingPlane(message, call) ? "testing" : productionId,
        actor: "anonymous",
        credential: Option.none(),
        quotas: [],
        decoded: false,
        committing: false
      }
    }

    const answerOptions = ({ message: { headers }, path }: Exchange, allow: string) =>
      HttpServerResponse.empty({
        status: 204,
        headers: {
          ...(headers["access-control-request-method"] === undefined
            ? {}
            : preflightHeaders(webOrigins, path, headers.origin, allow)),
          allow
        }
      })

    /** Steps 1 to 3, then the call. */
    const answer = (
      exchange: Exchange,
      request: HttpServerRequest.HttpServerRequest,
      app: HttpApp.Default
    ): HttpApp.Default<Failure> => {
      const { call, info, message, path, route } = exchange
      const misframing = failureOfFraming(message)
      if (misframing !== undefined) {
        misframed.add(message.socket)
        return Effect.fail(misframing)
      }
      const badHost = checkHost(message)
      if (badHost !== undefined) return Effect.fail(badHost)
      const allow = message.method === "OPTIONS" ? allowedMethods(route, path) : undefined
      if (allow !== undefined) return Effect.succeed(answerOptions(exchange, allow))
      if (call === undefined) return Effect.fail(refuseUnrouted(route))
      if (drain.isDraining() && !call.probe) return Effect.fail(new Failure("shutting_down"))
      // The router matches the path alone: the target may have an authority, and a query is not read.
      const local = request.url === path ? request : request.modify({ url: path })
      const routed = call.bodyBound === undefined ? local : withJson(local, exchange, call)
      const services = Context.make(HttpServerRequest.HttpServerRequest, routed).pipe(
        Context.add(CurrentExchange, exchange),
        Context.add(RequestContext, info)
      )
      // Not `Effect.provide`: as below, nothing is put back.
      const served = Effect.zipRight(FiberRef.update(FiberRef.currentContext, Context.merge(services)), app)
      if (call.probe) return served
      const badBody = checkBodyHeaders(message, call)
      return places.run(exchange, badBody === undefined ? served : Effect.fail(badBody))
    }

    /**
     * The response with the headers that do not depend on its content (docs/api.md, "Conventions"): the request id always, `no-store`
     * for calls whose response may carry a credential, CORS, rate limits, the end of the connection, and under `/api/v1` the oldest
     * supported version for a client that sends a lower one.
     */
    const complete = (
      response: HttpServerResponse.HttpServerResponse,
      { call, clientVersion, info, message, path, quotas }: Exchange,
      closing: boolean
    ) =>
      addHeaders(
        addHeaders(response, {
          ...corsHeaders(webOrigins, path, message.headers.origin),
          ...rateLimitHeaders(quotas),
          ...(call?.noStore ? { "cache-control": "no-store" } : {}),
          ...(clientVersion !== undefined &&
          path.startsWith(apiPrefix) &&
          isLowerVersion(clientVersion, minCli)
            ? { "x-music-min-cli": minCli }
            : {}),
          ...(closing ? { connection: "close" } : {}),
          "x-request-id": info.requestId
        }),
        securityHeaders
      )

    const respond = (exchange: Exchange, given: HttpServerResponse.HttpServerResponse, failure?: Failure) => {
      const { message } = exchange
      const ends = drain.isDraining() || failureOfFraming(message) !== undefined
      const closing = ends || leavesUnreadBody(message, given)
      const response = complete(given, exchange, closing)
      // Without a quota of this service it is the budget for IAM, or IAM itself.
      const quota = failure?.code === "rate_limited" ? (failure.quota?.policy.name ?? "iam") : undefined
      return Effect.as(
        record(exchange, { status: response.status, code: failure?.code, quota }),
        closing ? lingering(response, message, ends ? shortLingerMillis : lingerMillis) : response
      )
    }

    /** The envelope, which every error response has. */
    const respondWithFailure = (exchange: Exchange, failure: Failure) => {
      if (failure.quota !== undefined) exchange.quotas = [...exchange.quotas, failure.quota]
      const options = { status: failureStatus(failure), headers: failureHeaders(failure) }
      const response = HttpServerResponse.unsafeJson(toEnvelope(failure), options)
      return respond(exchange, response, failure)
    }

    const respondToCause = (
      cause: Cause.Cause<unknown>,
      exchange: Exchange
    ): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
      if (!Cause.isInterruptedOnly(cause))
        return Effect.flatMap(toFailure(cause, exchange), (failure) => respondWithFailure(exchange, failure))
      // Not by the client: the process ends. A response behind others has no connection yet, and a request always has it.
      if (!exchange.message.socket.destroyed)
        return respondWithFailure(exchange, new Failure("shutting_down"))
      const status = clientClosedRequest
      return Effect.as(record(exchange, { status, code: undefined }), HttpServerResponse.empty({ status }))
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
            onFailure: (cause) => respondToCause(cause, exchange)
          }
        )
        // The fiber is this request's own, so nothing is put back after it.
        const annotate = HashMap.set<string, unknown>("request_id", exchange.info.requestId)
        return Effect.zipRight(
          FiberRef.update(FiberRef.currentLogAnnotations, annotate),
          Effect.map(withRequestSpan(exchange, answered), (response) => writeResponse(request, response))
        )
      })
  })
)
