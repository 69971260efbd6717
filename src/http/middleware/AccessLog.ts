/** What remains of a request when it is over: one structured log line, its metrics, and its span. */
import type { HttpServerResponse } from "@effect/platform/HttpServerResponse"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { failureStatus } from "../../schema/Envelope.ts"
import type { Failure } from "../../schema/Failure.ts"
import * as Metrics from "../../services/Metrics.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { Spans } from "../../services/Tracing.ts"
import type { Exchange } from "./Exchange.ts"

const usual = /^(?:GET|HEAD|POST|OPTIONS|PUT|PATCH|DELETE)$/

/** The method for metrics: others are `_OTHER`, as OpenTelemetry names them, so that strangers make no series of their own. */
const toLabel = (method: string): string => (usual.test(method) ? method : "_OTHER")

const countRequest = (route: string, method: string, status: number, failure?: Failure): void => {
  Metrics.recordNow(Metrics.httpRequests({ route, method, status: String(status) }), 1)
  if (failure !== undefined) Metrics.recordNow(Metrics.failures({ code: failure.code }), 1)
}

/** The client's address as the limits count it, where it is logged; of IPv6 the network. */
const clientOf = ({ logClientAddress }: SettingsValues, network: string) =>
  logClientAddress && network !== ""
    ? { client_address: network.includes(":") ? `${network}::/64` : network }
    : {}

/** Logs an answer to bytes that never became a request. The network is that of the connection. */
export const logUnparsed = (
  settings: SettingsValues,
  failure: Failure,
  requestId: string,
  clientNetwork: string
): Effect.Effect<void> => {
  const [route, status] = ["unparsed", failureStatus(failure)]
  countRequest(route, "_OTHER", status, failure)
  return Effect.logInfo("Request", {
    ...{ method: "", route, status, code: failure.code, request_id: requestId },
    ...clientOf(settings, clientNetwork)
  })
}

/** Ids of zeros are invalid, and nothing may follow in version 00. */
const traceparentPattern =
  /^(?!ff)(?!00-.{53})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/

/**
 * Makes the function that runs a request in its span, where spans are sent. It continues the caller's trace (W3C Trace Context), and by
 * OpenTelemetry's conventions only status 500 and above is an error.
 */
export const makeRequestSpan = Effect.map(
  Spans,
  (sender) =>
    <E, R>(
      exchange: Exchange,
      request: Effect.Effect<HttpServerResponse, E, R>
    ): Effect.Effect<HttpServerResponse, E, R> => {
      if (sender === undefined) return request
      const { message, path } = exchange
      const route = exchange.route === undefined ? undefined : path
      const [, traceId, spanId, flags = ""] =
        traceparentPattern.exec(String(message.headers.traceparent)) ?? []
      const method = message.method ?? ""
      return Effect.makeSpan(route === undefined ? method : `${method} ${route}`, {
        kind: "server",
        captureStackTrace: false,
        attributes: { "http.request.method": method, "http.route": route ?? "unmatched" },
        ...(traceId === undefined || spanId === undefined
          ? { root: true }
          : { parent: sender.remoteSpan({ traceId, spanId, traceFlags: Number.parseInt(flags, 16) }) })
      }).pipe(
        Effect.flatMap((span) =>
          request.pipe(
            Effect.withParentSpan(span),
            Effect.annotateLogs("trace_id", span.traceId),
            Effect.tap(({ status }) =>
              Effect.map(Clock.currentTimeNanos, (endedAt) => {
                span.attribute("http.response.status_code", status)
                span.end(endedAt, status < 500 ? Exit.void : Exit.fail(exchange.failure?.code))
              })
            )
          )
        ),
        Effect.withTracerEnabled(true)
      )
    }
)

/**
 * Makes the function that records a request when it is over; status 499 when the client left first. The line has never a query or a body,
 * and of the headers only the request id, the source and the client's version; the path of an unknown route is the caller's text and is in
 * none. A probe that answers as it should is logged at debug level.
 */
export const makeRecorder = Effect.gen(function* () {
  const settings = yield* Settings
  const clock = yield* Effect.clock
  return (exchange: Exchange, status: number): Effect.Effect<void> => {
    const { actor, call, clientNetwork, clientVersion, failure, message, plane, source } = exchange
    const route = exchange.route === undefined ? "unmatched" : exchange.path
    const { method = "" } = message
    const nanos = clock.unsafeCurrentTimeNanos() - exchange.startedAt
    const duration_ms = Math.round(Number(nanos) / 10_000) / 100
    countRequest(route, toLabel(method), status, failure)
    Metrics.recordNow(Metrics.httpRequestDuration({ route, method: toLabel(method) }), duration_ms / 1_000)
    const log = call?.probe === true && status < 400 ? Effect.logDebug : Effect.logInfo
    return log("Request", {
      ...{ method, route, status, duration_ms },
      ...(failure === undefined ? {} : { code: failure.code }),
      // Without a quota of this service it is the budget for IAM, or IAM itself.
      ...(failure?.code === "rate_limited" ? { quota: failure.quota?.policy.name ?? "iam" } : {}),
      source,
      ...(clientVersion === undefined ? {} : { client_version: clientVersion }),
      ...{ plane, actor },
      ...clientOf(settings, clientNetwork)
    })
  }
})
