import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { filterSpans } from "../../src/layers/observability/SpanFilter.ts"
import type { TraceSampler } from "../../src/services/Settings.ts"

/** A tracer that records the names of ended spans; its roots have the given trace id. */
const recording = (traceId: string) => {
  const ended: Array<string> = []
  const tracer = Tracer.make({
    span: (name, parent, context, links, startTime, kind) => ({
      _tag: "Span",
      name,
      kind,
      spanId: "00f067aa0ba902b7",
      traceId: Option.match(parent, { onNone: () => traceId, onSome: (span) => span.traceId }),
      parent,
      context,
      status: { _tag: "Started", startTime },
      attributes: new Map(),
      links,
      sampled: true,
      attribute: () => {},
      event: () => {},
      addLinks: () => {},
      end: () => void ended.push(name)
    }),
    context: (run) => run()
  })
  return { ended, tracer }
}

const low = `${"0".repeat(24)}3fffffff`
const high = `${"0".repeat(24)}c0000000`

/** The spans that are kept of a request, with a span inside it. */
const keptOf = (sampler: TraceSampler, traceId: string, parent?: Tracer.AnySpan) => {
  const { ended, tracer } = recording(traceId)
  return Effect.void.pipe(
    Effect.withSpan("inside"),
    Effect.withSpan("request", { kind: "server", ...(parent === undefined ? {} : { parent }) }),
    Effect.withTracer(filterSpans(tracer, sampler)),
    Effect.as(ended)
  )
}

const caller = (sampled: boolean) =>
  Tracer.externalSpan({ traceId: high, spanId: "00f067aa0ba902b7", sampled })

describe("The span filter", () => {
  it.effect("keeps the share of traces that the ratio names, by their trace ids", function* () {
    const half = { parentBased: true, ratio: 0.5 }
    expect(yield* keptOf(half, low)).toEqual(["inside", "request"])
    expect(yield* keptOf(half, high)).toEqual([])
    expect(yield* keptOf({ ...half, ratio: 1 }, "f".repeat(32))).toEqual(["inside", "request"])
    expect(yield* keptOf({ ...half, ratio: 0 }, "0".repeat(32))).toEqual([])
  })

  it.effect("follows the caller's decision only when the sampler is parent-based", function* () {
    const both = ["inside", "request"]
    expect(yield* keptOf({ parentBased: true, ratio: 0 }, low, caller(true))).toEqual(both)
    expect(yield* keptOf({ parentBased: true, ratio: 1 }, low, caller(false))).toEqual([])
    expect(yield* keptOf({ parentBased: false, ratio: 1 }, low, caller(false))).toEqual(both)
    expect(yield* keptOf({ parentBased: false, ratio: 0 }, low, caller(true))).toEqual([])
  })

  it.effect(
    "starts a trace only at a request or a delivery, and propagates a trace that is not kept",
    function* () {
      const { ended, tracer } = recording(high)
      const filtered = filterSpans(tracer, { parentBased: true, ratio: 1 })
      const end = (name: string) => Effect.void.pipe(Effect.withSpan(name), Effect.withTracer(filtered))
      yield* end("Spool.flush")
      yield* end("Tables.write")
      expect(ended).toEqual(["Tables.write"])
      const dropped = filterSpans(tracer, { parentBased: true, ratio: 0 })
      const span = dropped.span("request", Option.none(), Context.empty(), [], 0n, "server")
      expect([span.traceId, span.spanId, span.sampled]).toEqual([high, "00f067aa0ba902b7", false])
      span.end(0n, Exit.void)
      expect(ended).toEqual(["Tables.write"])
    }
  )
})
