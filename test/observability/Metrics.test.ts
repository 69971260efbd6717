import { randomUUID } from "node:crypto"
import { expect } from "vitest"
import { it } from "../world/Test.ts"
import { Effect } from "effect"
import { expectJson, textOf } from "../../sandbox/HttpExchange.ts"
import { mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { failureTable } from "../../src/schema/Failure.ts"
import { version } from "../../src/schema/Release.ts"
import { documented, metricOf, parse, type Sample, scrape, since, sum } from "./Exposition.ts"
import { keyed, startObserved } from "./Observed.ts"
import { awaited, until } from "../world/Waiting.ts"

/** Metrics that the load does not change, those of Postgres, and that of a token which ends. */
const untouched = [
  "music_iam_calls_refused_total",
  "music_log_lines_lost_total",
  "music_otlp_exports_total",
  "music_store_pool_connections",
  "music_store_pool_limit",
  "music_store_pool_waiting",
  "music_store_writes_failed_total",
  "music_tracker_token_expires_timestamp_seconds"
]

const valuesBy = (
  samples: ReadonlyArray<Sample>,
  metric: string,
  key: (labels: Sample["labels"]) => string
) =>
  Object.fromEntries(
    samples.filter(({ name }) => name === metric).map(({ labels, value }) => [key(labels), value])
  )

it.scopedLive("Metrics agree with a scripted load", function* () {
  const { admin, get, post, world } = yield* startObserved()
  const before = parse(yield* scrape(admin))
  // From the start every series whose increase an alert uses.
  const codes = Object.keys(valuesBy(before, "music_failures_total", ({ code = "" }) => code))
  expect(codes.sort()).toEqual(Object.keys(failureTable).sort())
  for (const [name, labels] of [
    ["music_iam_calls_refused_total", { priority: "essential" }],
    ["music_iam_calls_refused_total", { priority: "known" }],
    ["music_iam_calls_refused_total", { priority: "newcomer" }],
    ["music_store_writes_failed_total", expect.anything()],
    ["music_spool_events_total", { table: "musicclidaemon", result: "refused" }]
  ] as const)
    expect(before).toContainEqual({ name, labels, value: expect.any(Number) })
  const login = { slt: mintSlt(world) }
  const loginKey = keyed()
  const session = yield* expectJson(yield* post("/api/v1/auth/login", login, loginKey), 200)
  yield* post("/api/v1/auth/login", login, loginKey)
  const bearer = (token: string) => ({ authorization: `Bearer ${token}`, "x-org-id": "acme" })
  const signed = bearer(yield* textOf(session, "access_token"))
  const me = get("/api/v1/auth/me", signed)

  for (let call = 0; call < 5; call += 1) yield* me
  // Four at once while IAM is slow: one calls IAM, three share its answer.
  world.iam.fail({ times: 1, fault: { kind: "delay", milliseconds: 2_000 } })
  yield* Effect.all([me, me, me, me], { concurrency: "unbounded" })
  // A call whose answer is lost is repeated once.
  world.iam.fail({ times: 1, fault: { kind: "drop" } })
  yield* me
  yield* get("/api/v1/auth/me", bearer(`oat_${"x".repeat(43)}`))
  yield* get("/api/v1/auth/me")

  const ting = { type: "music.trigger.fired", key: "si:deejay/1", data: {} }
  for (let turn = 0; turn < 2; turn += 1) yield* post("/api/v1/tings", ting, signed)
  const reportKey = keyed()
  for (const message of ["The player stops.", "The player stops.", "Something else."])
    yield* post("/api/v1/reports", { message }, reportKey)
  const events = [{ id: randomUUID() }, {}, {}]
  yield* post("/api/v1/telemetry", { table: "musicclidaemon", events })

  const refresh = { refresh_token: yield* textOf(session, "refresh_token") }
  const refreshKey = keyed()
  const refreshed = yield* expectJson(yield* post("/api/v1/auth/refresh", refresh, refreshKey), 200)
  yield* post("/api/v1/auth/refresh", refresh, refreshKey)
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
    Effect.map(scrape(admin), (text) => since(before, parse(text))),
    (some) =>
      sum(some, "music_deliveries", { state: "delivered" }) === 1 && sum(some, "music_spool_records") === 0
  )
  const total = (name: string, labels: Sample["labels"] = {}) => sum(samples, name, labels)

  // The counters belong to the process, where a server of another file may answer a connection that sent nothing.
  const parsed = samples.filter(({ labels }) => labels.route !== "unparsed")
  const { "POST /webhook/ 200": webhooks = 0, ...answers } = valuesBy(
    parsed,
    "music_http_requests_total",
    ({ method, route, status }) => `${method} ${route} ${status}`
  )
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
  expect(valuesBy(samples, "music_failures_total", ({ code = "" }) => code)).toEqual({
    unauthenticated: 2,
    idempotency_conflict: 1,
    not_found: 3,
    method_not_allowed: 1
  })
  for (const operation of ["login", "refresh", "ting", "report"])
    expect([operation, total("music_replays_total", { operation })]).toEqual([operation, 1])
  for (const [name, labels, value] of [
    ["music_http_request_duration_seconds_count", {}, 27 + webhooks],
    ["music_http_requests_in_flight", {}, 0],
    ["music_upstream_request_duration_seconds_count", {}, total("music_upstream_requests_total")],
    ["music_upstream_requests_total", { outcome: "unknown" }, 1],
    ["music_upstream_retries_total", { dependency: "iam" }, 1],
    ["music_upstream_retries_total", {}, 1],
    ["music_deliveries", { kind: "report", state: "delivered" }, 1],
    ["music_deliveries", {}, 1],
    ["music_spool_events_total", { table: "musicclidaemon", result: "accepted" }, 3],
    ["music_spool_events_total", { table: "musicclidaemon" }, 6],
    ["music_spool_events_total", { result: "delivered" }, 3],
    ["music_spool_bytes", {}, 0],
    ["music_spool_limit_bytes", {}, 500_000_000],
    ["music_store_up", {}, 1],
    ["music_build_info", { version }, 1],
    ["music_check", { state: "ok" }, 4]
  ] as const)
    expect([name, labels, total(name, labels)]).toEqual([name, labels, value])
  const spooled = samples
    .filter(({ name }) => name === "music_spool_records")
    .map(({ labels }) => labels.table)
  expect(spooled.sort()).toEqual(["musicclidaemon", "musicfrontendanalytics", "musicfrontendevents"])
  expect(total("music_http_request_duration_seconds_sum")).toBeGreaterThan(0)
  expect(total("process_resident_memory_bytes")).toBeGreaterThan(10_000_000)
  expect(total("process_start_time_seconds")).toBeCloseTo(Date.now() / 1_000 - process.uptime(), -1)

  // Every documented metric exists with exactly its labels.
  const labelsOf = (labels: ReadonlyArray<string>) =>
    labels
      .filter((label) => label !== "le")
      .sort()
      .join()
  const found = samples.map(({ labels, name }) => [metricOf(name), labelsOf(Object.keys(labels))] as const)
  const described = [...documented].map(([name, labels]) => [name, labelsOf(labels)] as const)
  const touched = (all: ReadonlyArray<readonly [string, string]>) =>
    new Map(all.filter(([name]) => !untouched.includes(name)))
  expect(touched(found)).toEqual(touched(described))
})
