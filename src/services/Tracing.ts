/** Spans, made only when the settings name a collector (layers/observability/Tracing.ts). */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as FiberRef from "effect/FiberRef"
import type * as Tracer from "effect/Tracer"

/** Whether spans of this fiber are recorded. */
export const isTracing = (fiber: Fiber.RuntimeFiber<unknown, unknown>): boolean =>
  fiber.getFiberRef(FiberRef.currentTracerEnabled)

/**
 * Runs the effect in a span. Unlike `Effect.withSpan` and `Effect.fn`, which cost some 35 steps of the run loop also
 * without tracing, it costs one then. For a generator function: `Effect.fnUntraced(function* () { … }, traced("Name.method"))`.
 */
export const traced =
  (name: string, options?: Pick<Tracer.SpanOptions, "attributes" | "kind">) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.withFiberRuntime((fiber) =>
      isTracing(fiber) ? Effect.withSpan(effect, name, { ...options, captureStackTrace: false }) : effect
    )
