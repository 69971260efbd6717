/**
 * Answers every request. Runs steps 1 to 3 of the order of checks (api.md): path and method, admission, the headers of
 * the body. The router does the rest: `HeaderChecks` step 4, `RequestGuard` steps 5 to 9.
 */
import type { IncomingMessage } from "node:http"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { type Failure, InvalidInput } from "../../schema/Failure.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { RequestContext } from "../../services/RequestContext.ts"
import { resolveRequestId } from "../../services/RequestId.ts"
import { Settings } from "../../services/Settings.ts"
import { checkBodyHeaders } from "../body/BodyHeaders.ts"
import { CurrentBody } from "../body/BodyReader.ts"
import { ArrivingBodies } from "../body/ArrivingBodies.ts"
import { clientAddressResolver, toNetwork } from "../transport/ClientAddress.ts"
import { leavesUnreadBody, lingerOnClose } from "../transport/LingeringClose.ts"
import { countHeader } from "../transport/RawHeaders.ts"
import { makeAccessLog } from "./AccessLog.ts"
import { Admission } from "./Admission.ts"
import { allowsRecording, readSource } from "./ClientHeaders.ts"
import { makeWebOrigins } from "./WebOrigins.ts"
import { toFailure, toResponse } from "./FailureResponse.ts"
import { selectsTestingPlane } from "./PlaneSelection.ts"
import { addReading } from "./RateLimits.ts"
import {
  CurrentFindings,
  type Ending,
  initialFindings,
  type RequestFacts,
  type RequestFindings
} from "./RequestState.ts"
import { endRequestSpan, withRequestSpan } from "./RequestTrace.ts"
import { responseHeaders } from "./ResponseHeaders.ts"
import { allowedMethods, refuseUnrouted, routes, toPath } from "./Routes.ts"

/** RFC 9112, 3.2: exactly one Host with HTTP/1.1. */
const checkHost = (message: IncomingMessage): Failure | undefined =>
  message.httpVersion === "1.0" || countHeader(message, "host") === 1
    ? undefined
    : new InvalidInput({ details: { fields: [{ path: "Host", problem: "must be sent exactly once" }] } })

const single = (value: string | ReadonlyArray<string> | undefined): string | undefined =>
  typeof value === "string" ? value : undefined

/** Wraps the router: every request gets an id, its checks, one response in one form, and one log line. */
export const pipeline = Effect.gen(function* () {
  const settings = yield* Settings
  const admission = yield* Admission
  const bodies = yield* ArrivingBodies
  const log = yield* makeAccessLog
  const origins = makeWebOrigins(settings.webOrigins)
  const resolveAddress = clientAddressResolver(settings.trustedProxies)

  const readFacts = (message: IncomingMessage, clock: Clock.Clock): RequestFacts => {
    const { headers, method = "", url = "" } = message
    const path = toPath(url)
    const route = routes.get(path)
    return {
      message,
      path,
      route,
      call: route?.calls.get(method),
      info: {
        requestId: resolveRequestId(single(headers["x-request-id"])),
        source: readSource(headers),
        clientNetwork: toNetwork(resolveAddress(message)),
        recording: settings.telemetry.enabled && allowsRecording(headers),
        deadlineAt: unsafeMonotonicMillis(clock) + settings.requestDeadlineSeconds * 1_000
      },
      startedAt: clock.unsafeCurrentTimeNanos()
    }
  }

  /** Steps 1 to 3, then the router. */
  const route = (
    { call, info, message, path, route }: RequestFacts,
    app: HttpApp.Default
  ): HttpApp.Default<Failure> => {
    const { headers, method } = message
    const hostFailure = checkHost(message)
    if (hostFailure !== undefined) return Effect.fail(hostFailure)
    const allow = method === "OPTIONS" ? allowedMethods(route, path) : undefined
    if (allow !== undefined) {
      const requestedMethod = headers["access-control-request-method"]
      const preflight = origins.preflightHeaders(path, allow, headers.origin, requestedMethod)
      return Effect.succeed(HttpServerResponse.empty({ headers: { ...preflight, allow } }))
    }
    if (call === undefined) return Effect.fail(refuseUnrouted(route))
    return Effect.flatMap(admission.refusal(call), (refusal) => {
      if (refusal !== undefined) return Effect.fail(refusal)
      if (call.bodyBound === 0)
        return admission.withPlace(call, (takePlace) => Effect.zipRight(takePlace, app))
      const bodyFailure = checkBodyHeaders(message, call)
      if (bodyFailure !== undefined) return Effect.fail(bodyFailure)
      return admission.withPlace(call, (takePlace) =>
        Effect.provideService(
          app,
          CurrentBody,
          Effect.zipLeft(bodies.read(message, call.bodyBound, info), takePlace)
        )
      )
    })
  }

  return (app: HttpApp.Default): HttpApp.Default =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      Effect.clockWith((clock) => {
        const facts = readFacts(NodeHttpServerRequest.toIncomingMessage(request), clock)
        const { call, info, message, path } = facts
        const findings: RequestFindings = initialFindings(selectsTestingPlane(message, call))

        return withRequestSpan(facts, (span) => {
          const record = (status: number, code: Ending["code"]): Effect.Effect<void> => {
            const ending: Ending = { status, code, endedAt: clock.unsafeCurrentTimeNanos() }
            if (span !== undefined) endRequestSpan(span, facts, findings, ending)
            return log(facts, findings, ending)
          }

          const respond = (
            response: HttpServerResponse.HttpServerResponse,
            rateLimitHeaders: RequestFindings["rateLimitHeaders"],
            code: Ending["code"]
          ): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
            Effect.flatMap(admission.draining, (draining) => {
              const closing = draining || leavesUnreadBody(message, response.status)
              const complete = HttpServerResponse.setHeaders(
                response,
                responseHeaders(facts, origins, rateLimitHeaders, closing)
              )
              return Effect.as(
                record(response.status, code),
                closing && !message.complete ? lingerOnClose(complete, message, draining) : complete
              )
            })

          return Effect.matchCauseEffect(route(facts, app), {
            onSuccess: (response) => respond(response, findings.rateLimitHeaders, undefined),
            onFailure: (cause) =>
              Cause.isInterruptedOnly(cause)
                ? Effect.zipRight(record(499, undefined), Effect.interrupt)
                : Effect.flatMap(toFailure(cause), (failure) =>
                    respond(
                      toResponse(failure),
                      failure.code === "rate_limited" && failure.quota !== undefined
                        ? addReading(findings.rateLimitHeaders, failure.quota)
                        : findings.rateLimitHeaders,
                      failure.code
                    )
                  )
          })
        }).pipe(
          Effect.annotateLogs("request_id", info.requestId),
          Effect.mapInputContext((context: Context.Context<HttpServerRequest.HttpServerRequest>) =>
            context.pipe(
              // The path alone: the router needs no authority, and no call reads a query.
              Context.add(HttpServerRequest.HttpServerRequest, request.modify({ url: path })),
              Context.add(RequestContext, info),
              Context.add(CurrentFindings, findings)
            )
          )
        )
      })
    )
})
