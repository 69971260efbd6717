/** What is told of a call to another system: how often, how long, how it ended, and a span that it continues. */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberRef from "effect/FiberRef"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { recordNow, upstreamRequestDuration, upstreamRequests } from "../../services/Metrics.ts"
import type { Dependency, UpstreamFailure } from "../../services/UpstreamFailure.ts"

/** Where calls of one kind go, as spans tell it. */
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
  /** Our name for what is asked, such as `introspect`; one of a few. */
  readonly operation: string
  readonly method: string
  /** The path, with names in place of what varies. */
  readonly template: string
}

const outcomes = { Refused: "refused", NotExecuted: "not_executed", Unknown: "unknown" } as const

/** A call that nobody waits for any longer is interrupted; what it did stays unknown. */
const outcomeOf = Exit.match({
  onSuccess: () => "ok",
  onFailure: (cause: Cause.Cause<UpstreamFailure>) =>
    Option.match(Cause.failureOption(cause), {
      onNone: () => "interrupted",
      onSome: ({ _tag }) => outcomes[_tag]
    })
})

/** By OpenTelemetry's conventions for HTTP clients; no query, no header. */
const attributesOf = ({ method, operation, peer, template }: ObservedCall) => ({
  ...peer,
  "http.request.method": method,
  "url.template": template,
  "music.operation": operation
})

const counted = <A, R>(
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

const tracing = FiberRef.get(FiberRef.currentTracerEnabled)

/** Counts and times one call; with tracing it is a span of its own, which `traceContext` names inside. */
export const observed =
  (call: ObservedCall) =>
  <A, R>(effect: Effect.Effect<A, UpstreamFailure, R>): Effect.Effect<A, UpstreamFailure, R> =>
    Effect.flatMap(tracing, (enabled) =>
      enabled
        ? Effect.withSpan(counted(call, effect), `${call.method} ${call.template}`, {
            kind: "client",
            attributes: attributesOf(call),
            captureStackTrace: false
          })
        : counted(call, effect)
    )

/** The status of the answer to the call in hand. */
export const noteStatus = (status: number): Effect.Effect<void> =>
  Effect.flatMap(tracing, (enabled) =>
    enabled ? Effect.annotateCurrentSpan("http.response.status_code", status) : Effect.void
  )

const none: Readonly<Record<string, string>> = {}

/** The header that makes the other side's spans part of this trace (W3C Trace Context); none while nothing is traced. */
export const traceContext: Effect.Effect<Readonly<Record<string, string>>> = Effect.flatMap(
  tracing,
  (enabled) =>
    enabled
      ? Effect.match(Effect.currentSpan, {
          onFailure: () => none,
          onSuccess: ({ context, sampled, spanId, traceId }) =>
            Context.get(context, Tracer.DisablePropagation)
              ? none
              : { traceparent: `00-${traceId}-${spanId}-${sampled ? "01" : "00"}` }
        })
      : Effect.succeed(none)
)
