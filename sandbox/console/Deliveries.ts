/** The spans of the service, within its process. A background delivery names its report there even when its calls carry nothing of it. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Tracer from "effect/Tracer"
import { noSpans } from "../../src/layers/observability/Tracing.ts"
import { Spans } from "../../src/services/Tracing.ts"

/** Traces on, without a collector. `onReport` gets the traces that handle a report. */
export const watchDeliveries = (onReport: (traceId: string, report: string) => void): Layer.Layer<never> => {
  const observing = Layer.unwrapEffect(
    Effect.map(Effect.tracer, (native) =>
      Layer.setTracer(
        Tracer.make({
          span: (...given) => {
            const span = native.span(...given)
            const { attribute } = span
            return Object.assign(span, {
              attribute: (name: string, value: unknown) => {
                if (name === "report" && typeof value === "string") onReport(span.traceId, value)
                attribute.call(span, name, value)
              }
            })
          },
          context: native.context
        })
      )
    )
  )
  const remoteSpan = ({ spanId, traceId }: { readonly traceId: string; readonly spanId: string }) =>
    Tracer.externalSpan({ traceId, spanId, sampled: true })
  return Layer.mergeAll(observing, noSpans, Layer.succeed(Spans, { remoteSpan }))
}
