/** Metrics and spans of calls to other systems, and the header that continues the trace there. */
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Fiber from "effect/Fiber"
import * as Tracer from "effect/Tracer"
import { recordNow, upstreamRequestDuration, upstreamRequests } from "../../services/Metrics.ts"
import { isTracing } from "../../services/Tracing.ts"
import type { Dependency } from "../../services/UpstreamFailure.ts"

/** The destination of a call, as span attributes. */
export interface Peer {
  readonly "server.address": string
  readonly "server.port": number
  readonly "peer.service": Dependency
}

export const peerOf = (dependency: Dependency, url: string): Peer => {
  const { hostname, port, protocol } = new URL(url)
  return {
    "server.address": hostname,
    "server.port": port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
    "peer.service": dependency
  }
}

/** `Interrupted`: the caller went away, and the outcome is unknown. */
const outcomes = {
  Success: "ok",
  Refused: "refused",
  NotExecuted: "not_executed",
  Unknown: "unknown",
  Interrupted: "interrupted"
} as const

/** Starts to measure a call. The returned function counts and times it; only its first call counts. */
export const measureCall = (
  dependency: Dependency,
  operation: string,
  clock: Clock.Clock
): ((outcome: keyof typeof outcomes) => void) => {
  const startedAt = clock.unsafeCurrentTimeNanos()
  let measured = false
  return (outcome) => {
    if (measured) return
    measured = true
    const seconds = Number(clock.unsafeCurrentTimeNanos() - startedAt) / 1e9
    recordNow(upstreamRequests({ dependency, operation, outcome: outcomes[outcome] }), 1)
    recordNow(upstreamRequestDuration({ dependency, operation }), seconds)
  }
}

/** OpenTelemetry's attributes of an HTTP client span, without query and headers. */
export const spanAttributes = (
  peer: Peer,
  call: { readonly operation: string; readonly method: string; readonly template: string }
) => ({
  ...peer,
  "http.request.method": call.method,
  "url.template": call.template,
  "music.operation": call.operation
})

type AnyFiber = Fiber.RuntimeFiber<unknown, unknown>

/** The span of the fiber, while tracing is on. */
const spanOf = (fiber: AnyFiber): Tracer.Span | undefined => {
  const span = isTracing(fiber) ? fiber.currentSpan : undefined
  return span?._tag === "Span" ? span : undefined
}

/** Adds the response's status to the call's span. */
export const recordResponseStatus = (fiber: AnyFiber, status: number): void =>
  spanOf(fiber)?.attribute("http.response.status_code", status)

const noHeaders: Readonly<Record<string, string>> = {}

/** `traceparent`, with which the other side's spans join this trace (W3C Trace Context); none without tracing. */
export const traceHeaders = (fiber: AnyFiber): Readonly<Record<string, string>> => {
  const span = spanOf(fiber)
  return span === undefined || Context.get(span.context, Tracer.DisablePropagation)
    ? noHeaders
    : { traceparent: `00-${span.traceId}-${span.spanId}-${span.sampled ? "01" : "00"}` }
}
