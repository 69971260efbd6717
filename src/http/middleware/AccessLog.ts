/** What remains of a request when it is over: one structured log line, its metrics, and its span. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Tracer from "effect/Tracer"
import { failureStatus } from "../../schema/Envelope.ts"
import type { Failure, FailureCode } from "../../schema/Failure.ts"
import * as Metrics from "../../services/Metrics.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { Spans } from "../../services/Tracing.ts"
import type { Exchange } from "./Exchange.ts"

/** How a request ended; status 499 when the client left first. */
interface Ending {
  readonly status: number
  readonly code: FailureCode | undefined
  /** Name of the quota that refused the request. */
  readonly quota?: string | undefined
}

const methods: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE"])

/** The method for metrics and spans: an unknown one is `_OTHER`, as OpenTelemetry names it. */
const toMethodName = ({ method = "" }: Exchange["message"]): string =>
  methods.has(method) ? method : "_OTHER"

const countRequest = (route: string, method: string, { code, status }: Ending): void => {
  Metrics.recordNow(Metrics.httpRequests({ route, method, status: String(status) }), 1)
  if (code !== undefined) Metrics.recordNow(Metrics.failures({ code }), 1)
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
  const ending = { status: failureStatus(failure), code: failure.code }
  const route = "unparsed"
  countRequest(route, "_OTHER", ending)
  const client = clientOf(settings, clientNetwork)
  return Effect.logInfo("Request", { method: "", route, ...ending, request_id: requestId, ...client })
}

/** Ids of zeros are invalid, and nothing may follow in version 00. */
const traceparentPattern =
  /^(?!ff)(?!00-.{53})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/

/** Makes the function that runs a request in its span, where spans are sent. It continues the caller's trace (W3C Trace Context). */
export const makeRequestSpan = Effect.map(
  Spans,
  (sender) =>
    <A, E, R>(exchange: Exchange, request: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
      if (sender === undefined) return request
      const { message, route } = exchange
      const [, traceId, spanId, flags = ""] =
        traceparentPattern.exec(String(message.headers.traceparent)) ?? []
      const method = toMethodName(message).replace("_OTHER", "HTTP")
      return Effect.makeSpan(route === undefined ? method : `${method} ${route.pattern}`, {
        kind: "server",
        captureStackTrace: false,
        ...(traceId === undefined || spanId === undefined
          ? { root: true }
          : { parent: sender.remoteSpan({ traceId, spanId, traceFlags: Number.parseInt(flags, 16) }) })
      }).pipe(
        Effect.flatMap((span) => {
          exchange.span = span
          return request.pipe(Effect.withParentSpan(span), Effect.annotateLogs("trace_id", span.traceId))
        }),
        Effect.withTracerEnabled(true)
      )
    }
)

/** Ends a span by OpenTelemetry's conventions for HTTP servers: only status 500 and above is an error. */
const endSpan = (
  span: Tracer.Span,
  { info, message, plane, route }: Exchange,
  { code, status }: Ending,
  endedAt: bigint
): void => {
  const error = status >= 500 ? (code ?? String(status)) : undefined
  const attributes = {
    "http.request.method": toMethodName(message),
    "url.scheme": "http",
    "http.route": route?.pattern,
    "http.response.status_code": status,
    "music.request.id": info.requestId,
    "music.plane": plane,
    "music.failure.code": code,
    "error.type": error
  }
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) span.attribute(name, value)
  span.end(endedAt, error === undefined ? Exit.void : Exit.fail(error))
}

/**
 * Makes the function that records a request when it is over. The line has never a query or a body, and of the headers only the request
 * id, the source and the client's version; the path of an unknown route is the caller's text and is in none. A probe that answers as it
 * should is logged at debug level.
 */
export const makeRecorder = Effect.gen(function* () {
  const settings = yield* Settings
  const clock = yield* Effect.clock
  return (exchange: Exchange, ending: Ending): Effect.Effect<void> => {
    const { call, info, message, span, startedAt } = exchange
    const endedAt = clock.unsafeCurrentTimeNanos()
    if (span !== undefined) endSpan(span, exchange, ending, endedAt)
    const route = exchange.route?.pattern ?? "unmatched"
    const method = toMethodName(message)
    const duration_ms = Math.round(Number(endedAt - startedAt) / 10_000) / 100
    countRequest(route, method, ending)
    Metrics.recordNow(Metrics.httpRequestDuration({ route, method }), duration_ms / 1_000)
    const log = call?.probe === true && ending.status < 400 ? Effect.logDebug : Effect.logInfo
    return log("Request", {
      method: message.method ?? "",
      route,
      status: ending.status,
      duration_ms,
      ...(ending.code === undefined ? {} : { code: ending.code }),
      ...(ending.quota === undefined ? {} : { quota: ending.quota }),
      source: info.source,
      ...(exchange.clientVersion === undefined ? {} : { client_version: exchange.clientVersion }),
      plane: exchange.plane,
      actor: exchange.actor,
      ...clientOf(settings, info.clientNetwork)
    })
  }
})
