import type { ServerResponse } from "node:http"
import { describe, expect } from "vitest"
import * as HttpBody from "@effect/platform/HttpBody"
import { HttpClient } from "@effect/platform/HttpClient"
import { Effect, Fiber, Metric, Option, Schema, type Scope, TestClock, type TestServices } from "effect"
import { faults, type Reply } from "../../../sandbox/upstreams/Simulator.ts"
import { envelopeFailure } from "../../../src/layers/upstream/ErrorEnvelope.ts"
import { Connections } from "../../../src/layers/upstream/Connections.ts"
import { makeUpstream, type UpstreamCall } from "../../../src/layers/upstream/Upstream.ts"
import { readJson } from "../../../src/layers/upstream/UpstreamResponse.ts"
import { version } from "../../../src/schema/Release.ts"
import { upstreamRequests } from "../../../src/services/Metrics.ts"
import { monotonicMillis } from "../../../src/services/MonotonicTime.ts"
import { RequestContext } from "../../../src/services/RequestContext.ts"
import { until } from "../../world/Waiting.ts"
import { type Body, it, toEffect } from "../../world/Test.ts"
import { answering, rawServer } from "./Simulated.ts"

const largestAnswer = 1_000

const ask: UpstreamCall<{ readonly ok: boolean }> = {
  operation: "ask",
  method: "POST",
  path: "/thing",
  headers: { authorization: "Bearer hidden-bearer", "idempotency-key": "hidden-key" },
  body: HttpBody.unsafeJson({ token: "hidden-body" }),
  read: readJson(Schema.Struct({ ok: Schema.Boolean }))
}

const askOf = (url: string) =>
  Effect.flatMap(HttpClient, (client) =>
    makeUpstream(client, {
      dependency: "ting",
      url,
      timeoutSeconds: 2,
      maxResponseBytes: largestAnswer,
      failureOf: envelopeFailure({ requestIdHeader: "x-request-id", notExecutedCode: "server_overloaded" })
    })(ask)
  )
const failureOf = (url: string) => Effect.flip(askOf(url))

const envelope = (code: string) => ({ error: { code, message: "hidden-message", request_id: "req-1" } })
const fine = { status: 200, body: { ok: true } }
const failureFor = (reply: Reply) =>
  Effect.flatMap(
    answering(() => reply),
    ({ url }) => failureOf(url)
  )

const json = { "content-type": "application/json" }

const write = (response: ServerResponse, chunks: ReadonlyArray<string>, end = true) => {
  response.writeHead(200, json)
  for (const chunk of chunks) response.write(chunk)
  if (end) response.end()
}

const scoped = (name: string, body: Body<HttpClient | Scope.Scope | TestServices.TestServices, []>) =>
  it.scoped(name, () => Effect.provide(toEffect(body)(), Connections))

