import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { Effect, Exit, Option } from "effect"
import { call } from "../../sandbox/HttpExchange.ts"
import { StoreUnavailable } from "../../src/services/Store.ts"
import { parse, scrape, sum } from "./Exposition.ts"
import { keyed, startObserved } from "./Observed.ts"

describe("The admin server", () => {
  it.scopedLive("answers GET and HEAD of two paths only", function* () {
    const { admin, base } = yield* startObserved()
    const metrics = yield* call(`${admin}/metrics?name=x`)
    expect(metrics.status).toBe(200)
    expect(metrics.text).toMatch(
      /^# HELP music_store_up .+\n# TYPE music_store_up gauge\nmusic_store_up\{\} 1$/m
    )
    expect(metrics.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8")
    expect((yield* call(`${admin}/metrics`, { method: "HEAD" })).text).toBe("")
    expect(JSON.parse((yield* call(`${admin}/healthz`)).text)).toMatchObject({ status: "ok" })
    for (const [method, path] of [
      ["POST", "/metrics"],
      ["GET", "/"],
      ["GET", "/api/v1/version"]
    ] as const)
      expect([path, (yield* call(`${admin}${path}`, { method })).status]).toEqual([path, 404])
    expect((yield* call(`${base}/metrics`)).status).toBe(404)
    // Another server at its address does not start, and says why.
    const { hostname, port } = new URL(admin)
    const adminBind = Option.some({ host: hostname, port: Number(port) })
    const failure = yield* Effect.flip(startObserved({ settings: { adminBind } }))
    const reason = expect.stringMatching(/^cannot listen on .*EADDRINUSE.* set MUSIC_ADMIN_BIND to another/)
    expect(failure).toMatchObject({ _tag: "AdminListenFailed", reason })
  })

  it.scopedLive("answers while the API drains, and closes after it", function* () {
    const reached = yield* Effect.makeLatch(false)
    const release = yield* Effect.makeLatch(false)
    const { admin, end, get, post } = yield* startObserved({
      change: ({ reports }) => {
        const admit: typeof reports.admit = (report, deliver) =>
          reached.open.pipe(Effect.zipRight(release.await), Effect.zipRight(reports.admit(report, deliver)))
        return { reports: { ...reports, admit } }
      }
    })
    const last = yield* Effect.fork(post("/api/v1/reports", { message: "The player stops." }, keyed()))
    yield* reached.await
    const closing = yield* Effect.fork(end)
    // 503 at first, then refused connections.
    yield* Effect.repeat(Effect.option(Effect.sandbox(get("/readyz"))), {
      until: Option.match({ onNone: () => true, onSome: ({ status }) => status !== 200 })
    })
    const samples = parse(yield* scrape(admin))
    expect(sum(samples, "music_check", { check: "serving", state: "failed" })).toBe(1)
    expect(sum(samples, "music_http_requests_in_flight")).toBe(1)
    yield* release.open
    expect((yield* last).status).toBe(200)
    yield* closing
    const after = yield* Effect.exit(Effect.tryPromise(() => fetch(`${admin}/healthz`)))
    expect(Exit.isFailure(after)).toBe(true)
  })
})

const pool = () => Option.some({ limit: 10, used: 10, waiting: 7 })

it.scopedLive.each([
  ["fails", Effect.fail(new StoreUnavailable({ kind: "full" })), "failed"],
  ["hangs", Effect.uninterruptible(Effect.never), "degraded"]
] as ReadonlyArray<readonly [string, Effect.Effect<never, StoreUnavailable>, string]>)(
  "A scrape of a store that %s takes 3 s, has the pool, and omits what is unknown",
  function* ([, away, state]) {
    const { admin } = yield* startObserved({
      change: ({ deliveries }) => ({
        check: away,
        usage: { size: away, pool },
        deliveries: { ...deliveries, counts: away }
      })
    })
    const begun = performance.now()
    const found = parse(yield* scrape(admin))
    expect(performance.now() - begun).toBeLessThan(20_000)
    expect(sum(found, "music_store_up")).toBe(0)
    expect(sum(found, "music_check", { check: "database", state })).toBe(1)
    expect(sum(found, "music_store_pool_connections")).toBe(10)
    expect(sum(found, "music_store_pool_waiting")).toBe(7)
    const names = found.map(({ name }) => name)
    expect(names.filter((name) => ["music_deliveries", "music_store_size_bytes"].includes(name))).toEqual([])
  }
)

it.scopedLive("A scrape has the ends of pauses, the oldest delivery's age, and 0 for nothing", function* () {
  const pause = { name: "tracker", reason: "pace", until: 90_000, lastFailure: Option.none() } as const
  const { admin } = yield* startObserved({
    change: (store) => ({
      deliveries: {
        ...store.deliveries,
        counts: Effect.succeed([1, 2].map((count) => ({ kind: "report", state: "leased", count }))),
        oldestOpen: Effect.sync(() => Option.some(Date.now() - 60_000))
      },
      destinations: { ...store.destinations, pauses: () => Effect.succeed([pause]) }
    })
  })
  const found = parse(yield* scrape(admin))
  const [ends, deliveries] = ["music_destination_paused_until_timestamp_seconds", "music_deliveries"]
  for (const [name, labels, value] of [
    [ends, { destination: "tracker", reason: "pace" }, 90],
    [ends, { destination: "tables", reason: "failure" }, 0],
    [deliveries, { kind: "report", state: "leased" }, 3],
    [deliveries, { kind: "sweep", state: "failed" }, 0]
  ] as const)
    expect(found).toContainEqual({ name, labels, value })
  expect(sum(found, "music_delivery_oldest_seconds")).toBeCloseTo(60, -1)
})
