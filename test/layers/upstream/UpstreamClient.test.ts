import type { ServerResponse } from "node:http"
import { assert, describe } from "vitest"
import { type Body, it, toEffect } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import type * as TestServices from "effect/TestServices"
import * as Tracer from "effect/Tracer"
import { envelopeFailure } from "../../../src/layers/upstream/ErrorEnvelope.ts"
import { readJson } from "../../../src/layers/upstream/UpstreamResponse.ts"
import { UndiciTransport } from "../../../src/layers/upstream/UndiciTransport.ts"
import { UpstreamTransport } from "../../../src/layers/upstream/UpstreamTransport.ts"
import { makeUpstream, type UpstreamCall } from "../../../src/layers/upstream/UpstreamClient.ts"
import { jsonBody } from "../../../src/layers/upstream/UpstreamRequest.ts"
import { faults, type Reply } from "../../../sandbox/upstreams/Simulator.ts"
import { version } from "../../../src/schema/Release.ts"
import { upstreamRequests } from "../../../src/services/Metrics.ts"
import { NotExecuted, Refused, Unknown } from "../../../src/services/UpstreamFailure.ts"
import { answering, rawServer } from "./Simulated.ts"
import { until } from "../../support/Waiting.ts"

const largestAnswer = 1_000

const ask: UpstreamCall<{ readonly ok: boolean }> = {
  operation: "ask",
  method: "POST",
  path: "/thing",
  headers: { authorization: "Bearer hidden-bearer", "idempotency-key": "hidden-key" },
  body: jsonBody(`{"token":"hidden-body"}`),
  read: readJson(Schema.Struct({ ok: Schema.Boolean }))
}

const upstreamTo = (url: string, largest = largestAnswer) =>
  Effect.map(UpstreamTransport, ({ send }) =>
    makeUpstream(send, {
      dependency: "ting",
      url,
      timeoutSeconds: 2,
      maxResponseBytes: largest,
      failureOf: envelopeFailure({
        requestIdHeader: "x-request-id",
        notExecutedCodes: new Set(["server_overloaded"])
      })
    })
  )

const askOf = (url: string) => Effect.flatMap(upstreamTo(url), (upstream) => upstream(ask))
const failureOf = (url: string) => Effect.flip(askOf(url))

const envelope = (code: string) => ({ error: { code, message: "hidden-message", request_id: "req-1" } })

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

const scoped = (name: string, body: Body<UpstreamTransport | Scope.Scope | TestServices.TestServices, []>) =>
  it.scoped(name, () => Effect.provide(toEffect(body)(), UndiciTransport))

describe("a call to another system", () => {
  scoped("keeps the base's path prefix, names this program and sends no Origin", function* () {
    const server = yield* answering(() => ({ status: 200, body: { ok: true, later: 1 } }))
    deepStrictEqual(yield* askOf(`${server.url}/prefix`), { ok: true })
    const [seen] = server.seen
    assert.strictEqual(seen?.path, "/prefix/thing")
    deepStrictEqual(seen?.headers.get("user-agent"), [`music-backend/${version}`])
    deepStrictEqual(seen?.headers.get("authorization"), ["Bearer hidden-bearer"])
    assert.isUndefined(seen?.headers.get("origin"))
    assert.strictEqual(seen?.body.toString(), `{"token":"hidden-body"}`)
  })

  scoped("sends the current trace context", function* () {
    const server = yield* answering(() => ({ status: 200, body: { ok: true } }))
    yield* Effect.withSpan(askOf(server.url), "outer")
    assert.strictEqual(server.seen[0]?.headers.get("traceparent")?.length, 1)
  })

  scoped("keeps its connection after the end of an answer", function* () {
    const server = yield* rawServer((_, response) => write(response, [`{"ok":`, "true}"]))
    for (let call = 0; call < 40; call += 1) yield* askOf(server.url)
    // A second one opens while the first is still being released.
    assert.isAtMost(server.connections(), 2)
  })
})

