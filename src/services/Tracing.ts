/**
 * Spans are made within traces only, and where they are sent: each one costs more than most steps. A request and a delivery begin a
 * trace; polling, flushing and cleaning up have none, because their many spans would hide the others.
 */
import type { makeExternalSpan } from "@effect/opentelemetry/Tracer"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import type * as Tracer from "effect/Tracer"

/**
 * Makes the span of another system by W3C Trace Context; absent when no spans are sent, for the library's function is loaded only where some
 * are. The tracer of a fiber is enabled only within a trace.
 */
export class Spans extends Context.Reference<Spans>()("music/Spans", {
  defaultValue: (): { readonly remoteSpan: typeof makeExternalSpan } | undefined => undefined
}) {}

/** Runs the effect as a trace of its own, with a span of this name. */
export const asTrace =
  (name: string, options: Pick<Tracer.SpanOptions, "attributes"> = {}) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(Spans, (sender) =>
      sender === undefined
        ? effect
        : effect.pipe(
            Effect.withSpan(name, { ...options, root: true, captureStackTrace: false }),
            Effect.withTracerEnabled(true)
          )
    )

/** Runs the effect in a span of this name, within a trace. */
export const traced =
  (name: string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    FiberRef.getWith(FiberRef.currentTracerEnabled, (isTracing) =>
      isTracing ? Effect.withSpan(effect, name, { captureStackTrace: false }) : effect
    )
