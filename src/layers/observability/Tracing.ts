import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Environment, processEnvironment } from "../settings/Settings.ts"
import type { SpanTarget } from "./OpenTelemetry.ts"

/** No layer above makes spans outside of a trace, nor begins one unless spans are sent. */
export const noSpans: Layer.Layer<never> = Layer.setTracerEnabled(false)

/** Sends the spans of all layers above over OTLP. */
export const sendSpans = (target: SpanTarget = {}): Layer.Layer<never> =>
  Layer.unwrapEffect(
    Effect.map(
      Effect.promise(() => import("./OpenTelemetry.ts")),
      ({ exportSpans }) => exportSpans(target)
    )
  ).pipe(Layer.merge(noSpans))

/** An endpoint turns traces on. The SDK of OpenTelemetry reads its other variables, but not those that turn it off. */
const hasCollector = (environment: Environment): boolean =>
  [environment.OTEL_EXPORTER_OTLP_ENDPOINT, environment.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT].some(
    (endpoint) => endpoint !== undefined && endpoint.trim() !== ""
  ) &&
  environment.OTEL_SDK_DISABLED?.trim().toLowerCase() !== "true" &&
  environment.OTEL_TRACES_EXPORTER?.trim() !== "none"

export const TracingFromEnvironment: Layer.Layer<never> = Layer.unwrapEffect(
  Effect.map(processEnvironment, (environment) => (hasCollector(environment) ? sendSpans() : noSpans))
)
