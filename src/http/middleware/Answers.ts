/**
 * Around every request: its id and span, steps 1 to 3 of the order of checks (docs/api.md), the envelope of every failure, and one log
 * line. The library wraps it around its router, which has the endpoints and their tags.
 */
import type { IncomingMessage } from "node:http"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Tracer from "effect/Tracer"
import { Failure } from "../../schema/Failure.ts"
import { Drain } from "../../services/Drain.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { RequestContext } from "../../services/RequestContext.ts"
import { resolveRequestId } from "../../services/RequestId.ts"
import { Settings } from "../../services/Settings.ts"
import { failureOfFraming, requestTimeout } from "../../services/UnparsedRequest.ts"
import { type BodyFailure, checkBodyHeaders, makeArriving, readBytes, withJson } from "../body/RequestBody.ts"
import { clientAddressResolver, toNetwork } from "../transport/ClientAddress.ts"
import { misframed } from "../transport/ClientErrors.ts"
import { countHeader } from "../transport/RawHeaders.ts"
import { makeAccessLog } from "./AccessLog.ts"
import { allowsRecording, readClientVersion, readSource } from "./ClientHeaders.ts"
import { CurrentExchange, type Ending, type Exchange, makeExchange } from "./Exchange.ts"
import { RequestPlaces } from "./RequestPlaces.ts"
import { addReading } from "./RateLimits.ts"
import { endRequestSpan, withRequestSpan } from "./RequestTrace.ts"
import { leavesUnreadBody, lingering, toFailure, toResponse, withHeaders } from "./Responses.ts"
import { allowedMethods, refuseUnrouted, routes, toPath } from "./Routes.ts"
import { selectsTestingPlane } from "./SentHeaders.ts"
import { makeWebOrigins } from "./WebOrigins.ts"

/** Status of a request whose client disconnected; it is logged and never sent. */
const clientClosedRequest = 499

/**
 * Milliseconds for which a client may send the rest of a refused body. Shorter where the process drains, which it must not delay, and
 * where the rest has no end that this server knows.
 */
const lingerMillis = 5_000
const shortLingerMillis = 1_000

/** How long a body that is arriving when the drain begins has for its rest. */
const bodyTimeWhileDraining = "5 seconds"

/** RFC 9112, 3.2: exactly one Host with HTTP/1.1. */
const checkHost = (message: IncomingMessage): Failure | undefined =>
  message.httpVersion === "1.0" || countHeader(message, "host") === 1
    ? undefined
    : new Failure("invalid_input", {
        details: { fields: [{ path: "Host", problem: "must be sent exactly once" }] }
      })

const single = (value: string | ReadonlyArray<string> | undefined): string | undefined =>
  typeof value === "string" ? value : undefined

