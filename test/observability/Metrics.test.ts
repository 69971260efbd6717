import { randomUUID } from "node:crypto"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { shares } from "../../src/layers/iam/budget/Shares.ts"
import { expectJson, textOf } from "../../sandbox/HttpExchange.ts"
import { mintSlt, type SimulatedUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { failureTable } from "../../src/schema/Failure.ts"
import { version } from "../../src/schema/Release.ts"
import { metrics } from "../../src/services/Metrics.ts"
import { calls, keyed } from "../http/SandboxCalls.ts"
import { parse, type Sample, scrape, since, sum } from "./Exposition.ts"
import { anyPort, startObserved } from "./Observed.ts"
import { awaited, until } from "../support/Waiting.ts"

/** The number of received calls, counted by the simulated upstreams. */
const arrived = ({ iam, tables, ting, tracker }: SimulatedUpstreams) => {
  const seen = (
    { seen }: { readonly seen: ReadonlyArray<{ readonly method: string; readonly path: string }> },
    pattern: RegExp
  ) => seen.filter(({ method, path }) => pattern.test(`${method} ${path}`)).length
  return {
    tokens: seen(iam, /^POST \/api\/v1\/app-auth\/tokens$/),
    introspect: seen(iam, /^POST \/api\/v1\/oauth\/introspect$/),
    prove: seen(iam, /^POST \/api\/v1\/obo-access\/exchanges$/),
    catalogue: seen(iam, /^GET \/api\/v1\/obo-access\/applications\/ting\/endpoints$/),
    revoke: seen(iam, /^POST \/api\/v1\/oauth\/revoke$/),
    register: seen(ting, /^POST \/v1\/subscriptions$/),
    send: seen(ting, /^POST \/v1\/tings$/),
    write: seen(tables, /^POST \/api\/ingest$/),
    file: seen(tracker, /^POST \/repos\/[^/]+\/[^/]+\/issues$/)
  }
}

const counted = (samples: ReadonlyArray<Sample>): ReturnType<typeof arrived> => {
  const of = (dependency: string, operation: string) =>
    sum(samples, "music_upstream_requests_total", { dependency, operation })
  return {
    tokens: of("iam", "exchange") + of("iam", "refresh"),
    introspect: of("iam", "introspect"),
    prove: of("iam", "prove"),
    catalogue: of("iam", "catalogue"),
    revoke: of("iam", "revoke"),
    register: of("ting", "register"),
    send: of("ting", "send"),
    write: of("tables", "write"),
    file: of("tracker", "file")
  }
}

/**
 * Every request by route, method and status, as `GET /healthz 200`. Without those that were not parsed: the counters belong
 * to the process, where a server of another test file may answer 408 to a connection that never sent anything.
 */
const answersByRoute = (samples: ReadonlyArray<Sample>): Readonly<Record<string, number>> =>
  Object.fromEntries(
    samples
      .filter(({ labels, name }) => name === "music_http_requests_total" && labels.route !== "unparsed")
      .map(({ labels, value }) => [`${labels.method} ${labels.route} ${labels.status}`, value])
  )

describe("Metrics", () => {
  it.scopedLive("contain from the start every series whose increase an alert uses", function* () {
    const { admin } = yield* startObserved({ settings: { adminBind: anyPort } })
    const samples = parse(yield* scrape(admin))
    const labelsOf = (name: string, label: string) =>
      samples.filter((sample) => sample.name === name).map(({ labels }) => labels[label])
    expect(labelsOf("music_failures_total", "code").sort()).toEqual(Object.keys(failureTable).sort())
    expect(labelsOf("music_own_events_dropped_total", "reason").sort()).toEqual([
      "buffer",
      "database",
      "spool"
    ])
    expect(labelsOf("music_store_writes_failed_total", "")).toHaveLength(1)
    expect(labelsOf("music_iam_calls_refused_total", "priority").sort()).toEqual([...shares].sort())
    const lost = samples.filter(
      ({ labels, name }) => name === "music_spool_events_total" && labels.result === "refused"
    )
    expect(lost.map(({ labels, value }) => [labels.table, value])).toEqual(
      expect.arrayContaining([
        ["musicbackend", 0],
        ["musicclidaemon", 0]
      ])
    )
  })

  it.scopedLive("agree with a scripted load", function* () {
    const server = yield* startObserved({ settings: { adminBind: anyPort } })
    const { world } = server
    const { get, post } = calls(server)
    const before = parse(yield* scrape(server.admin))
    const scrapeSince = Effect.map(scrape(server.admin), (text) => since(before, parse(text)))
    const login = { slt: mintSlt(world) }
    const loginKey = keyed()
    const session = yield* expectJson(yield* post("/api/v1/auth/login", login, loginKey), 200)
    yield* expectJson(yield* post("/api/v1/auth/login", login, loginKey), 200)
    const bearer = (token: string) => ({ authorization: `Bearer ${token}`, "x-org-id": "acme" })
    const signed = bearer(yield* textOf(session, "access_token"))

    for (let call = 0; call < 5; call += 1) yield* expectJson(yield* get("/api/v1/auth/me", signed), 200)
    // Four at once while IAM is slow: one calls IAM, three share its answer.
    world.iam.fail({ times: 1, fault: { kind: "delay", milliseconds: 300 } })
    yield* Effect.all(
      Array.from({ length: 4 }, () => get("/api/v1/auth/me", signed)),
      { concurrency: "unbounded" }
    )
    // A call whose answer is lost is repeated once.
    world.iam.fail({ times: 1, fault: { kind: "drop" } })
    yield* expectJson(yield* get("/api/v1/auth/me", signed), 200)
    yield* get("/api/v1/auth/me", bearer(`oat_${"x".repeat(43)}`))
    yield* get("/api/v1/auth/me")

    const ting = { type: "music.trigger.fired", key: "si:deejay/1", data: {} }
    yield* expectJson(yield* post("/api/v1/tings", ting, signed), 200)
    yield* expectJson(yield* post("/api/v1/tings", ting, signed), 200)

    const report = { message: "The player stops after a seek." }
    const reportKey = keyed()
    yield* expectJson(yield* post("/api/v1/reports", report, reportKey), 200)
    yield* expectJson(yield* post("/api/v1/reports", report, reportKey), 200)
    yield* post("/api/v1/reports", { message: "Something else entirely." }, reportKey)

    const event = { id: randomUUID() }
    const telemetry = { table: "musicclidaemon", events: [event, {}, {}] }
    yield* post("/api/v1/telemetry", telemetry)

    const refresh = { refresh_token: yield* textOf(session, "refresh_token") }
    const refreshKey = keyed()
    const refreshed = yield* expectJson(yield* post("/api/v1/auth/refresh", refresh, refreshKey), 200)
    yield* expectJson(yield* post("/api/v1/auth/refresh", refresh, refreshKey), 200)
    yield* post("/api/v1/auth/logout", { token: yield* textOf(refreshed, "access_token") }, keyed())

    for (let call = 0; call < 3; call += 1) yield* get("/nowhere")
    yield* post("/healthz", {})

    // The report is filed and the events are written in the background.
    yield* until(
      () => world.tracker.seen.some(({ method }) => method === "POST") && world.tables.seen.length > 0
    )
    // A scrape shares its read of the store for 2 s, so the first one comes after the answers are stored.
    yield* Effect.sleep("300 millis")
    const samples = yield* awaited(
      "the delivery of everything",
      scrapeSince,
      (some) =>
        sum(some, "music_deliveries", { state: "delivered" }) === 1 && sum(some, "music_spool_records") === 0
    )

    const { "POST /webhook/ 200": webhooks = 0, ...answers } = answersByRoute(samples)
    expect(answers).toEqual({
      "POST /api/v1/auth/login 200": 2,
      "GET /api/v1/auth/me 200": 10,
      "GET /api/v1/auth/me 401": 2,
      "POST /api/v1/tings 200": 2,
      "POST /api/v1/reports 200": 2,
      "POST /api/v1/reports 409": 1,
      "POST /api/v1/telemetry 204": 1,
      "POST /api/v1/auth/refresh 200": 2,
      "POST /api/v1/auth/logout 204": 1,
      "GET unmatched 404": 3,
      "POST /healthz 405": 1
    })
    expect(sum(samples, "music_http_request_duration_seconds_count")).toBe(27 + webhooks)
    expect(sum(samples, "music_http_requests_in_flight")).toBe(0)

    expect(counted(samples)).toEqual(arrived(world))
    expect(sum(samples, "music_upstream_request_duration_seconds_count")).toBe(
      sum(samples, "music_upstream_requests_total")
    )
    expect(sum(samples, "music_upstream_requests_total", { outcome: "unknown" })).toBe(1)
    expect(sum(samples, "music_upstream_retries_total", { dependency: "iam" })).toBe(1)
    expect(sum(samples, "music_upstream_retries_total")).toBe(1)

    expect(sum(samples, "music_shared_requests_total", { operation: "introspect" })).toBe(3)
    for (const operation of ["login", "refresh", "ting", "report"])
      expect([operation, sum(samples, "music_replays_total", { operation })]).toEqual([operation, 1])

    const refusals = samples.filter(({ name }) => name === "music_failures_total")
    expect(Object.fromEntries(refusals.map(({ labels, value }) => [labels.code, value]))).toEqual({
      unauthenticated: 2,
      idempotency_conflict: 1,
      not_found: 3,
      method_not_allowed: 1
    })

    expect(sum(samples, "music_deliveries", { kind: "report", state: "delivered" })).toBe(1)
    const events = (table: string, result: string) =>
      sum(samples, "music_spool_events_total", { table, result })
    expect(
      ["accepted", "delivered", "duplicate", "expired", "refused"].map((result) =>
        events("musicclidaemon", result)
      )
    ).toEqual([3, 3, 0, 0, 0])
    expect(events("musicbackend", "delivered")).toBe(events("musicbackend", "accepted"))
    expect(sum(samples, "music_spool_bytes")).toBe(0)
    expect(sum(samples, "music_spool_limit_bytes")).toBe(500_000_000)

    // Every described metric exists with exactly its labels, except those that this load does not change, those of Postgres,
    // and that of a token which ends.
    const untouched = [
      "music_http_connections_closed_total",
      "music_iam_calls_refused_total",
      "music_log_lines_lost_total",
      "music_own_events_dropped_total",
      "music_otlp_exports_total",
      "music_store_pool_connections",
      "music_store_pool_limit",
      "music_store_pool_waiting",
      "music_store_writes_failed_total",
      "music_tracker_token_expires_timestamp_seconds"
    ]
    const described = metrics
      .filter(({ name }) => !untouched.includes(name))
      .map(({ labels, name }) => [name, [...labels].sort().join()])
    const found = samples
      .filter(({ name }) => !untouched.includes(name))
      .map(({ labels, name }) => [
        metrics.some((metric) => metric.name === name) ? name : name.replace(/_(?:bucket|count|sum)$/, ""),
        Object.keys(labels)
          .filter((label) => label !== "le")
          .sort()
          .join()
      ])
    expect(new Map(found.map(([name = "", labels = ""]) => [name, labels]))).toEqual(
      new Map(described.map(([name = "", labels = ""]) => [name, labels]))
    )

    expect(sum(samples, "music_store_up")).toBe(1)
    expect(sum(samples, "music_build_info", { version })).toBe(1)
    expect(sum(samples, "music_check", { state: "ok" })).toBe(4)
    expect(sum(samples, "process_resident_memory_bytes")).toBeGreaterThan(10_000_000)
    expect(sum(samples, "process_start_time_seconds")).toBeCloseTo(Date.now() / 1_000 - process.uptime(), -1)
  })
})