describe("a refusal", () => {
  scoped("has the code and all fields of the envelope", function* () {
    yield* TestClock.setTime(1_790_331_330_000)
    const failure = yield* failureFor({
      status: 409,
      body: envelope("idempotency_in_progress"),
      headers: { "retry-after": "3" }
    })
    assert.deepInclude(failure, {
      _tag: "Refused",
      dependency: "ting",
      status: 409,
      code: "idempotency_in_progress",
      requestId: "req-1",
      retryAfterSeconds: 3,
      answeredAt: 1_790_331_330_000
    })
  })

  scoped("takes its request id from the header when the envelope has none", function* () {
    const failure = yield* failureFor({
      status: 403,
      body: { error: { code: "forbidden", message: "no" } },
      headers: { "x-request-id": "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a" }
    })
    assert.strictEqual(
      failure._tag === "Refused" && failure.requestId,
      "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a"
    )
  })

  for (const [header, seconds] of [
    [undefined, 1],
    ["0", 1],
    ["17", 17],
    ["nonsense", 1],
    ["99999999", 3_600],
    [new Date(1_790_331_340_000).toUTCString(), 10]
  ] as const)
    scoped(`of a 429 always has seconds: Retry-After ${header}`, function* () {
      yield* TestClock.setTime(1_790_331_330_000)
      for (const body of [envelope("rate_limited"), "<html>busy</html>"]) {
        const failure = yield* failureFor({
          status: 429,
          body,
          headers: header === undefined ? {} : { "retry-after": header }
        })
        assert.instanceOf(failure, Refused)
        assert.include(failure, { code: "rate_limited", status: 429, retryAfterSeconds: seconds })
      }
    })
})

describe("an outcome is unknown when", () => {
  const cases: ReadonlyArray<readonly [string, Reply]> = [
    ["a 4xx is HTML", { status: 403, headers: { "content-type": "text/html" }, body: "<html></html>" }],
    ["a 4xx is another system's JSON", { status: 404, body: { message: "Not Found" } }],
    ["a 4xx has a code of an unknown form", { status: 400, body: envelope("Not A Code") }],
    ["a success is HTML", { status: 200, headers: { "content-type": "text/html" }, body: `{"ok":true}` }],
    ["a success is not JSON", { status: 200, headers: json, body: "{not json" }],
    ["a success is empty", { status: 200, headers: json, body: "" }],
    ["a success has another shape", { status: 200, body: { ok: "yes" } }],
    ["a success is not UTF-8", { status: 200, headers: json, body: Buffer.from([0x22, 0xff, 0x22]) }],
    ["a success begins with a byte order mark", { status: 200, headers: json, body: `\ufeff{"ok":true}` }],
    ["a 500 has its envelope", { status: 500, body: envelope("internal_error") }],
    ["a 500 says overloaded", { status: 500, body: envelope("server_overloaded") }],
    ["a 502 has none", { status: 502, body: "bad gateway" }],
    ["a 504 has its envelope", { status: 504, body: envelope("request_timeout") }]
  ]
  for (const [name, reply] of cases)
    scoped(name, function* () {
      assert.instanceOf(yield* failureFor(reply), Unknown)
    })

  scoped("it is redirected, and the redirection is not followed", function* () {
    const elsewhere = yield* answering(() => ({ status: 200, body: { ok: true } }))
    for (const status of [301, 302, 303, 307, 308]) {
      const failure = yield* failureFor({ status, headers: { location: elsewhere.url } })
      assert.instanceOf(failure, Unknown)
    }
    assert.lengthOf(elsewhere.seen, 0)
  })

  scoped("a 503 does not say that nothing was done; its seconds are kept", function* () {
    const failure = yield* failureFor({
      status: 503,
      body: envelope("service_unavailable"),
      headers: { "retry-after": "5" }
    })
    assert.deepInclude(failure, {
      _tag: "Unknown",
      dependency: "ting",
      reason: "answered 503 service_unavailable",
      retryAfterSeconds: 5
    })
  })

  scoped("the connection is dropped before or after the answer's first bytes", function* () {
    const dropping = yield* answering(() => ({ status: 200, body: { ok: true } }))
    dropping.fail({ fault: { kind: "drop" } })
    assert.instanceOf(yield* failureOf(dropping.url), Unknown)
    const half = yield* rawServer((_, response) => {
      write(response, [`{"ok":`], false)
      setTimeout(() => response.destroy(), 10)
    })
    assert.instanceOf(yield* failureOf(half.url), Unknown)
  })

  scoped("no answer arrives in time, or its last byte does not", function* () {
    const hanging = yield* answering(() => ({ status: 200, body: { ok: true } }))
    hanging.fail({ fault: { kind: "hang" } })
    let aborted = 0
    const endless = yield* rawServer((_, response) => {
      response.on("close", () => {
        aborted += 1
      })
      write(response, [`{"ok":`], false)
    })
    for (const [url, arrived] of [
      [hanging.url, () => hanging.seen.length === 1],
      [endless.url, () => endless.connections() === 1]
    ] as const) {
      const fiber = yield* Effect.fork(failureOf(url))
      yield* until(arrived)
      yield* TestClock.adjust("1999 millis")
      assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
      yield* TestClock.adjust("1 millis")
      assert.deepInclude(yield* Fiber.join(fiber), {
        _tag: "Unknown",
        dependency: "ting",
        reason: "no answer within 2 seconds"
      })
    }
    yield* until(() => aborted === 1)
  })
})

