/** Which work is worth a trace of its own. */
import * as OtelTracer from "@effect/opentelemetry/Tracer"
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"

/**
 * What is done in the background for somebody: a report filed, a batch of telemetry written. Looking for work every second,
 * flushing and tidying up would drown it.
 */
const background = /^(?:ReportFiling|DuplicateIssues|Tracker|Tables)\./

/** A span that nobody sees: what is done inside has no parent either, and is asked the same. */
const unseen = (
  name: string,
  context: Context.Context<never>,
  startTime: bigint,
  kind: Tracer.SpanKind
): Tracer.Span => ({
  _tag: "Span",
  name,
  kind,
  spanId: "",
  traceId: "",
  parent: Option.none(),
  context: Context.add(context, Tracer.DisablePropagation, true),
  status: { _tag: "Started", startTime },
  attributes: new Map(),
  links: [],
  sampled: false,
  attribute: () => {},
  event: () => {},
  addLinks: () => {},
  end: () => {}
})

/** The bridge to OpenTelemetry takes a caller's span for a kept one unless its flags say otherwise. */
const withFlags = (parent: Tracer.AnySpan): Tracer.AnySpan =>
  parent._tag === "ExternalSpan"
    ? OtelTracer.makeExternalSpan({
        traceId: parent.traceId,
        spanId: parent.spanId,
        traceFlags: parent.sampled ? 1 : 0
      })
    : parent

/** Traces begin at a request or at such work, nowhere else. */
export const spanFilterOf = (tracer: Tracer.Tracer): Tracer.Tracer =>
  Tracer.make({
    span: (name, parent, context, links, startTime, kind, options) =>
      Option.isSome(parent) || kind === "server" || background.test(name)
        ? tracer.span(name, Option.map(parent, withFlags), context, links, startTime, kind, options)
        : unseen(name, context, startTime, kind),
    context: (run, fiber) => tracer.context(run, fiber)
  })
