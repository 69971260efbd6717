import { createServer } from "node:http"
import { describe, expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { parts } from "../../src/Backend.ts"
import { adminServer } from "../../src/layers/observability/AdminServer.ts"
import { Internal, MethodNotAllowed, NotFound, toEnvelope } from "../../src/schema/Failure.ts"
import { Store, type StoreService, StoreUnavailable } from "../../src/services/Store.ts"
import { calls, keyed } from "../conformance/Calls.ts"
import { keptConsole } from "../support/Sandbox.ts"
import { parse, scrape, sum } from "./Exposition.ts"
import { anyPort, startObserved } from "./Observed.ts"

const ask = (url: string, method = "GET") =>
  Effect.promise(async () => {
    const answer = await fetch(url, { method })
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  })

/** The real store, whose counts are not to be had. */
const uncounted: typeof parts.store = Layer.map(parts.store, (context) => {
  const store = Context.get(context, Store)
  const away = Effect.fail(new StoreUnavailable({ problem: { kind: "unreachable" } }))
  return Context.add(context, Store, { ...store, check: away, spool: { ...store.spool, counts: away } })
})

/** The real store, in which a report waits. */
const holding = (wait: Effect.Effect<void>): typeof parts.store =>
  Layer.map(parts.store, (context) => {
    const store = Context.get(context, Store)
    const admit: StoreService["reports"]["admit"] = (report, deliver) =>
      Effect.zipRight(wait, store.reports.admit(report, deliver))
    return Context.add(context, Store, { ...store, reports: { ...store.reports, admit } })
  })

describe("The operators' server", () => {
  it.scopedLive("answers GET and HEAD of two paths, and nothing else", () =>
    Effect.gen(function* () {
      const { admin, base, log } = yield* startObserved({ settings: { adminBind: anyPort } })
      const metrics = yield* ask(`${admin}/metrics?name=x`)
      expect([metrics.status, metrics.headers.get("content-type")]).toEqual([
        200,
        "text/plain; version=0.0.4; charset=utf-8"
      ])
      expect(metrics.text).toContain("# TYPE music_store_up gauge")
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
        expect(headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/)
        expect(headers.get("allow")).toBe(status === 405 ? "GET, HEAD" : null)
      }
      expect(metrics.headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/)
      expect((yield* ask(`${base}/metrics`)).status).toBe(404)
      expect(log.filter((line) => line.includes("not authenticated"))).toEqual([])
    })
  )

  it.scopedLive("keeps a request id that is well-formed, and no credential in its place", () =>
    Effect.gen(function* () {
      const { admin } = yield* startObserved({ settings: { adminBind: anyPort } })
      const idFor = (given: string) =>
        Effect.promise(async () => {
          const answer = await fetch(`${admin}/nowhere`, { headers: { "x-request-id": given } })
          return answer.headers.get("x-request-id")
        })
      expect(yield* idFor("scrape-0001")).toBe("scrape-0001")
      expect(yield* idFor("short")).toMatch(/^req_[0-9a-f]{32}$/)
      expect(yield* idFor(`oat_${"a".repeat(43)}`)).toMatch(/^req_[0-9a-f]{32}$/)
    })
  )

  it.scopedLive("says in the envelope that metrics could not be collected, and why in its log", () =>
    Effect.gen(function* () {
      const { console, lines } = keptConsole()
      const scrapes = [Effect.fail({ reason: "the reader is shut down" }), Effect.dieMessage("a defect")]
      const [failed, broken] = yield* Effect.forEach(scrapes, (scrape) =>
        Effect.flatMap(adminServer({ host: "127.0.0.1", port: 0 }, scrape), (url) => ask(`${url}/metrics`))
      ).pipe(Effect.withConsole(console))
      expect([failed?.status, JSON.parse(failed?.text ?? "")]).toMatchObject([
        503,
        {
          error: {
            code: "dependency_unavailable",
            message: "The metrics could not be collected.",
            retryable: true
          }
        }
      ])
      expect([broken?.status, JSON.parse(broken?.text ?? "")]).toEqual([500, toEnvelope(new Internal({}))])
      const log = lines.join("\n")
      for (const part of ["the reader is shut down", "a defect"]) expect(log).toContain(part)
      for (const answer of [failed, broken]) {
        const id = answer?.headers.get("x-request-id") ?? "none"
        expect(id).toMatch(/^req_/)
        expect(log).toContain(id)
      }
    })
  )

  it.scopedLive("says so once when its address is not a loopback one", () =>
    Effect.gen(function* () {
      const { log } = yield* startObserved({
        settings: { adminBind: Option.some({ host: "0.0.0.0", port: 0 }) }
      })
      expect(log.filter((line) => line.includes("not authenticated"))).toHaveLength(1)
    })
  )

  it.scopedLive("whose address is taken keeps the whole server from starting, and says which", () =>
    Effect.gen(function* () {
      const taken = yield* Effect.acquireRelease(
        Effect.async<{ readonly port: number; readonly close: () => void }>((resume) => {
          const server = createServer().listen(0, "127.0.0.1", () => {
            const address = server.address()
            const port = typeof address === "object" && address !== null ? address.port : 0
            resume(Effect.succeed({ port, close: () => server.close() }))
          })
        }),
        ({ close }) => Effect.sync(close)
      )
      const failure = yield* startObserved({
        settings: { adminBind: Option.some({ host: "127.0.0.1", port: taken.port }) }
      }).pipe(Effect.flip)
      expect(failure).toMatchObject({ _tag: "AdminListenFailed" })
      expect(failure.reason).toContain(`cannot listen on 127.0.0.1:${taken.port}`)
    })
  )

  it.scopedLive("tells that the store is away instead of what it last said, at once", () =>
    Effect.gen(function* () {
      const { admin } = yield* startObserved({
        settings: { adminBind: anyPort },
        parts: { store: uncounted }
      })
      const samples = parse(yield* scrape(admin))
      expect(sum(samples, "music_store_up")).toBe(0)
      expect(sum(samples, "music_check", { check: "database", state: "failed" })).toBe(1)
      expect(samples.filter(({ name }) => /^music_(?:spool_(?!limit)|deliver)/.test(name))).toEqual([])
    })
  )

  it.scopedLive("still answers while the API drains, and ends after it", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const reached = yield* Effect.makeLatch(false)
      const release = yield* Effect.makeLatch(false)
      const server = yield* Scope.extend(
        startObserved({
          settings: { adminBind: anyPort },
          parts: { store: holding(Effect.zipRight(reached.open, release.await)) }
        }),
        scope
      )
      const { get, post } = calls(server)
      const last = yield* Effect.fork(post("/api/v1/reports", { message: "The player stops." }, keyed()))
      yield* reached.await
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      // Refused with 503 at first, and then not taken any more.
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
  )
})