export const answersLive = (arrivingBytes: number | undefined) =>
  HttpApiBuilder.middleware(
    Effect.gen(function* () {
      const settings = yield* Settings
      const drain = yield* Drain
      const places = yield* RequestPlaces
      const logRequest = yield* makeAccessLog
      const clock = yield* Effect.clock
      const origins = makeWebOrigins(settings.webOrigins)
      const complete = withHeaders(origins, settings.minCli)
      const resolveAddress = clientAddressResolver(settings.trustedProxies)
      const requestTime = settings.requestDeadlineSeconds * 1_000

      const cutWhileDraining = drain.begun.pipe(
        Effect.zipRight(Effect.sleep(bodyTimeWhileDraining)),
        Effect.zipRight(Effect.fail(new Failure("shutting_down")))
      )
      const arriving = makeArriving(arrivingBytes)
      const readBody = (message: IncomingMessage, bound: number): Effect.Effect<Uint8Array, BodyFailure> =>
        Effect.suspend(() =>
          message.complete
            ? readBytes(message, bound, arriving)
            : readBytes(message, bound, arriving).pipe(
                Effect.timeoutFail({ duration: requestTime, onTimeout: requestTimeout }),
                Effect.raceFirst(cutWhileDraining)
              )
        )

      const begin = (request: HttpServerRequest.HttpServerRequest): Exchange => {
        const message = NodeHttpServerRequest.toIncomingMessage(request)
        const { headers, method = "", url = "" } = message
        const path = toPath(url)
        const route = routes.get(path)
        const call = route?.calls.get(method)
        const head = {
          message,
          response: NodeHttpServerRequest.toServerResponse(request),
          path,
          route,
          call,
          info: {
            requestId: resolveRequestId(single(headers["x-request-id"])),
            source: readSource(headers),
            clientNetwork: toNetwork(resolveAddress(message)),
            recording: settings.telemetry.enabled && allowsRecording(headers),
            deadlineAt: unsafeMonotonicMillis(clock) + requestTime
          },
          body: readBody(message, call?.bodyBound ?? 0),
          clientVersion: readClientVersion(headers),
          startedAt: clock.unsafeCurrentTimeNanos()
        }
        return makeExchange(head, selectsTestingPlane(message, call))
      }

      const answerOptions = ({ message: { headers }, path }: Exchange, allow: string) =>
        HttpServerResponse.empty({
          status: 204,
          headers: {
            ...origins.preflightHeaders(
              path,
              allow,
              headers.origin,
              headers["access-control-request-method"]
            ),
            allow
          }
        })

      /** Steps 1 to 3, then the call. */
      const answer = (
        exchange: Exchange,
        request: HttpServerRequest.HttpServerRequest,
        app: HttpApp.Default
      ): Effect.Effect<HttpServerResponse.HttpServerResponse, Failure> => {
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
        const routed = withJson(request.modify({ url: path }), message, exchange.body, call)
        const services = Context.make(HttpServerRequest.HttpServerRequest, routed).pipe(
          Context.add(CurrentExchange, exchange),
          Context.add(RequestContext, info)
        )
        const served = Effect.mapInputContext(app, (context: Context.Context<never>) =>
          Context.merge(context, services)
        )
        if (call.probe) return served
        const badBody = checkBodyHeaders(message, call)
        return places.run(exchange, badBody === undefined ? served : Effect.fail(badBody))
      }

      const respond = (
        exchange: Exchange,
        given: HttpServerResponse.HttpServerResponse,
        span: Tracer.Span | undefined,
        code: Ending["code"] = undefined
      ) => {
        const { message } = exchange
        const ends = drain.isDraining() || failureOfFraming(message) !== undefined
        const closing = ends || leavesUnreadBody(message, given)
        const response = complete(given, exchange, closing)
        return Effect.as(
          end(exchange, response.status, span, code),
          closing ? lingering(response, message, ends ? shortLingerMillis : lingerMillis) : response
        )
      }

      const respondWithFailure = (exchange: Exchange, failure: Failure, span: Tracer.Span | undefined) => {
        if (failure.code === "rate_limited") {
          const { quota } = failure
          // Without a quota of this service it is the budget for IAM, or IAM itself.
          exchange.exceededQuota ??= quota?.policy.name ?? "iam"
          if (quota !== undefined) exchange.rateLimitHeaders = addReading(exchange.rateLimitHeaders, quota)
        }
        return respond(exchange, toResponse(failure), span, failure.code)
      }

      /** Ends a request: its span, its log line, its metrics. */
      const end = (
        exchange: Exchange,
        status: number,
        span: Tracer.Span | undefined,
        code: Ending["code"] = undefined
      ): Effect.Effect<void> => {
        const ending: Ending = { status, code, endedAt: clock.unsafeCurrentTimeNanos() }
        if (span !== undefined) endRequestSpan(span, exchange, ending)
        return logRequest(exchange, ending)
      }

      return (app) =>
        Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
          const exchange = begin(request)
          if (misframed.has(exchange.message.socket)) return Effect.succeed(HttpServerResponse.empty())
          return withRequestSpan(exchange, (span) =>
            Effect.matchCauseEffect(
              Effect.suspend(() => answer(exchange, request, app)),
              {
                onSuccess: (response) => respond(exchange, response, span),
                onFailure: (cause) => {
                  if (!Cause.isInterruptedOnly(cause))
                    return Effect.flatMap(toFailure(cause, exchange), (failure) =>
                      respondWithFailure(exchange, failure, span)
                    )
                  // Not by the client: the process ends.
                  if (!exchange.response.destroyed)
                    return respondWithFailure(exchange, new Failure("shutting_down"), span)
                  const nothing = HttpServerResponse.empty({ status: clientClosedRequest })
                  return Effect.as(end(exchange, clientClosedRequest, span), nothing)
                }
              }
            )
          ).pipe(Effect.annotateLogs("request_id", exchange.info.requestId))
        })
    })
  )
