import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { Unauthenticated } from "../../src/schema/Failure.ts"
import { backend, call, good } from "./support.ts"

interface Seen {
  readonly name: string
  readonly traceId: string
  readonly parentId: string | undefined
  readonly attributes: Map<string, unknown>
  ended?: string
}

const recorder = (seen: Array<Seen>) =>
  Tracer.make({
    span: (name, parent, context, links, startTime, kind) => {
      const attributes = new Map<string, unknown>()
      const traceId = Option.match(parent, { onNone: () => "new", onSome: (span) => span.traceId })
      const one: Seen = { name, traceId, parentId: Option.getOrUndefined(parent)?.spanId, attributes }
      seen.push(one)
      return {
        _tag: "Span",
        name,
        spanId: `span-${seen.length}`,
        traceId,
        parent,
        context,
        links,
        sampled: true,
        kind,
        status: { _tag: "Started", startTime },
        attributes,
        attribute: (key, value) => void attributes.set(key, value),
        event: () => {},
        addLinks: () => {},
        end: (_, { _tag }) => {
          one.ended = _tag
        }
      }
    },
    context: (run) => run()
  })

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

describe("Tracing", () => {
  it.scoped("continues the caller's trace when spans are exported", function* () {
    const seen: Array<Seen> = []
    const server = yield* backend({
      tracer: recorder(seen),
      during: { login: Effect.withSpan(Effect.void, "inside") }
    })
    yield* call(server, { ...good.login, headers: { ...good.login.headers, traceparent } })
    expect(seen.map(({ name, traceId }) => [name, traceId])).toEqual([
      ["POST /api/v1/auth/login", "4bf92f3577b34da6a3ce929d0e0e4736"],
      ["inside", "4bf92f3577b34da6a3ce929d0e0e4736"]
    ])
    expect(seen[0]?.parentId).toBe("00f067aa0ba902b7")
    expect(Object.fromEntries(seen[0]?.attributes ?? [])).toMatchObject({
      "http.request.method": "POST",
      "http.route": "/api/v1/auth/login",
      "http.response.status_code": 200,
      "url.scheme": "http"
    })
  })

  it.scoped(
    "starts a new trace for a malformed traceparent, and names an unknown path by its method",
    function* () {
      const seen: Array<Seen> = []
      const server = yield* backend({ tracer: recorder(seen) })
      const malformed = [
        traceparent.toUpperCase(),
        traceparent.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0".repeat(32)),
        traceparent.replace("00f067aa0ba902b7", "0".repeat(16)),
        traceparent.replace("00-", "ff-"),
        `${traceparent}-more`,
        `${traceparent}, ${traceparent}`
      ]
      for (const sent of malformed)
        yield* call(server, { path: "/secret/path", headers: { traceparent: sent } })
      expect(seen.map(({ name, parentId }) => [name, parentId])).toEqual(
        malformed.map(() => ["GET", undefined])
      )
      yield* call(server, { ...good.healthz, headers: { traceparent: traceparent.replace("00-", "01-") } })
      expect(seen.at(-1)?.parentId).toBe("00f067aa0ba902b7")
    }
  )

  it.scoped("marks the span as an error only from status 500 on", function* () {
    const seen: Array<Seen> = []
    const server = yield* backend({
      tracer: recorder(seen),
      during: { me: Effect.fail(new Unauthenticated()), login: Effect.die("x") }
    })
    yield* call(server, good.me)
    yield* call(server, good.login)
    expect(
      seen.map(({ attributes, ended }) => [
        attributes.get("music.failure.code"),
        attributes.get("error.type"),
        ended
      ])
    ).toEqual([
      ["unauthenticated", undefined, "Success"],
      ["internal", "internal", "Failure"]
    ])
  })
})
