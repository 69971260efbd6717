import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { Unauthenticated } from "../../src/schema/Failure.ts"
import { it } from "../world/Test.ts"
import { goodRequests, inMemory, withHeaders } from "./support.ts"

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

describe("Tracing", () => {
  it.scoped("continues the caller's trace, and marks as an error only what is 500 or more", function* () {
    const spans: Array<Recorded> = []
    const server = yield* inMemory({
      tracer: recorder(spans),
      during: {
        login: Effect.zipRight(Effect.withSpan(Effect.void, "inside"), Effect.die("x")),
        authenticate: Effect.fail(new Unauthenticated())
      }
    })
    const { login, me, version } = yield* goodRequests(server)
    spans.length = 0
    for (const sent of [version, me, login]) yield* server.send(withHeaders({ traceparent })(sent))
    expect(new Set(spans.map((span) => span.traceId))).toEqual(new Set([traceId]))
    expect(spans.map(({ name }) => name)).toContain("inside")
    const ofRequests = spans.filter(({ attributes }) => attributes.has("http.route"))
    const found = ofRequests.map(({ attributes, ended, name, parent }) => [
      name,
      Option.getOrUndefined(parent)?.spanId,
      ended,
      ...["http.request.method", "http.route", "http.response.status_code", "url.scheme"].map((key) =>
        attributes.get(key)
      ),
      ...["music.failure.code", "error.type"].map((key) => attributes.get(key))
    ])
    const wanted = (method: string, path: string, status: number, ended: string) => [
      ...[`${method} ${path}`, spanId, ended, method, path, status, "http"]
    ]
    expect(found).toEqual([
      [...wanted("GET", version.path, 200, "Success"), undefined, undefined],
      [...wanted("GET", me.path, 401, "Success"), "unauthenticated", undefined],
      [...wanted("POST", login.path, 500, "Failure"), "internal", "internal"]
    ])
  })

  it.scoped("starts a new one for a malformed traceparent; an unknown path is no name", function* () {
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
    yield* server.send({ path, method: "PROPFIND", headers: { traceparent: `01${traceparent.slice(2)}` } })
    const last = spans.at(-1)
    expect([last?.name, last?.traceId]).toEqual(["HTTP", traceId])
  })
})
