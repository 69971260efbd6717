/** Metrics and spans of calls to other systems, and the header that continues the trace there. */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberRef from "effect/FiberRef"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { recordNow, upstreamRequestDuration, upstreamRequests } from "../../services/Metrics.ts"
import type { Dependency, UpstreamFailure } from "../../services/UpstreamFailure.ts"

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

export interface ObservedCall {
  readonly peer: Peer
  /** Name of the operation, such as `introspect`; one of a few. */
  readonly operation: string
  readonly method: string
  /** The path with `{name}` in place of what varies. */
  readonly template: string
}

const outcomes = { Refused: "refused", NotExecuted: "not_executed", Unknown: "unknown" } as const

/** `interrupted`: the caller went away, and the outcome is unknown. */
const outcomeOf = Exit.match({
  onSuccess: () => "ok",
  onFailure: (cause: Cause.Cause<UpstreamFailure>) =>
    Option.match(Cause.failureOption(cause), {
      onNone: () => "interrupted",
      onSome: ({ _tag }) => outcomes[_tag]
    })
})

/** OpenTelemetry's attributes of an HTTP client span, without query and headers. */
const attributesOf = ({ method, operation, peer, template }: ObservedCall) => ({
  ...peer,
  "http.request.method": method,
  "url.template": template,
  "music.operation": operation
})

const recordMetrics = <A, R>(
  { operation, peer }: ObservedCall,
  effect: Effect.Effect<A, UpstreamFailure, R>
): Effect.Effect<A, UpstreamFailure, R> =>
  Effect.clockWith((clock) => {
    const startedAt = clock.unsafeCurrentTimeNanos()
    const dependency = peer["peer.service"]
    return Effect.onExit(effect, (exit) =>
      Effect.sync(() => {
        const seconds = Number(clock.unsafeCurrentTimeNanos() - startedAt) / 1e9
        recordNow(upstreamRequests({ dependency, operation, outcome: outcomeOf(exit) }), 1)
        recordNow(upstreamRequestDuration({ dependency, operation }), seconds)
      })
    )
  })

const tracerEnabled = FiberRef.get(FiberRef.currentTracerEnabled)

/** Counts and times one call. With tracing it is a span of its own, the parent that `traceHeaders` names inside. */
export const observeCall =
  (call: ObservedCall) =>
  <A, R>(effect: Effect.Effect<A, UpstreamFailure, R>): Effect.Effect<A, UpstreamFailure, R> =>
    Effect.flatMap(tracerEnabled, (enabled) =>
      enabled
        ? Effect.withSpan(recordMetrics(call, effect), `${call.method} ${call.template}`, {
            kind: "client",
            attributes: attributesOf(call),
            captureStackTrace: false
          })
        : recordMetrics(call, effect)
    )

/** Adds the response's status to the call's span. */
export const recordResponseStatus = (status: number): Effect.Effect<void> =>
  Effect.flatMap(tracerEnabled, (enabled) =>
    enabled ? Effect.annotateCurrentSpan("http.response.status_code", status) : Effect.void
  )

const noHeaders: Readonly<Record<string, string>> = {}

/** `traceparent`, with which the other side's spans join this trace (W3C Trace Context); none without tracing. */
export const traceHeaders: Effect.Effect<Readonly<Record<string, string>>> = Effect.flatMap(
  tracerEnabled,
  (enabled) =>
    enabled
      ? Effect.match(Effect.currentSpan, {
          onFailure: () => noHeaders,
          onSuccess: ({ context, sampled, spanId, traceId }) =>
            Context.get(context, Tracer.DisablePropagation)
              ? noHeaders
              : { traceparent: `00-${traceId}-${spanId}-${sampled ? "01" : "00"}` }
        })
      : Effect.succeed(noHeaders)
)
