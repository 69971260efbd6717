/** What happens to every request, in the order of api.md: path and method, admission, the body's own headers, the router. */
import type { IncomingMessage } from "node:http"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { type Failure, InvalidInput, MethodNotAllowed, NotFound } from "../../schema/Failure.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { RequestContext } from "../../services/RequestContext.ts"
import { resolveRequestId } from "../../services/RequestId.ts"
import { Settings } from "../../services/Settings.ts"
import { accessLog } from "./AccessLog.ts"
import { Admission } from "./Admission.ts"
import { CurrentBody, declaredProblem, jsonOf } from "../body/BodyReader.ts"
import { clientAddressFor, networkOf } from "../transport/ClientAddress.ts"
import { corsFor } from "./Cors.ts"
import { failureOf, responseOf } from "./Envelope.ts"
import { CurrentRequestState, type RequestState, planeNote } from "./RequestState.ts"
import { withReading } from "./RateLimits.ts"
import { lingering } from "../transport/LingeringClose.ts"
import { allowsRecording, sourceOf } from "./ClientHeaders.ts"
import { countOf } from "../transport/RawHeaders.ts"
import { IncomingBodies } from "../body/IncomingBodies.ts"
import { routes } from "./Routes.ts"
import { inSpan } from "./RequestTrace.ts"

/** RFC 9112, 3.2: exactly one Host with HTTP/1.1. */
const hostProblem = (message: IncomingMessage): Failure | undefined =>
  message.httpVersion === "1.0" || countOf(message, "host") === 1
    ? undefined
    : new InvalidInput({ details: { fields: [{ path: "Host", problem: "must be sent exactly once" }] } })

/** Wraps the router: every request gets its id, its checks, one answer in one form, and one log line. */
export const pipeline = Effect.gen(function* () {
  const settings = yield* Settings
  const admission = yield* Admission
  const receipts = yield* IncomingBodies
  const log = yield* accessLog
  const cors = corsFor(settings.webOrigins)
  const addressOf = clientAddressFor(settings.trustedProxies)

  const open = (message: IncomingMessage, clock: Clock.Clock): RequestState => {
    const { headers, method = "" } = message
    const path = message.url ?? ""
    const route = routes.get(path)
    const call = route?.calls.get(method)
    const testing = call?.planes !== false && headers["x-testing-environment-key"] !== undefined
    return {
      message,
      path,
      route,
      call,
      info: {
        requestId: resolveRequestId(single(headers["x-request-id"])),
        source: sourceOf(headers),
        clientNetwork: networkOf(addressOf(message)),
        recording: settings.telemetry.enabled && allowsRecording(headers),
        deadlineAt: unsafeMonotonicMillis(clock) + settings.requestDeadlineSeconds * 1_000
      },
      startedAt: clock.unsafeCurrentTimeNanos(),
      testing,
      plane: planeNote(testing),
      actor: "anonymous",
      span: undefined,
      decoded: false,
      unread: false,
      rate: {}
    }
  }

  /** Steps 1 to 3; what follows them is the router's. */
  const served = (
    exchange: RequestState,
    request: HttpServerRequest.HttpServerRequest,
    app: HttpApp.Default
  ): HttpApp.Default<Failure> => {
    const { message, route, call, path } = exchange
    const unhosted = hostProblem(message)
    if (unhosted !== undefined) return Effect.fail(unhosted)
    if (route === undefined) {
      return message.method === "OPTIONS" && path === "*"
        ? Effect.succeed(HttpServerResponse.empty({ headers: { allow: everyMethod } }))
        : Effect.fail(new NotFound())
    }
    if (message.method === "OPTIONS") {
      const asked = message.headers["access-control-request-method"] !== undefined
      const preflight = cors.preflightFor(route, path, message.headers.origin, asked)
      return Effect.succeed(HttpServerResponse.empty({ headers: { ...preflight, allow: route.allow } }))
    }
    if (call === undefined) return Effect.fail(new MethodNotAllowed({ allow: route.allow }))
    return Effect.flatMap(admission.refusal(call), (refusal) => {
      if (refusal !== undefined) return Effect.fail(refusal)
      if (call.bodyBound === 0) return admission.counted(call, (enter) => Effect.zipRight(enter, app))
      const problem = declaredProblem(message, call)
      if (problem !== undefined) return Effect.fail(problem)
      return admission.counted(call, (enter) => {
        const body = Effect.zipLeft(receipts.bytesOf(exchange, call.bodyBound), Effect.orDie(enter))
        const json = Effect.flatMap(body, (bytes) => jsonOf(message, bytes, call))
        // Shadows the library's reader: that one has no bound, and is lenient.
        Object.defineProperty(request, "json", { value: json })
        return Effect.provideService(app, CurrentBody, body)
      })
    })
  }

  const finished = (
    exchange: RequestState,
    clock: Clock.Clock,
    response: HttpServerResponse.HttpServerResponse,
    code: Failure["code"] | undefined
  ): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
    Effect.flatMap(admission.draining, (draining) => {
      const { message, call, info, path, rate } = exchange
      const unread = (exchange.unread || response.status === 413) && !message.complete
      const closing = draining || unread
      const complete = HttpServerResponse.setHeaders(response, {
        ...cors.headersFor(path, message.headers.origin),
        ...rate,
        ...(call?.noStore === true ? noStore : {}),
        ...(call?.vary === undefined ? {} : { vary: call.vary }),
        ...(closing ? { connection: "close" } : {}),
        "x-request-id": info.requestId
      })
      return Effect.as(
        log(exchange, { status: response.status, code, endedAt: clock.unsafeCurrentTimeNanos() }),
        closing && !message.complete ? lingering(complete, message, draining) : complete
      )
    })

  const answered = (
    exchange: RequestState,
    clock: Clock.Clock,
    request: HttpServerRequest.HttpServerRequest,
    app: HttpApp.Default
  ): HttpApp.Default =>
    Effect.matchCauseEffect(served(exchange, request, app), {
      onSuccess: (response) => finished(exchange, clock, response, undefined),
      onFailure: (cause) =>
        Cause.isInterruptedOnly(cause)
          ? Effect.zipRight(
              log(exchange, { status: 499, code: undefined, endedAt: clock.unsafeCurrentTimeNanos() }),
              Effect.interrupt
            )
          : Effect.flatMap(failureOf(cause, exchange), (failure) => {
              if (failure.code === "rate_limited" && failure.quota !== undefined)
                exchange.rate = withReading(exchange.rate, failure.quota)
              return finished(exchange, clock, responseOf(failure), failure.code)
            })
    })

  return (app: HttpApp.Default): HttpApp.Default =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      Effect.clockWith((clock) => {
        const exchange = open(NodeHttpServerRequest.toIncomingMessage(request), clock)
        return answered(exchange, clock, request, app).pipe(
          inSpan(exchange),
          Effect.annotateLogs("request_id", exchange.info.requestId),
          Effect.mapInputContext((context: Context.Context<HttpServerRequest.HttpServerRequest>) =>
            context.pipe(
              Context.add(RequestContext, exchange.info),
              Context.add(CurrentRequestState, exchange)
            )
          )
        )
      })
    )
})

const everyMethod = "GET, HEAD, POST, OPTIONS"
const noStore = { "cache-control": "no-store" }

const single = (value: string | ReadonlyArray<string> | undefined): string | undefined =>
  typeof value === "string" ? value : undefined
