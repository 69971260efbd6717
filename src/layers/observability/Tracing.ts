import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { Settings } from "../../services/Settings.ts"

/**
 * Spans leave over OTLP when the settings say where to; without that there are none, in no layer above this one. What
 * exports them is loaded only then.
 */
export const TracingLive: Layer.Layer<never, never, Settings> = Layer.unwrapEffect(
  Effect.map(Settings, ({ openTelemetry }) =>
    Option.match(openTelemetry.traces, {
      onNone: () => Layer.setTracerEnabled(false),
      onSome: (traces) =>
        Layer.unwrapEffect(
          Effect.map(
            Effect.promise(() => import("./OtlpTracer.ts")),
            ({ otlpTracer }) => otlpTracer({ ...openTelemetry, traces })
          )
        )
    })
  )
)
