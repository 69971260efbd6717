import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Environment, processEnvironment } from "../settings/Settings.ts"

/** No layer above makes spans outside of a trace, nor begins one unless spans are sent. */
export const noSpans: Layer.Layer<never> = Layer.setTracerEnabled(false)

/** Sends the spans of all layers above to the collector of the variables. */
const sendSpans = Layer.unwrapEffect(
  Effect.map(
    Effect.promise(() => import("./OpenTelemetry.ts")),
    ({ exportSpans }) => Layer.merge(exportSpans, noSpans)
  )
)

/** An endpoint turns traces on. The SDK of OpenTelemetry reads its other variables, but not those that turn it off. */
const hasCollector = (given: Environment): boolean =>
  Boolean(given.OTEL_EXPORTER_OTLP_ENDPOINT || given.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) &&
  given.OTEL_SDK_DISABLED?.trim().toLowerCase() !== "true" &&
  given.OTEL_TRACES_EXPORTER?.trim() !== "none"

export const TracingFromEnvironment: Layer.Layer<never> = Layer.suspend(() =>
  hasCollector(processEnvironment) ? sendSpans : noSpans
)