/** Replies, and the failures of their calls. */
const failures: ReadonlyArray<readonly [name: string, Reply, wanted: object]> = [
  [
    "a refusal has the code and all fields of the envelope",
    { status: 409, body: envelope("idempotency_in_progress"), headers: { "retry-after": "3" } },
    {
      ...{ _tag: "Refused", dependency: "ting", status: 409, code: "idempotency_in_progress" },
      ...{ requestId: "req-1", retryAfterSeconds: 3 }
    }
  ],
  [
    "a refusal has the request id of the header when the envelope has none",
    {
      status: 403,
      body: { error: { code: "forbidden", message: "no" } },
      headers: { "x-request-id": "id-2" }
    },
    { _tag: "Refused", requestId: "id-2" }
  ],
  [
    "a 503 does not say that nothing was done; its seconds are kept",
    { status: 503, body: envelope("service_unavailable"), headers: { "retry-after": "5" } },
    { _tag: "Unknown", reason: "answered 503 service_unavailable", retryAfterSeconds: 5 }
  ],
  [
    "the contract's code says that nothing was done",
    { status: 503, body: envelope("server_overloaded"), headers: { "retry-after": "5" } },
    { _tag: "NotExecuted", reason: "answered 503 server_overloaded", retryAfterSeconds: 5 }
  ],
  ...(
    [
      ["a 4xx is HTML", { status: 403, headers: { "content-type": "text/html" }, body: "<html></html>" }],
      ["a 4xx is another system's JSON", { status: 404, body: { message: "Not Found" } }],
      ["a success is HTML", { status: 200, headers: { "content-type": "text/html" }, body: `{"ok":true}` }],
      ["a success has another shape", { status: 200, body: { ok: "yes" } }],
      ["a success is not UTF-8", { status: 200, headers: json, body: Buffer.from([0x22, 0xff, 0x22]) }],
      ["a success begins with a byte order mark", { status: 200, headers: json, body: `\ufeff{"ok":true}` }],
      ["a 500 says overloaded", { status: 500, body: envelope("server_overloaded") }],
      ["a 502 has none", { status: 502, body: "bad gateway" }]
    ] as const
  ).map(([name, reply]) => [`the outcome is unknown when ${name}`, reply, { _tag: "Unknown" }] as const),
  ...(
    [
      [undefined, 1],
      ["0", 1],
      ["17", 17],
      ["nonsense", 1],
      ["99999999", 3_600],
      [new Date(1_790_331_340_000).toUTCString(), 10]
    ] as const
  ).flatMap(([header, seconds]) =>
    [envelope("rate_limited"), "<html>busy</html>"].map((body) => {
      const headers = header === undefined ? {} : { "retry-after": header }
      const wanted = { _tag: "Refused", code: "rate_limited", status: 429, retryAfterSeconds: seconds }
      return [`a 429 always has seconds: ${header}`, { status: 429, body, headers }, wanted] as const
    })
  )
]

