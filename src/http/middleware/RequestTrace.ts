/** The span of a request: continues the caller's trace (W3C Trace Context) and is the parent of all work for the request. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Tracer from "effect/Tracer"
import { Spans, type SpanSender } from "../../services/Tracing.ts"
import type { Ending, Exchange } from "./Exchange.ts"

/** Version 00 exactly, later versions as far as they agree with it; ids of zeros are invalid. */
const traceparentPattern =
  /^(?:00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})|(?!00|ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?)$/

/** The span that `traceparent` names; a malformed header starts a new trace. */
const parseTraceparent = (
  traceparent: unknown,
  { remoteSpan }: SpanSender
): Tracer.ExternalSpan | undefined => {
  const found = typeof traceparent === "string" ? traceparentPattern.exec(traceparent) : null
  if (found === null) return undefined
  const [traceId, spanId, flags] = found.slice(1).filter((part) => part !== undefined)
  return traceId === undefined || spanId === undefined
    ? undefined
    : remoteSpan({ traceId, spanId, traceFlags: Number.parseInt(flags ?? "", 16) })
}

const methods: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE"])

/** The method for metrics and spans: an unknown one is `_OTHER`, as OpenTelemetry names it. */
export const toMethodName = (method: string | undefined): string =>
  method !== undefined && methods.has(method) ? method : "_OTHER"

const spanName = ({ message, route }: Exchange): string => {
  const method = toMethodName(message.method)
  const verb = method === "_OTHER" ? "HTTP" : method
  return route === undefined ? verb : `${verb} ${route.pattern}`
}

/** Starts the span of a request and runs the effect inside it; the span is undefined where none are sent. */
export const withRequestSpan = <A, E, R>(
  request: Exchange,
  use: (span: Tracer.Span | undefined) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.flatMap(Spans, (sender) => {
    if (sender === undefined) return use(undefined)
    const parent = parseTraceparent(request.message.headers.traceparent, sender)
    return Effect.flatMap(
      Effect.makeSpan(spanName(request), {
        kind: "server",
        captureStackTrace: false,
        ...(parent === undefined ? { root: true } : { parent })
      }),
      (span) => use(span).pipe(Effect.withParentSpan(span), Effect.annotateLogs("trace_id", span.traceId))
    ).pipe(Effect.withTracerEnabled(true))
  })

/** Ends the span by OpenTelemetry's conventions for HTTP servers: only status 500 and above is an error. */
export const endRequestSpan = (
  span: Tracer.Span,
  { info, message, plane, route }: Exchange,
  { code, endedAt, status }: Ending
): void => {
  const error = status >= 500 ? (code ?? String(status)) : undefined
  span.attribute("http.request.method", toMethodName(message.method))
  span.attribute("url.scheme", "http")
  if (route !== undefined) span.attribute("http.route", route.pattern)
  span.attribute("http.response.status_code", status)
  span.attribute("music.request.id", info.requestId)
  span.attribute("music.plane", plane)
  if (code !== undefined) span.attribute("music.failure.code", code)
  if (error !== undefined) span.attribute("error.type", error)
  span.end(endedAt, error === undefined ? Exit.void : Exit.fail(error))
}
