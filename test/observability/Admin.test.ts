import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { parts } from "../../src/Backend.ts"
import { adminServer } from "../../src/layers/observability/AdminServer.ts"
import { toEnvelope } from "../../src/schema/Envelope.ts"
import { Internal, MethodNotAllowed, NotFound } from "../../src/schema/Failure.ts"
import { securityHeaders } from "../../src/schema/SecurityHeaders.ts"
import { Store, type StoreService } from "../../src/services/Store.ts"
import { calls, keyed } from "../http/SandboxCalls.ts"
import { keptConsole } from "../support/Sandbox.ts"
import { parse, scrape, sum } from "./Exposition.ts"
import { anyPort, startObserved } from "./Observed.ts"
import { parseRaw, raw } from "../http/support.ts"
import { rawServer } from "../layers/upstream/Simulated.ts"

const ask = (url: string, method = "GET") =>
  Effect.promise(async () => {
    const answer = await fetch(url, { method })
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  })

/** The real store, except that storing a report waits for `wait`. */
const delayedReports = (wait: Effect.Effect<void>): typeof parts.store =>
  Layer.map(parts.store, (context) => {
    const store = Context.get(context, Store)
    const admit: StoreService["reports"]["admit"] = (report, deliver) =>
      Effect.zipRight(wait, store.reports.admit(report, deliver))
    return Context.add(context, Store, { ...store, reports: { ...store.reports, admit } })
  })

/** An admin server whose log is kept. */
const quietServer = (metrics: Effect.Effect<string>) =>
  adminServer({ host: "127.0.0.1", port: 0 }, metrics).pipe(Effect.withConsole(keptConsole().console))

describe("The admin server", () => {
  it.scopedLive("answers GET and HEAD of two paths only, with a well-formed request id", function* () {
    const { admin, base, log } = yield* startObserved({ settings: { adminBind: anyPort } })
    const metrics = yield* ask(`${admin}/metrics?name=x`)
    expect([metrics.status, metrics.headers.get("content-type")]).toEqual([
      200,
      "text/plain; version=0.0.4; charset=utf-8"
    ])
    expect(metrics.text).toContain("# TYPE music_store_up gauge")
    expect(Object.fromEntries(metrics.headers)).toMatchObject(securityHeaders)
    expect((yield* ask(`${admin}/metrics`, "HEAD")).text).toBe("")
    expect(JSON.parse((yield* ask(`${admin}/healthz`)).text)).toMatchObject({ status: "ok" })
    const others = [
      ["/metrics", "POST"],
      ["/healthz", "DELETE"],
      ["/", "GET"],
      ["/metrics/", "GET"],
      ["/api/v1/version", "GET"],
      ["/nowhere", "PUT"]
    ] as const
    const answers = yield* Effect.forEach(others, ([path, method]) => ask(`${admin}${path}`, method))
    expect(answers.map(({ status }) => status)).toEqual([405, 405, 404, 404, 404, 404])
    for (const { headers, status, text } of answers) {
      expect(JSON.parse(text)).toEqual(
        toEnvelope(status === 405 ? new MethodNotAllowed({}) : new NotFound({}))
      )
      expect(headers.get("content-type")).toBe("application/json")
      expect(headers.get("cache-control")).toBe("no-store")
      expect(Object.fromEntries(headers)).toMatchObject(securityHeaders)
      expect(headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/)
      expect(headers.get("allow")).toBe(status === 405 ? "GET, HEAD" : null)
    }
    expect(metrics.headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/)
    for (const [given, kept] of [
      ["scrape-0001", "scrape-0001"],
      ["short", expect.stringMatching(/^req_[0-9a-f]{32}$/)],
      [`oat_${"a".repeat(43)}`, expect.stringMatching(/^req_[0-9a-f]{32}$/)]
    ] as const) {
      const answer = yield* Effect.promise(() =>
        fetch(`${admin}/nowhere`, { headers: { "x-request-id": given } })
      )
      expect(answer.headers.get("x-request-id")).toEqual(kept)
    }
    expect((yield* ask(`${base}/metrics`)).status).toBe(404)
    expect(log.filter((line) => line.includes("not authenticated"))).toEqual([])
  })

  it.scopedLive.each<[string, string, number]>([
    ["no HTTP", "garbage\r\n\r\n", 400],
    ["two framings", "GET /healthz HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400],
    ["oversized headers", `GET /healthz HTTP/1.1\r\nX: ${"x".repeat(17_000)}\r\n\r\n`, 431]
  ])("refuses %s with the envelope, and ends the connection", function* ([, text, status]) {
    const url = yield* quietServer(Effect.succeed(""))
    const answer = parseRaw(yield* raw({ port: Number(new URL(url).port) }, text))
    expect([answer.status, JSON.parse(answer.text)]).toMatchObject([
      status,
      { error: { code: "invalid_input" } }
    ])
    expect(answer.headers).toMatchObject({
      ...securityHeaders,
      "cache-control": "no-store",
      connection: "close"
    })
    expect(answer.headers["x-request-id"]).toMatch(/^req_[0-9a-f]{32}$/)
  })

  it.scopedLive("answers a defect with 500 and the envelope, and logs it under the request id", function* () {
    const { console, lines } = keptConsole()
    const url = yield* adminServer({ host: "127.0.0.1", port: 0 }, Effect.dieMessage("a defect")).pipe(
      Effect.withConsole(console)
    )
    const { headers, status, text } = yield* ask(`${url}/metrics`)
    expect([status, JSON.parse(text)]).toEqual([500, toEnvelope(new Internal({}))])
    const log = lines.join("\n")
    expect(log).toContain("a defect")
    expect(log).toContain(headers.get("x-request-id") ?? "none")
  })

  it.scopedLive("does not start the server when its address is in use, and names the address", function* () {
    const port = Number(new URL((yield* rawServer(() => {})).url).port)
    const failure = yield* startObserved({
      settings: { adminBind: Option.some({ host: "127.0.0.1", port }) }
    }).pipe(Effect.flip)
    expect(failure).toMatchObject({ _tag: "AdminListenFailed" })
    expect(failure.reason).toContain(`cannot listen on 127.0.0.1:${port}`)
  })

  it.scopedLive("answers while the API drains, and closes after it", function* () {
    const scope = yield* Scope.make()
    const reached = yield* Effect.makeLatch(false)
    const release = yield* Effect.makeLatch(false)
    const server = yield* Scope.extend(
      startObserved({
        settings: { adminBind: anyPort },
        parts: { store: delayedReports(Effect.zipRight(reached.open, release.await)) }
      }),
      scope
    )
    const { get, post } = calls(server)
    const last = yield* Effect.fork(post("/api/v1/reports", { message: "The player stops." }, keyed()))
    yield* reached.await
    const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
    // 503 at first, then refused connections.
    yield* Effect.repeat(Effect.option(Effect.sandbox(get("/readyz"))), {
      until: Option.match({ onNone: () => true, onSome: ({ status }) => status !== 200 })
    })
    const samples = parse(yield* scrape(server.admin))
    expect([
      sum(samples, "music_check", { check: "serving", state: "failed" }),
      sum(samples, "music_http_requests_in_flight")
    ]).toEqual([1, 1])
    yield* release.open
    expect((yield* last).status).toBe(200)
    yield* closing
    expect(
      Exit.isFailure(yield* Effect.exit(Effect.tryPromise(() => fetch(`${server.admin}/healthz`))))
    ).toBe(true)
  })
})
