import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { Unauthenticated } from "../../src/schema/Failure.ts"
import { it } from "../world/Test.ts"
import { goodRequests, inMemory } from "./support.ts"

interface Recorded extends Tracer.Span {
  ended?: string
}

const recorder = (spans: Array<Recorded>) =>
  Tracer.make({
    span: (name, parent, context, links, startTime, kind) => {
      const attributes = new Map<string, unknown>()
      const span: Recorded = {
        _tag: "Span",
        name,
        spanId: `span-${spans.length}`,
        traceId: Option.match(parent, { onNone: () => "new", onSome: (outer) => outer.traceId }),
        parent,
        context,
        links: [...links],
        sampled: true,
        kind,
        status: { _tag: "Started", startTime },
        attributes,
        attribute: (key, value) => void attributes.set(key, value),
        event: () => {},
        addLinks: () => {},
        end: (_, { _tag }) => {
          span.ended = _tag
        }
      }
      spans.push(span)
      return span
    },
    context: (run) => run()
  })

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
const spanId = "00f067aa0ba902b7"
const traceparent = `00-${traceId}-${spanId}-01`

// A trace with its caller and its upstreams: test/observability/Trace.test.ts.
describe("The span of a request", () => {
  it.scoped("begins a new trace for a malformed traceparent; an unknown path is no name", function* () {
    const spans: Array<Recorded> = []
    const server = yield* inMemory({ tracer: recorder(spans) })
    const malformed = [
      traceparent.toUpperCase(),
      traceparent.replace(traceId, "0".repeat(32)),
      traceparent.replace(spanId, "0".repeat(16)),
      traceparent.replace("00-", "ff-"),
      `${traceparent}-more`,
      `${traceparent}, ${traceparent}`
    ]
    const path = "/secret/path"
    for (const sent of malformed) yield* server.send({ path, headers: { traceparent: sent } })
    const found = spans.map(({ name, parent }) => [name, Option.isNone(parent)])
    expect(found).toEqual(malformed.map(() => ["GET", true]))
    for (const sent of [traceparent, `01${traceparent.slice(2)}`]) {
      yield* server.send({ path, method: "PROPFIND", headers: { traceparent: sent } })
      expect([spans.at(-1)?.name, spans.at(-1)?.traceId]).toEqual(["HTTP", traceId])
    }
  })

  it.scoped("is an error only from status 500 on", function* () {
    const spans: Array<Recorded> = []
    const during = { login: Effect.die("x"), authenticate: Effect.fail(new Unauthenticated()) }
    const server = yield* inMemory({ tracer: recorder(spans), during })
    const { login, me } = yield* goodRequests(server)
    for (const sent of [me, login]) yield* server.send(sent)
    const ends = spans
      .filter(({ attributes }) => attributes.has("http.route"))
      .map(({ attributes, ended }) => [
        ended,
        ...["http.response.status_code", "music.failure.code", "error.type"].map((key) => attributes.get(key))
      ])
    expect(ends).toEqual([
      ["Success", 401, "unauthenticated", undefined],
      ["Failure", 500, "internal", "internal"]
    ])
  })
})
