/** Spans of the service's own steps. Without an exporter none is made, because each one would cost more than most steps. */
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"

/** Runs the effect in a span of this name, if the fiber traces. */
export const traced =
  (name: string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    FiberRef.getWith(FiberRef.currentTracerEnabled, (isTracing) =>
      isTracing ? Effect.withSpan(effect, name, { captureStackTrace: false }) : effect
    )

/** The same around every run of a function. */
export const tracedFn =
  <Arguments extends ReadonlyArray<unknown>, A, E, R>(
    name: string,
    run: (...given: Arguments) => Effect.Effect<A, E, R>
  ): ((...given: Arguments) => Effect.Effect<A, E, R>) =>
  (...given) =>
    traced(name)(run(...given))
