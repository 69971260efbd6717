/** The span of a request: continues the caller's trace (W3C Trace Context), and is the parent of all that is done for it. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberRef from "effect/FiberRef"
import * as Tracer from "effect/Tracer"
import type { Ending, RequestState } from "./RequestState.ts"

/** Version 00 exactly, later ones as far as they agree with it; ids of zeros are none. */
const traceparentPattern =
  /^(?:00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})|(?!00|ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?)$/

/** What stands in `traceparent`; anything malformed starts a new trace. */
export const parentOf = (traceparent: unknown): Tracer.ExternalSpan | undefined => {
  const found = typeof traceparent === "string" ? traceparentPattern.exec(traceparent) : null
  if (found === null) return undefined
  const [traceId, spanId, flags] = found.slice(1).filter((part) => part !== undefined)
  return traceId === undefined || spanId === undefined
    ? undefined
    : Tracer.externalSpan({ traceId, spanId, sampled: (Number.parseInt(flags ?? "", 16) & 1) === 1 })
}

const methods: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE"])

/** A method as a name: what else a caller may write is `_OTHER`, as OpenTelemetry has it. */
export const methodOf = (method: string | undefined): string =>
  method !== undefined && methods.has(method) ? method : "_OTHER"

const nameOf = ({ message, route }: RequestState): string => {
  const method = methodOf(message.method)
  const verb = method === "_OTHER" ? "HTTP" : method
  return route === undefined ? verb : `${verb} ${route.pattern}`
}

/** Runs what a request causes inside its span, when spans are made at all. */
export const inSpan =
  (exchange: RequestState) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(FiberRef.get(FiberRef.currentTracerEnabled), (tracing) => {
      if (!tracing) return effect
      const parent = parentOf(exchange.message.headers.traceparent)
      return Effect.flatMap(
        Effect.makeSpan(nameOf(exchange), {
          kind: "server",
          captureStackTrace: false,
          ...(parent === undefined ? { root: true } : { parent })
        }),
        (span) => {
          exchange.span = span
          return effect.pipe(Effect.withParentSpan(span), Effect.annotateLogs("trace_id", span.traceId))
        }
      )
    })

/** Ends the span by OpenTelemetry's conventions for HTTP servers; only a fault of ours makes it an error. */
export const endSpan = ({ info, message, plane, route, span }: RequestState, ending: Ending): void => {
  if (span === undefined) return
  const { code, endedAt, status } = ending
  const fault = status >= 500 ? (code ?? String(status)) : undefined
  span.attribute("http.request.method", methodOf(message.method))
  span.attribute("url.scheme", "http")
  if (route !== undefined) span.attribute("http.route", route.pattern)
  span.attribute("http.response.status_code", status)
  span.attribute("music.request.id", info.requestId)
  span.attribute("music.plane", plane)
  if (code !== undefined) span.attribute("music.failure.code", code)
  if (fault !== undefined) span.attribute("error.type", fault)
  span.end(endedAt, fault === undefined ? Exit.void : Exit.fail(fault))
}
