import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { toEnvelope } from "../../src/schema/Envelope.ts"
import { Failure } from "../../src/schema/Failure.ts"
import { securityHeaders } from "../../src/schema/SecurityHeaders.ts"
import { parse, scrape, sum } from "./Exposition.ts"
import { calls, keyed, startObserved } from "./Observed.ts"
import { headersOf, RawConnection } from "../world/RawHttp.ts"

const ask = (url: string, init: RequestInit = {}) =>
  Effect.promise(async () => {
    const { headers, status, text } = await fetch(url, init).then(async (answer) => ({
      status: answer.status,
      headers: Object.fromEntries(answer.headers),
      text: await answer.text()
    }))
    return { status, headers, text }
  })

const ownId = expect.stringMatching(/^req_[0-9a-f]{32}$/)

describe("The admin server", () => {
  it.scopedLive("answers GET and HEAD of two paths only, with a well-formed request id", function* () {
    const { admin, base, log } = yield* startObserved()
    const metrics = yield* ask(`${admin}/metrics?name=x`)
    expect(metrics.status).toBe(200)
    expect(metrics.text).toContain("# TYPE music_store_up gauge")
    const contentType = "text/plain; version=0.0.4; charset=utf-8"
    expect(metrics.headers).toMatchObject({ ...securityHeaders, "content-type": contentType })
    expect((yield* ask(`${admin}/metrics`, { method: "HEAD" })).text).toBe("")
    expect(JSON.parse((yield* ask(`${admin}/healthz`)).text)).toMatchObject({ status: "ok" })
    for (const [path, method, failure] of [
      ["/metrics", "POST", new Failure("method_not_allowed", {})],
      ["/healthz", "DELETE", new Failure("method_not_allowed", {})],
      ["/", "GET", new Failure("not_found", {})],
      ["/metrics/", "GET", new Failure("not_found", {})],
      ["/api/v1/version", "GET", new Failure("not_found", {})],
      ["/nowhere", "PUT", new Failure("not_found", {})]
    ] as const) {
      const { headers, status, text } = yield* ask(`${admin}${path}`, { method })
      expect([path, JSON.parse(text)]).toEqual([path, toEnvelope(failure)])
      expect(status).toBe(failure._tag === "not_found" ? 404 : 405)
      expect(headers).toMatchObject({
        ...securityHeaders,
        "content-type": "application/json",
        "cache-control": "no-store",
        "x-request-id": ownId
      })
      expect(headers.allow).toBe(status === 405 ? "GET, HEAD" : undefined)
    }
    for (const [given, kept] of [
      ["scrape-0001", "scrape-0001"],
      ["short", ownId],
      [`oat_${"a".repeat(43)}`, ownId]
    ]) {
      const { headers } = yield* ask(`${admin}/nowhere`, { headers: { "x-request-id": given } })
      expect(headers["x-request-id"]).toEqual(kept)
    }
    expect((yield* ask(`${base}/metrics`)).status).toBe(404)
    expect(log.filter((line) => line.includes("not authenticated"))).toEqual([])
  })

  it.scopedLive("refuses malformed HTTP with the envelope, and ends the connection", function* () {
    const { admin } = yield* startObserved()
    for (const [text, status] of [
      ["garbage\r\n\r\n", 400],
      ["GET /healthz HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400],
      [`GET /healthz HTTP/1.1\r\nX: ${"x".repeat(17_000)}\r\n\r\n`, 431]
    ] as const) {
      const { answers, fault } = yield* Effect.promise(async () => {
        const connection = await RawConnection.open(Number(new URL(admin).port))
        return connection.exchange({ pieces: [Buffer.from(text)], methods: ["GET"], last: true })
      })
      const [answer = { status: 0, headers: [], body: Buffer.alloc(0) }] = answers
      expect([answers.length, fault, answer.status]).toEqual([1, undefined, status])
      expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { code: "invalid_input" } })
      const expected = {
        ...securityHeaders,
        "cache-control": "no-store",
        connection: "close",
        "x-request-id": ownId
      }
      for (const [name, value] of Object.entries(expected)) expect(headersOf(answer, name)).toEqual([value])
    }
  })

  it.scopedLive("answers a defect with 500 and the envelope, and logs it under the request id", function* () {
    const { admin, log } = yield* startObserved({
      change: (store) => ({ ...store, backups: { ...store.backups, last: Effect.dieMessage("a defect") } })
    })
    const { headers, status, text } = yield* ask(`${admin}/metrics`)
    expect([status, JSON.parse(text)]).toEqual([500, toEnvelope(new Failure("internal", {}))])
    const lines = log.filter((line) => line.includes("a defect"))
    expect(lines.join()).toContain(headers["x-request-id"])
  })

  it.scopedLive("does not start the server when its address is in use, and names the address", function* () {
    const taken = new URL((yield* startObserved()).admin)
    const adminBind = Option.some({ host: taken.hostname, port: Number(taken.port) })
    const failure = yield* Effect.flip(startObserved({ settings: { adminBind } }))
    expect(failure).toMatchObject({ _tag: "AdminListenFailed" })
    expect(failure.reason).toContain(`cannot listen on ${taken.host}`)
  })

  it.scopedLive("answers while the API drains, and closes after it", function* () {
    const scope = yield* Scope.make()
    const reached = yield* Effect.makeLatch(false)
    const release = yield* Effect.makeLatch(false)
    const server = yield* startObserved({
      change: (store) => ({
        ...store,
        reports: {
          ...store.reports,
          admit: (report, deliver) =>
            Effect.zipRight(
              reached.open,
              Effect.zipRight(release.await, store.reports.admit(report, deliver))
            )
        }
      })
    }).pipe(Scope.extend(scope))
    const { get, post } = calls(server)
    const last = yield* Effect.fork(post("/api/v1/reports", { message: "The player stops." }, keyed()))
    yield* reached.await
    const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
    // 503 at first, then refused connections.
    yield* Effect.repeat(Effect.option(Effect.sandbox(get("/readyz"))), {
      until: Option.match({ onNone: () => true, onSome: ({ status }) => status !== 200 })
    })
    const samples = parse(yield* scrape(server.admin))
    expect(sum(samples, "music_check", { check: "serving", state: "failed" })).toBe(1)
    expect(sum(samples, "music_http_requests_in_flight")).toBe(1)
    yield* release.open
    expect((yield* last).status).toBe(200)
    yield* closing
    const after = yield* Effect.exit(Effect.tryPromise(() => fetch(`${server.admin}/healthz`)))
    expect(Exit.isFailure(after)).toBe(true)
  })
})
