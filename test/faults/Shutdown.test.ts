import { randomUUID } from "node:crypto"
import { renameSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { call } from "../../sandbox/HttpExchange.ts"
import { startUpstreams, mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { pgProxy } from "../layers/store/postgres/PgProxy.ts"
import { folder, postgres, rawClient, rawQuery, withStore } from "../layers/store/Stores.ts"
import { scalar, spoolLawHolds } from "./Databases.ts"
import {
  bundleBefore,
  type Served,
  connection,
  environmentOf,
  serve,
  startProcess,
  stop
} from "./Processes.ts"
import { issues, report, signIn, telemetry } from "./Server.ts"
import { bestOf, eventually } from "../support/Waiting.ts"

bundleBefore()

/** Milliseconds: far below the grace period of `patient`. */
const promptly = 60_000

/** The end of an upstream that hangs is near, and the grace period is far, so that they can be told apart on a slow machine. */
const patient = { MUSIC_REQUEST_DEADLINE_SECONDS: "5", MUSIC_SHUTDOWN_GRACE_SECONDS: "120" }
/** The end of the grace period is near, for work that never ends. */
const hasty = { MUSIC_REQUEST_DEADLINE_SECONDS: "4", MUSIC_SHUTDOWN_GRACE_SECONDS: "6" }
/** The line of a process that the end of the grace period ended. */
const ranOut = "not everything was finished within MUSIC_SHUTDOWN_GRACE_SECONDS"

const serving = (environment: Readonly<Record<string, string>> = {}) =>
  Effect.gen(function* () {
    const path = join(yield* folder, "music.sqlite")
    return { path, ...(yield* serve({ MUSIC_DATABASE_PATH: path, ...environment })) }
  })

const refusesConnections = (port: number) =>
  Effect.promise(
    () =>
      new Promise<boolean>((resolve) => {
        const socket = connect(port, "127.0.0.1")
        socket.on("connect", () => {
          socket.destroy()
          resolve(false)
        })
        socket.on("error", () => resolve(true))
      })
  )

/** Leases that are left; a stopped server leaves none. */
const leases = (path: string) =>
  Effect.all([
    scalar(path, "SELECT COUNT(*) FROM spool WHERE lease_owner IS NOT NULL"),
    scalar(path, "SELECT COUNT(*) FROM deliveries WHERE state = 'leased' OR lease_owner IS NOT NULL")
  ])

const login = (base: string, slt: string) =>
  call(`${base}/api/v1/auth/login`, {
    method: "POST",
    body: { slt },
    headers: { "idempotency-key": randomUUID() }
  })

const tokens = "/api/v1/app-auth/tokens"
const issuesPath = "/repos/harbor/music/issues"

/** Leaves a report at a tracker that does not answer. */
const hangInDelivery = ({ base, world }: Pick<Served, "base" | "world">) =>
  Effect.gen(function* () {
    world.tracker.fail({ path: issuesPath, method: "POST", fault: { kind: "hang" } })
    assert.strictEqual((yield* report({ base })).status, 200)
    yield* eventually("a report at the tracker", () =>
      world.tracker.seen.some(({ method }) => method === "POST")
    )
  })

describe.concurrent("A server that receives SIGTERM", () => {
  it.scopedLive(
    "fails readiness, refuses late requests, finishes those in flight, and exits with 0",
    function* () {
      const { base, port, server, world } = yield* serving()
      const probe = yield* connection(port)
      const lateCall = yield* connection(port)
      const closedAt = new Map<typeof probe, number>()
      for (const one of [probe, lateCall])
        one.socket.once("close", () => closedAt.set(one, performance.now()))
      probe.socket.write("GET /readyz HTTP/1.1\r\nHost: a\r\n")
      lateCall.socket.write("GET /api/v1/version HTTP/1.1\r\nHost: a\r\n")
      world.iam.fail({ path: tokens, fault: { kind: "delay", milliseconds: 3_000 } })
      const inFlight = yield* Effect.fork(login(base, mintSlt(world)))
      yield* eventually("the login at IAM", () => world.iam.seen.some(({ path }) => path === tokens))
      const stoppedAt = performance.now()
      const stopping = yield* Effect.fork(stop(server))
      yield* Effect.repeat(Effect.delay(refusesConnections(port), 5), {
        until: (refused) => refused
      })
      probe.socket.write("\r\n")
      lateCall.socket.write("\r\n")
      yield* eventually("the end of both connections", () => closedAt.size === 2)
      // A server waits 1 s for the rest of a head. On a machine that took longer for the steps above, there is no answer.
      for (const [one, answer] of [
        [probe, /^HTTP\/1\.1 503 .*connection: close.*"code":"not_ready".*"serving":"failed"/is],
        [lateCall, /^HTTP\/1\.1 503 .*connection: close.*"code":"shutting_down"/is]
      ] as const)
        if (one.text() === "") assert.isAtLeast((closedAt.get(one) ?? 0) - stoppedAt, 1_000)
        else assert.match(one.text(), answer)
      const answer = yield* Fiber.join(inFlight)
      deepStrictEqual([answer.status, answer.headers.get("connection")], [200, "close"])
      assert.strictEqual((yield* Fiber.join(stopping)).code, 0)
      assert.match(
        server.output(),
        /"Stopped","complete":true,"duration_ms":\d+,"requests_finished":1,"requests_cut":0\}\s*$/
      )
    }
  )

  it.scopedLive("does not wait for idle and silent connections", function* () {
    const { port, server } = yield* serving()
    // The oldest connection: a server that closes all at the same time closes it first.
    const partial = yield* connection(port)
    partial.socket.write("GET / HT")
    const idle = yield* connection(port)
    idle.socket.write("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    const silent = yield* connection(port)
    yield* eventually("an answer", () => idle.text().includes("}"))
    const closed: Array<string> = []
    for (const [name, { socket }] of Object.entries({ partial, idle, silent }))
      socket.once("close", () => closed.push(name))
    const { code } = yield* stop(server)
    assert.strictEqual(code, 0)
    yield* eventually("the end of all connections", () => closed.length === 3)
    // They are closed before the second for a partial head is over.
    assert.strictEqual(closed.at(-1), "partial")
  })

  it.scopedLive(
    "does not wait for requests that never arrive completely, even with a long grace period",
    function* () {
      const { port, server } = yield* serving(patient)
      const fresh = yield* connection(port)
      fresh.socket.write("GET / HT")
      const reused = yield* connection(port)
      reused.socket.write("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET / HT")
      yield* eventually("an answer", () => reused.text().includes("}"))
      const { code, took } = yield* stop(server)
      assert.strictEqual(code, 0)
      assert.notInclude(server.output(), "cut off")
      assert.isBelow(took, promptly)
    }
  )

  it.scopedLive("answers a request whose upstream hangs before it exits with 0", function* () {
    const { base, server, world } = yield* serving(patient)
    world.iam.fail({ path: tokens, fault: { kind: "hang" } })
    const inFlight = yield* Effect.fork(login(base, mintSlt(world)))
    yield* eventually("the login at IAM", () => world.iam.seen.some(({ path }) => path === tokens))
    const { code } = yield* stop(server)
    const answer = yield* Fiber.join(inFlight)
    deepStrictEqual([answer.status, /"dependency":"iam"/.test(answer.text)], [503, true])
    assert.strictEqual(code, 0)
    assert.notInclude(server.output(), ranOut)
  })

  it.scopedLive(
    "exits with 0 in time when every upstream hangs, releases its leases and stores its own telemetry; the next server delivers",
    function* () {
      const { base, path, port, server, world } = yield* serving(patient)
      const signed = yield* signIn({ base, world })
      world.tables.fail({ fault: { kind: "hang" }, times: 100 })
      assert.strictEqual((yield* telemetry({ base })).status, 204)
      yield* hangInDelivery({ base, world })
      yield* eventually("a batch at the tables", () =>
        world.tables.seen.some(({ method }) => method === "POST")
      )
      const last = (yield* call(`${base}/api/v1/version`)).headers.get("x-request-id") ?? "none"
      world.iam.fail({ fault: { kind: "hang" }, times: 100 })
      world.ting.fail({ fault: { kind: "hang" }, times: 100 })
      const hanging = yield* Effect.fork(
        Effect.all([login(base, mintSlt(world)), call(`${base}/api/v1/auth/me`, { headers: signed })], {
          concurrency: "unbounded"
        }).pipe(Effect.either)
      )
      const slow = yield* connection(port)
      slow.socket.write(
        "POST /api/v1/telemetry HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
      )
      yield* connection(port)
      yield* Effect.sleep(100)
      const { code } = yield* stop(server)
      assert.strictEqual(code, 0)
      assert.notInclude(server.output(), ranOut)
      yield* Fiber.join(hanging)
      deepStrictEqual(yield* leases(path), [0, 0])
      // It may have been filed, so the next worker searches first.
      deepStrictEqual(yield* rawQuery(path, "SELECT state FROM deliveries"), [{ state: "unknown" }])
      assert.strictEqual(
        yield* scalar(
          path,
          `SELECT COUNT(*) FROM spool WHERE table_name = 'musicbackend' AND json LIKE '%${last}%'`
        ),
        1
      )
      assert.isTrue(yield* spoolLawHolds(path))

      for (const upstream of [world.iam, world.ting, world.tables, world.tracker]) upstream.clearFaults()
      yield* serve({ MUSIC_DATABASE_PATH: path }, { world })
      yield* eventually("one issue", () => issues({ world }) === 1)
      yield* eventually("one row", () => world.tables.rows("musicclidaemon").length === 1)
    }
  )

  it.scopedLive("exits with 0 in time without a database during a delivery", function* () {
    const { base, path, server, world } = yield* serving(hasty)
    yield* hangInDelivery({ base, world })
    renameSync(path, `${path}.moved`)
    const { code } = yield* stop(server)
    assert.strictEqual(code, 0)
    assert.include(server.output(), ranOut)
    assert.match(server.output(), /"level":"warn","message":"Stopped","complete":false/)
  })

  it.scopedLive("exits with 0 in time with a silent PostgreSQL during a delivery", function* () {
    const proxy = yield* pgProxy(yield* postgres.emptyPath)
    const { base, server, world } = yield* serve({ ...hasty, MUSIC_DATABASE_URL: proxy.url })
    yield* hangInDelivery({ base, world })
    yield* proxy.freeze
    const inFlight = yield* Effect.fork(Effect.either(report({ base })))
    yield* Effect.sleep(50)
    const { code } = yield* stop(server)
    assert.strictEqual(code, 0)
    assert.include(server.output(), ranOut)
    yield* Fiber.join(inFlight)
  })

  it.scopedLive("stops at once during its start", function* () {
    const path = join(yield* folder, "music.sqlite")
    yield* withStore(path, ({ check }) => check)
    const other = yield* rawClient(path)
    yield* other.unsafe("BEGIN EXCLUSIVE")
    const stopping = Effect.gen(function* () {
      const server = yield* startProcess({
        ...environmentOf(yield* startUpstreams(() => Date.now())),
        MUSIC_DATABASE_PATH: path
      })
      // By then it waits for the lock or has not reached it; the rule applies to both.
      yield* Effect.sleep(600)
      const { took } = yield* stop(server)
      assert.notInclude(server.output(), "Listening")
      return took
    })
    // Less than the 5 s for which a start waits for a lock.
    assert.isBelow(yield* bestOf(3_000, stopping), 3_000)
  })
})
