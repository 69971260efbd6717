/** Which spans are recorded: those of requests and of background deliveries, as far as the sampler keeps their trace. */
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import type { TraceSampler } from "../../services/Settings.ts"

/** Background work with a trace of its own. Polling, flushing and cleaning up have none, because their many spans would hide the others. */
const background = /^(?:ReportFiling|DuplicateIssues|Tracker|Tables)\./

/** By the trace id, so that every process with the same ratio keeps the same traces. */
const isSampled = (traceId: string, ratio: number): boolean =>
  Number.parseInt(traceId.slice(-8), 16) < ratio * 2 ** 32

/** Keeps the spans that `sampler` decides for; a span without a parent must be a request or background work. */
export const filterSpans = (tracer: Tracer.Tracer, { parentBased, ratio }: TraceSampler): Tracer.Tracer =>
  Tracer.make({
    span: (name, parent, context, links, startTime, kind, options) => {
      const unrecorded: Tracer.Span = {
        _tag: "Span",
        name,
        kind,
        spanId: "",
        traceId: "",
        parent,
        context,
        status: { _tag: "Started", startTime },
        attributes: new Map(),
        links,
        sampled: false,
        attribute: () => {},
        event: () => {},
        addLinks: () => {},
        end: () => {}
      }
      // Not propagated: spans inside have no parent either and are filtered by the same rule.
      if (Option.isNone(parent) && kind !== "server" && !background.test(name))
        return { ...unrecorded, context: Context.add(context, Tracer.DisablePropagation, true) }
      const span = tracer.span(name, parent, context, links, startTime, kind, options)
      const sampled =
        parentBased && Option.isSome(parent) ? parent.value.sampled : isSampled(span.traceId, ratio)
      return sampled ? span : { ...unrecorded, spanId: span.spanId, traceId: span.traceId }
    },
    context: (run, fiber) => tracer.context(run, fiber)
  })
