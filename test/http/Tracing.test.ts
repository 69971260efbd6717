import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { Unauthenticated } from "../../src/schema/Failure.ts"
import { it } from "../world/Test.ts"
import { goodRequests, inMemory, withHeaders } from "./support.ts"

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

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
const spanId = "00f067aa0ba902b7"
const traceparent = `00-${traceId}-${spanId}-01`

describe("Tracing", () => {
  it.scoped("continues the caller's trace when spans are exported", function* () {
    const seen: Array<Seen> = []
    const server = yield* inMemory({
      tracer: recorder(seen),
      during: { login: Effect.withSpan(Effect.void, "inside") }
    })
    const { login } = yield* goodRequests(server)
    seen.length = 0
    yield* server.send(withHeaders({ traceparent })(login))
    expect(seen.slice(0, 2).map((span) => [span.name, span.traceId])).toEqual([
      ["POST /api/v1/auth/login", traceId],
      [expect.stringMatching(/./), traceId]
    ])
    expect(seen.find(({ name }) => name === "inside")?.traceId).toBe(traceId)
    expect(seen[0]?.parentId).toBe(spanId)
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
      const server = yield* inMemory({ tracer: recorder(seen) })
      const malformed = [
        traceparent.toUpperCase(),
        traceparent.replace(traceId, "0".repeat(32)),
        traceparent.replace(spanId, "0".repeat(16)),
        traceparent.replace("00-", "ff-"),
        `${traceparent}-more`,
        `${traceparent}, ${traceparent}`
      ]
      for (const sent of malformed)
        yield* server.send({ path: "/secret/path", headers: { traceparent: sent } })
      expect(seen.map(({ name, parentId }) => [name, parentId])).toEqual(
        malformed.map(() => ["GET", undefined])
      )
      yield* server.send({ path: "/healthz", headers: { traceparent: traceparent.replace("00-", "01-") } })
      expect(seen.at(-1)?.parentId).toBe(spanId)
      yield* server.send({ path: "/secret/path", method: "PROPFIND" })
      expect(seen.at(-1)?.name).toBe("HTTP")
    }
  )

  it.scoped("marks the span as an error only from status 500 on", function* () {
    const seen: Array<Seen> = []
    const server = yield* inMemory({
      tracer: recorder(seen),
      during: { authenticate: Effect.fail(new Unauthenticated()), login: Effect.die("x") }
    })
    const { login, me } = yield* goodRequests(server)
    yield* server.send(me)
    yield* server.send(login)
    const ends = seen
      .filter(({ name }) => name === `GET ${me.path}` || name === `POST ${login.path}`)
      .map((span) => [
        span.attributes.get("music.failure.code"),
        span.attributes.get("error.type"),
        span.ended
      ])
    expect(ends).toEqual([
      ["unauthenticated", undefined, "Success"],
      ["internal", "internal", "Failure"]
    ])
  })
})