describe("the metric of calls", () => {
  scoped("counts each call once, by its outcome", function* () {
    const outcomes = ["ok", "refused", "not_executed", "unknown", "interrupted"] as const
    const counts = Effect.forEach(outcomes, (outcome) =>
      Effect.map(
        Metric.value(upstreamRequests({ dependency: "ting", operation: "ask", outcome })),
        ({ count }) => count
      )
    )
    const before = yield* counts
    const server = yield* answering(() => ({ status: 200, body: { ok: true } }))
    yield* askOf(server.url)
    server.fail({ fault: faults.status(400, envelope("invalid_input")) })
    assert.instanceOf(yield* failureOf(server.url), Refused)
    server.fail({ fault: faults.status(503, envelope("server_overloaded")) })
    assert.instanceOf(yield* failureOf(server.url), NotExecuted)
    server.fail({ fault: { kind: "drop" } })
    assert.instanceOf(yield* failureOf(server.url), Unknown)
    server.fail({ fault: { kind: "hang" } })
    const leaving = yield* Effect.fork(askOf(server.url))
    yield* until(() => server.seen.length === 5)
    yield* Fiber.interrupt(leaving)
    deepStrictEqual(
      (yield* counts).map((count, at) => count - (before[at] ?? 0)),
      [1, 1, 1, 1, 1]
    )
  })
})

describe("an answer is bounded in bytes", () => {
  const ofLength = (bytes: number) => `{"ok":true,"x":"${"x".repeat(bytes - 18)}"}`

  scoped("when it declares its length", function* () {
    let aborted = 0
    const server = yield* rawServer((request, response) => {
      response.on("close", () => {
        if (!response.writableFinished) aborted += 1
      })
      // Declared and never sent: the client must not wait for the body.
      const length = request.url === "/large/thing" ? largestAnswer + 1 : largestAnswer
      response.writeHead(200, { ...json, "content-length": length })
      if (length === largestAnswer) response.end(ofLength(length))
      else response.flushHeaders()
    })
    deepStrictEqual(yield* askOf(server.url), { ok: true })
    assert.instanceOf(yield* failureOf(`${server.url}/large`), Unknown)
    yield* until(() => aborted === 1)
  })

  scoped("when it does not, and never ends", function* () {
    let sent = 0
    const server = yield* rawServer((_, response) => {
      response.writeHead(200, json)
      const more = () => {
        sent += 100
        if (!response.destroyed) response.write("x".repeat(100), () => setImmediate(more))
      }
      more()
    })
    assert.instanceOf(yield* failureOf(server.url), Unknown)
    assert.isAbove(sent, largestAnswer)
    const atLimit = yield* rawServer((_, response) => write(response, [ofLength(largestAnswer)]))
    deepStrictEqual(yield* askOf(atLimit.url), { ok: true })
  })
})

