import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { parse, scrape, sum } from "./Exposition.ts"
import { calls, keyed, startObserved } from "./Observed.ts"

const ask = (url: string, init: RequestInit = {}) =>
  Effect.promise(async () => {
    const { headers, status, text } = await fetch(url, init).then(async (answer) => ({
      status: answer.status,
      headers: Object.fromEntries(answer.headers),
      text: await answer.text()
    }))
    return { status, headers, text }
  })

describe("The admin server", () => {
  it.scopedLive("answers GET and HEAD of two paths only", function* () {
    const { admin, base, log } = yield* startObserved()
    const metrics = yield* ask(`${admin}/metrics?name=x`)
    expect(metrics.status).toBe(200)
    expect(metrics.text).toMatch(
      /^# HELP music_store_up .+\n# TYPE music_store_up gauge\nmusic_store_up\{\} 1$/m
    )
    const contentType = "text/plain; version=0.0.4; charset=utf-8"
    expect(metrics.headers["content-type"]).toBe(contentType)
    expect((yield* ask(`${admin}/metrics`, { method: "HEAD" })).text).toBe("")
    expect(JSON.parse((yield* ask(`${admin}/healthz`)).text)).toMatchObject({ status: "ok" })
    for (const [method, path] of [
      ["POST", "/metrics"],
      ["GET", "/"],
      ["GET", "/api/v1/version"]
    ] as const)
      expect([path, (yield* ask(`${admin}${path}`, { method })).status]).toEqual([path, 404])
    expect((yield* ask(`${base}/metrics`)).status).toBe(404)
    expect(log.filter((line) => line.includes("not authenticated"))).toEqual([])
  })

  it.scopedLive("answers a defect with 500, and logs it", function* () {
    const { admin, log } = yield* startObserved({
      change: (store) => ({ ...store, backups: { ...store.backups, last: Effect.dieMessage("a defect") } })
    })
    expect((yield* ask(`${admin}/metrics`)).status).toBe(500)
    expect(log.filter((line) => line.includes("a defect"))).toHaveLength(1)
  })

  it.scopedLive("does not start the server when its address is in use, and names the address", function* () {
    const taken = new URL((yield* startObserved()).admin)
    const adminBind = Option.some({ host: taken.hostname, port: Number(taken.port) })
    const failure = yield* Effect.flip(startObserved({ settings: { adminBind } }))
    expect(failure).toMatchObject({ _tag: "AdminListenFailed" })
    expect(failure.reason).toContain(`cannot listen on ${taken.host}`)
    expect(failure.reason).toMatch(
      /EADDRINUSE.*\. Stop the program .* set MUSIC_ADMIN_BIND to another address\.$/
    )
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
