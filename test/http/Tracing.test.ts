import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { accessToken, backend, bearer, call, good, idempotencyKey, testingSecret } from "./support.ts"

interface Seen {
  readonly name: string
  readonly traceId: string
  readonly parentId: string | undefined
  readonly attributes: Map<string, unknown>
}

const recorder = (seen: Array<Seen>) =>
  Tracer.make({
    span: (name, parent, context, links, startTime, kind) => {
      const attributes = new Map<string, unknown>()
      const traceId = Option.match(parent, { onNone: () => "new", onSome: (span) => span.traceId })
      seen.push({ name, traceId, parentId: Option.getOrUndefined(parent)?.spanId, attributes })
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
        end: () => {}
      }
    },
    context: (run) => run()
  })

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

describe("Tracing", () => {
  it.scoped("continues the caller's trace when spans are exported", () =>
    Effect.gen(function* () {
      const seen: Array<Seen> = []
      const server = yield* backend({
        tracer: recorder(seen),
        during: { login: Effect.withSpan(Effect.void, "inside") }
      })
      yield* call(server, { ...good.login, headers: { ...good.login.headers, traceparent } })
      expect(seen.map(({ name, traceId }) => [name, traceId])).toEqual([
        ["http.server POST", "4bf92f3577b34da6a3ce929d0e0e4736"],
        ["inside", "4bf92f3577b34da6a3ce929d0e0e4736"]
      ])
      expect(seen[0]?.parentId).toBe("00f067aa0ba902b7")
      expect(seen[0]?.attributes.get("http.route")).toBe("/api/v1/auth/login")
    })
  )

  it.scoped("puts no credential, key, query or secret into a span", () =>
    Effect.gen(function* () {
      const seen: Array<Seen> = []
      const server = yield* backend({ tracer: recorder(seen) })
      const headers = {
        ...good.submit.headers,
        ...bearer,
        "x-testing-environment-key": testingSecret,
        "x-silicon-iam-signature": "v1=signature",
        cookie: "a=cookie"
      }
      yield* call(server, { ...good.submit, path: `${good.submit.path}?token=query`, headers })
      const text = JSON.stringify(
        seen.map(({ attributes }) => [...attributes].map(([name, value]) => [name, String(value)]))
      )
      expect(text).toContain("x-testing-environment-key")
      for (const secret of [
        accessToken,
        idempotencyKey,
        testingSecret,
        "v1=signature",
        "a=cookie",
        "token=query"
      ]) {
        expect(text).not.toContain(secret)
      }
    })
  )

  it.scoped("costs nothing while nobody exports: a use case's spans have no effect either", () =>
    Effect.gen(function* () {
      const spans: Array<Tracer.AnySpan> = []
      const server = yield* backend({
        during: {
          login: Effect.currentSpan.pipe(
            Effect.tap((span) => Effect.sync(() => spans.push(span))),
            Effect.ignore,
            Effect.withSpan("inside")
          )
        }
      })
      yield* call(server, { ...good.login, headers: { ...good.login.headers, traceparent } })
      expect(spans.filter((span) => span._tag === "Span" && span.sampled)).toEqual([])
      expect(server.reached.length).toBe(1)
    })
  )
})