describe("a call had no effect when", () => {
  scoped("the port is closed", function* () {
    const failure = yield* failureOf("http://127.0.0.1:1")
    assert.deepInclude(failure, {
      _tag: "NotExecuted",
      dependency: "ting",
      reason: "no connection: ECONNREFUSED"
    })
  })

  scoped("the server does not support TLS", function* () {
    const server = yield* answering(() => ({ status: 200, body: { ok: true } }))
    assert.instanceOf(yield* failureOf(server.url.replace("http:", "https:")), NotExecuted)
    assert.lengthOf(server.seen, 0)
  })

  scoped("the contract's code guarantees it", function* () {
    const failure = yield* failureFor({
      status: 503,
      body: envelope("server_overloaded"),
      headers: { "retry-after": "5" }
    })
    assert.deepInclude(failure, {
      _tag: "NotExecuted",
      dependency: "ting",
      reason: "answered 503 server_overloaded",
      retryAfterSeconds: 5
    })
  })
})

describe("secrets", () => {
  scoped("stay out of spans, logs and failures", function* () {
    const spans: Array<string> = []
    const tracer = Tracer.make({
      span: (name, parent, context, links, startTime, kind) => {
        const attributes = new Map<string, unknown>()
        return {
          _tag: "Span",
          spanId: "0123456789abcdef",
          traceId: "0123456789abcdef0123456789abcdef",
          sampled: true,
          name,
          parent,
          context,
          links: [...links],
          kind,
          attributes,
          status: { _tag: "Started", startTime },
          attribute: (key, value) => void attributes.set(key, value),
          event: (...event) => void spans.push(String(event)),
          addLinks: () => {},
          // Exporters read the failure of an exit, never the value.
          end: (_, exit) =>
            void spans.push(
              JSON.stringify([...attributes]),
              Exit.isFailure(exit) ? Cause.pretty(exit.cause, { renderErrorCause: true }) : "fine"
            )
        }
      },
      context: (run) => run()
    })
    const lines: Array<string> = []
    const logger = Logger.make(({ cause, message }) => {
      lines.push(JSON.stringify([message, cause]))
    })
    const server = yield* answering(() => ({ status: 200, body: { not: "hidden-answer" } }))
    server.fail({ fault: faults.status(400, envelope("invalid_grant")) })
    server.fail({ fault: { kind: "drop" } })
    const upstream = yield* upstreamTo(server.url)
    const secretive = {
      ...ask,
      headers: Object.fromEntries(
        [
          "authorization",
          "x-testing-environment-key",
          "x-testing-application",
          "iam_test_app_secret",
          "x-obo-signature",
          "idempotency-key"
        ].map((name, index) => [name, `hidden-${index}`])
      )
    }
    const failures = yield* Effect.forEach([1, 2, 3], () => Effect.flip(upstream(secretive))).pipe(
      Effect.withTracer(tracer),
      Effect.withTracerEnabled(true),
      Logger.withMinimumLogLevel(LogLevel.All),
      Effect.provide(Logger.replace(Logger.defaultLogger, logger))
    )
    deepStrictEqual(
      failures.map(({ _tag }) => _tag),
      ["Refused", "Unknown", "Unknown"]
    )
    // Attributes and end of each, and the log line, which is an event of its span.
    assert.lengthOf(spans, 9)
    assert.isAtLeast(lines.length, 3)
    assert.notInclude(JSON.stringify([failures, spans, lines]) + failures.map(String).join(), "hidden")
    assert.lengthOf(server.seen, 3)
  })
})