describe("A call to another system", () => {
  scoped("fails by what is answered", function* () {
    yield* TestClock.setTime(1_790_331_330_000)
    for (const [name, reply, wanted] of failures)
      expect([name, yield* failureFor(reply)]).toMatchObject([name, wanted])
  })

  scoped("keeps the base's path prefix, names this program and its trace, and sends no Origin", function* () {
    const server = yield* answering(() => ({ status: 200, body: { ok: true, later: 1 } }))
    expect(yield* Effect.withSpan(askOf(`${server.url}/prefix`), "outer")).toEqual({ ok: true })
    const [seen] = server.seen
    expect([seen?.path, seen?.body.toString()]).toEqual(["/prefix/thing", `{"token":"hidden-body"}`])
    expect(seen?.headers.get("user-agent")).toEqual([`music-backend/${version}`])
    expect(seen?.headers.get("authorization")).toEqual(["Bearer hidden-bearer"])
    expect(seen?.headers.get("origin")).toBeUndefined()
    expect(seen?.headers.get("traceparent")).toHaveLength(1)
  })

  scoped("does not follow a redirection, whose outcome is unknown", function* () {
    const elsewhere = yield* answering(() => fine)
    for (const status of [301, 302, 303, 307, 308]) {
      const failure = yield* failureFor({ status, headers: { location: elsewhere.url } })
      expect([status, failure._tag]).toEqual([status, "Unknown"])
    }
    expect(elsewhere.seen).toEqual([])
  })

  scoped("has an unknown outcome when the connection is dropped within the answer", function* () {
    const half = yield* rawServer((_, response) => {
      write(response, [`{"ok":`], false)
      setTimeout(() => response.destroy(), 10)
    })
    expect((yield* failureOf(half.url))._tag).toBe("Unknown")
  })

  scoped("ends after its time, also when only the last byte is missing", function* () {
    const hanging = yield* answering(() => fine)
    hanging.fail({ fault: { kind: "hang" }, times: 2 })
    let aborted = 0
    const endless = yield* rawServer((_, response) => {
      response.on("close", () => {
        aborted += 1
      })
      write(response, [`{"ok":`], false)
    })
    // Work that cannot be interrupted is not held up either.
    for (const [call, arrived] of [
      [failureOf(hanging.url), () => hanging.seen.length === 1],
      [Effect.uninterruptible(failureOf(hanging.url)), () => hanging.seen.length === 2],
      [failureOf(endless.url), () => endless.connections() === 1]
    ] as const) {
      const fiber = yield* Effect.fork(call)
      yield* until(arrived)
      yield* TestClock.adjust("1999 millis")
      expect(Option.isNone(yield* Fiber.poll(fiber))).toBe(true)
      yield* TestClock.adjust("1 millis")
      const wanted = { _tag: "Unknown", dependency: "ting", reason: "no answer within 2 seconds" }
      expect(yield* Fiber.join(fiber)).toMatchObject(wanted)
    }
    yield* until(() => aborted === 1)
  })

  scoped("ends at the deadline of its request, and does not begin after it", function* () {
    const hanging = yield* answering(() => fine)
    hanging.fail({ fault: { kind: "hang" } })
    const info = yield* RequestContext
    const deadlineAt = (yield* monotonicMillis) + 500
    const call = Effect.provideService(failureOf(hanging.url), RequestContext, { ...info, deadlineAt })
    const fiber = yield* Effect.fork(call)
    yield* until(() => hanging.seen.length === 1)
    yield* TestClock.adjust("500 millis")
    expect(yield* Fiber.join(fiber)).toMatchObject({ _tag: "Unknown", reason: "deadline passed" })
    expect(yield* call).toMatchObject({ _tag: "NotExecuted", reason: "deadline passed" })
    expect(hanging.seen).toHaveLength(1)
  })

  scoped("is not repeated when a kept connection is closed, and may have arrived", function* () {
    let requests = 0
    const server = yield* rawServer((request, response) => {
      requests += 1
      request.resume()
      if (requests === 1) write(response, [`{"ok":true}`])
      else request.socket.destroy()
    })
    yield* askOf(server.url)
    // The connection is free once the callbacks of the answer are over.
    yield* Effect.promise(() => new Promise((wake) => setImmediate(wake)))
    const failure = yield* failureOf(server.url)
    expect([failure._tag, requests, server.connections()]).toEqual(["Unknown", 2, 1])
    expect(failure).toMatchObject({ reason: "lost the connection: UND_ERR_SOCKET" })
  })

  scoped("had no effect without a connection", function* () {
    const wanted = { _tag: "NotExecuted", dependency: "ting", reason: "no connection: ECONNREFUSED" }
    expect(yield* failureOf("http://127.0.0.1:1")).toMatchObject(wanted)
    const server = yield* answering(() => fine)
    const plain = yield* failureOf(server.url.replace("http:", "https:"))
    expect([plain._tag, server.seen]).toEqual(["NotExecuted", []])
  })

  scoped("is counted once, by its outcome", function* () {
    const outcomes = ["ok", "refused", "not_executed", "unknown", "interrupted"] as const
    const counts = Effect.forEach(outcomes, (outcome) => {
      const counter = upstreamRequests({ dependency: "ting", operation: "ask", outcome })
      return Effect.map(Metric.value(counter), ({ count }) => count)
    })
    const before = yield* counts
    const server = yield* answering(() => fine)
    yield* askOf(server.url)
    for (const fault of [
      faults.status(400, envelope("invalid_input")),
      faults.status(503, envelope("server_overloaded")),
      { kind: "drop" }
    ] as const) {
      server.fail({ fault })
      yield* failureOf(server.url)
    }
    server.fail({ fault: { kind: "hang" } })
    const leaving = yield* Effect.fork(askOf(server.url))
    yield* until(() => server.seen.length === 5)
    yield* Fiber.interrupt(leaving)
    const counted = (yield* counts).map((count, at) => count - (before[at] ?? 0))
    expect(counted).toEqual([1, 1, 1, 1, 1])
  })
})

scoped("An answer is bounded in bytes, also one that never ends", function* () {
  const ofLength = (bytes: number) =>
    rawServer((_, response) => write(response, [`{"ok":true,"x":"${"x".repeat(bytes - 18)}"}`]))
  expect(yield* askOf((yield* ofLength(largestAnswer)).url)).toEqual({ ok: true })
  expect((yield* failureOf((yield* ofLength(largestAnswer + 1)).url))._tag).toBe("Unknown")
  const endless = yield* rawServer((_, response) => {
    response.writeHead(200, json)
    const more = () => {
      if (!response.destroyed) response.write("x".repeat(100), () => setImmediate(more))
    }
    more()
  })
  expect((yield* failureOf(endless.url))._tag).toBe("Unknown")
})
