/** Stops of the real process by SIGTERM, while something hangs. The rules of a drain in one process are tested in test/http/Drain.test.ts. */
import { renameSync } from "node:fs"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Fiber } from "effect"
import { assert, beforeAll, describe } from "vitest"
import { call } from "../../sandbox/HttpExchange.ts"
import { newPath, postgres, rawClient, rawQuery, withStore } from "../layers/store/Stores.ts"
import { pgProxy } from "../layers/store/postgres/PgProxy.ts"
import { awaited, eventually } from "../world/Waiting.ts"
import * as Fleet from "../world/Fleet.ts"
import { openPeer } from "../world/RawHttp.ts"
import { it } from "../world/Test.ts"
import { scalar, spoolLawHolds } from "./Databases.ts"
import { issues, loginInFlight, report, shipped, signIn, type Target, telemetry } from "./Server.ts"

const { environmentOf, serve, startProcess, stop, upstreams } = Fleet

beforeAll(Fleet.bundleBefore)

/** The end of an upstream that hangs is near, and the grace period is far, so that they differ on a slow machine too. */
const patient = { MUSIC_REQUEST_DEADLINE_SECONDS: "5", MUSIC_SHUTDOWN_GRACE_SECONDS: "120" }
const hasty = { MUSIC_REQUEST_DEADLINE_SECONDS: "1", MUSIC_SHUTDOWN_GRACE_SECONDS: "3" }

const serving = (environment: Readonly<Record<string, string>> = {}) =>
  Effect.gen(function* () {
    const path = yield* newPath
    return { path, ...(yield* serve({ MUSIC_DATABASE_PATH: path, ...environment })) }
  })

/** Leaves a report at a tracker that files it and does not answer. */
const hangInDelivery = (target: Target) =>
  Effect.gen(function* () {
    const { tracker } = target.world
    tracker.fail({ path: /issues$/, method: "POST", fault: { kind: "hang-after" } })
    assert.strictEqual((yield* report(target)).status, 200)
    yield* eventually("a report at the tracker", () => tracker.seen.some(({ method }) => method === "POST"))
  })

describe.concurrent("A server that receives SIGTERM", () => {
  it.scopedLive("exits with 0 in time when upstreams and clients hang; the next one delivers", function* () {
    const served = yield* serving(patient)
    const { base, path, port, server, world } = served
    const signed = yield* signIn(served)
    world.tables.fail({ fault: { kind: "hang" }, times: 100 })
    assert.strictEqual((yield* telemetry(served)).status, 204)
    yield* hangInDelivery(served)
    yield* eventually("a batch", () => world.tables.seen.some(({ method }) => method === "POST"))
    for (const upstream of [world.iam, world.ting]) upstream.fail({ fault: { kind: "hang" }, times: 100 })
    const login = yield* loginInFlight(served)
    const me = yield* Effect.fork(Effect.either(call(`${base}/api/v1/auth/me`, { headers: signed })))
    const post = "POST /api/v1/telemetry HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    for (const begun of ["", "GET / HT", `${post}Content-Length: 100\r\n\r\n{`]) yield* openPeer(port, begun)
    yield* Effect.sleep(100)
    assert.strictEqual((yield* stop(server)).code, 0)
    const { status, text } = yield* Fiber.join(login)
    deepStrictEqual([status, /"dependency":"iam"/.test(text)], [503, true])
    yield* Fiber.join(me)
    const left = [
      "SELECT COUNT(*) FROM spool WHERE lease_owner IS NOT NULL",
      "SELECT COUNT(*) FROM deliveries WHERE lease_until IS NOT NULL"
    ]
    deepStrictEqual(yield* Effect.forEach(left, (statement) => scalar(path, statement)), [0, 0])
    // It may have been filed, so the next worker searches first.
    deepStrictEqual(yield* rawQuery(path, "SELECT state FROM deliveries"), [{ state: "unknown" }])
    assert.isTrue(yield* spoolLawHolds(path))

    for (const upstream of [world.iam, world.ting, world.tables, world.tracker]) upstream.clearFaults()
    yield* serve({ MUSIC_DATABASE_PATH: path }, world)
    const state = scalar(path, "SELECT state FROM deliveries")
    yield* awaited("the issue", state, (found) => found === "delivered")
    deepStrictEqual([issues(served), shipped(served)], [1, 1])
  })

  it.scopedLive("exits with 0 in time without a database during a delivery", function* () {
    const served = yield* serving(hasty)
    yield* hangInDelivery(served)
    renameSync(served.path, `${served.path}.moved`)
    assert.strictEqual((yield* stop(served.server)).code, 0)
    assert.match(served.server.output(), /"message":"Stopped"/)
  })

  it.scopedLive("stops at once during its start", function* () {
    const path = yield* newPath
    yield* withStore(path, ({ check }) => check)
    const other = yield* rawClient(path)
    yield* other.unsafe("BEGIN EXCLUSIVE")
    const stopping = Effect.gen(function* () {
      const environment = environmentOf(yield* upstreams)
      const server = yield* startProcess({ ...environment, MUSIC_DATABASE_PATH: path })
      // By then it waits for the lock or has not reached it; the rule applies to both.
      yield* Effect.sleep(600)
      const { took } = yield* stop(server)
      assert.notInclude(server.output(), "Listening")
      return took
    })
    // Less than the 5 s for which a start waits for a lock. A machine that is slow for a moment costs another attempt.
    const best = Effect.repeat(Effect.scoped(stopping), { until: (took) => took < 3_000, times: 4 })
    assert.isBelow(yield* best, 3_000)
  })
})

it.scopedLive("A server on a PostgreSQL that is away waits for it, and starts when it answers", function* () {
  const proxy = yield* pgProxy(yield* postgres.freshPath)
  yield* proxy.cut
  const environment = { ...environmentOf(yield* upstreams), MUSIC_DATABASE_URL: proxy.url }
  const server = yield* startProcess(environment)
  yield* Effect.promise(() => server.says(/"Waiting for the database"/))
  assert.match(server.output(), /does not answer \(ECONNREFUSED\)/)
  yield* proxy.repair
  yield* Effect.promise(() => server.says(/"The database answers".*"Database opened".*"Listening"/s))
  assert.strictEqual((yield* stop(server)).code, 0)
  assert.notInclude(server.output(), new URL(proxy.url).password)
})
