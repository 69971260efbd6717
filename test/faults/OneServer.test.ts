/** Several server processes on one SQLite file: one of them serves. */
import { chownSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { call } from "../../sandbox/HttpExchange.ts"
import { startUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { run } from "../cli/Harness.ts"
import { folder } from "../layers/store/Stores.ts"
import type { Running } from "../support/Process.ts"
import { bundleBefore, environmentOf, refuse, type Served, serve, startProcess, stop } from "./Processes.ts"
import { everyCall, healthy, report, signIn } from "./Server.ts"
import { eventually } from "../support/Waiting.ts"

bundleBefore()

/** Names another server that serves, and says what to do. */
const inUse =
  /^music-backend: SQLite database \S+ is in use by another server \(process \d+ on \S+\)\. Stop that server.*\n$/
const waiting = /"Waiting for the earlier server to stop"/

const freshPath = Effect.map(folder, (folder) => join(folder, "music.sqlite"))
const startOn = (path: string, { world }: Pick<Served, "world">, more = {}) =>
  startProcess({ ...environmentOf(world), MUSIC_DATABASE_PATH: path, ...more })
const listens = ({ says }: Running) => Effect.promise(() => says(/"Listening".*?"url":"(http:[^"]+)"/))
const ends = ({ ended }: Running) =>
  Effect.map(
    Effect.promise(() => ended),
    ({ code }) => code
  )
const kill = ({ server }: Pick<Served, "server">) => {
  server.child.kill("SIGKILL")
  return ends(server)
}

const issuesPath = "/repos/harbor/music/issues"
const tokens = "/api/v1/app-auth/tokens"

/** A server that stops, which a login at a hanging IAM delays until `seconds` have passed. */
const stopping = (path: string, seconds: number) =>
  Effect.gen(function* () {
    const served = yield* serve({
      MUSIC_DATABASE_PATH: path,
      MUSIC_REQUEST_DEADLINE_SECONDS: String(seconds),
      MUSIC_SHUTDOWN_GRACE_SECONDS: String(seconds + 100)
    })
    const { base, server, world } = served
    world.iam.fail({ path: tokens, fault: { kind: "hang" } })
    const answer = yield* Effect.fork(
      call(`${base}/api/v1/auth/login`, {
        method: "POST",
        body: { slt: "slt_none" },
        headers: { "idempotency-key": "login-0123456789" }
      })
    )
    yield* eventually("the login at IAM", () => world.iam.seen.some((seen) => seen.path === tokens))
    const stopped = yield* Effect.fork(stop(server))
    yield* eventually("the drain", () => /"Stopping"/.test(server.output()))
    return { ...served, answer, stopped }
  })

describe("A second server on one SQLite file", () => {
  it.scopedLive(
    "ends at once with 69 and the reason, however the path is written; the first one and commands go on",
    function* () {
      const real = yield* folder
      const path = join(real, "music.sqlite")
      const first = yield* serve({ MUSIC_DATABASE_PATH: path })
      const links = yield* folder
      symlinkSync(real, join(links, "folder"))
      symlinkSync(path, join(links, "file.sqlite"))
      mkdirSync(join(links, "other"))
      for (const spelled of [
        path,
        join(links, "folder/music.sqlite"),
        join(links, "file.sqlite"),
        `${links}/other/../folder/./music.sqlite`
      ]) {
        const { code, output } = yield* refuse({ MUSIC_DATABASE_PATH: spelled })
        assert.strictEqual(code, 69)
        assert.match(output, inUse)
        assert.include(output, `process ${first.server.child.pid} `)
      }
      for (const file of [`${path}-lock`, `${path}-server`])
        assert.strictEqual(statSync(file).mode & 0o777, 0o600)

      const environment = { ...environmentOf(first.world), MUSIC_DATABASE_PATH: path }
      for (const args of [["reports", "list"], ["migrate"], ["backup", `${path}.copy`]])
        assert.strictEqual((yield* run(args, environment)).exit, 0)
      deepStrictEqual((yield* everyCall(first, yield* signIn(first))).round, healthy)
      assert.strictEqual((yield* stop(first.server)).code, 0)
      yield* serve({ MUSIC_DATABASE_PATH: join(links, "file.sqlite") })
    }
  )

  /** A database of another account, where this process is root. */
  const ofAnother = (path: string) => {
    if (process.getuid?.() === 0) for (const file of [dirname(path), path]) chownSync(file, 65_534, 65_534)
  }

  it.scopedLive(
    "leaves no file of its own to root, so that the database's account starts the next one",
    function* () {
      const path = yield* freshPath
      const first = yield* serve({ MUSIC_DATABASE_PATH: path })
      yield* stop(first.server)
      rmSync(`${path}-lock`)
      ofAnother(path)
      yield* serve({ MUSIC_DATABASE_PATH: path })
      const owner = statSync(path).uid
      for (const suffix of ["-lock", "-server"]) assert.strictEqual(statSync(`${path}${suffix}`).uid, owner)
    }
  )

  it.scopedLive("gives away no file that a link in the place of the lock leads to", function* () {
    const path = yield* freshPath
    const other = join(yield* folder, "other")
    for (const file of [path, other]) writeFileSync(file, "")
    const { uid } = statSync(other)
    ofAnother(path)
    symlinkSync(other, `${path}-lock`)
    yield* serve({ MUSIC_DATABASE_PATH: path })
    assert.strictEqual(statSync(other).uid, uid)
  })

  it.scopedLive("waits while the first one finishes its requests, and then serves", function* () {
    const path = yield* freshPath
    const first = yield* stopping(path, 8)
    const second = yield* startOn(path, first)
    yield* Effect.promise(() => second.says(waiting))
    assert.notInclude(second.output(), "Listening")
    assert.isNull(first.server.child.exitCode)
    assert.strictEqual((yield* Fiber.join(first.answer)).status, 503)
    assert.strictEqual((yield* Fiber.join(first.stopped)).code, 0)
    const [, base = ""] = yield* listens(second)
    assert.strictEqual((yield* call(`${base}/readyz`)).status, 200)
    assert.match((yield* refuse({ MUSIC_DATABASE_PATH: path })).output, inUse)
  })

  it.scopedLive("waits no longer than its own grace period, and ends with 69", function* () {
    const path = yield* freshPath
    const first = yield* stopping(path, 250)
    const second = yield* startOn(path, first, {
      MUSIC_REQUEST_DEADLINE_SECONDS: "1",
      MUSIC_SHUTDOWN_GRACE_SECONDS: "3"
    })
    assert.strictEqual(yield* ends(second), 69)
    assert.match(second.output(), waiting)
    assert.match(
      second.output(),
      /\nmusic-backend: SQLite database \S+ is in use by another server, which has not stopped in time\. Stop/
    )
    assert.isNull(first.server.child.exitCode)
  })

  it.scopedLive("stops at once while it waits", function* () {
    const path = yield* freshPath
    const first = yield* stopping(path, 250)
    const second = yield* startOn(path, first)
    yield* Effect.promise(() => second.says(waiting))
    assert.strictEqual((yield* stop(second)).code, 0)
    assert.isNull(first.server.child.exitCode)
  })

  it.scopedLive(
    "serves at once after a kill of the first one while it serves, and while it stops",
    function* () {
      const path = yield* freshPath
      const first = yield* serve({ MUSIC_DATABASE_PATH: path })
      first.world.tracker.fail({ path: issuesPath, method: "POST", fault: { kind: "hang" } })
      assert.strictEqual((yield* report(first)).status, 200)
      yield* kill(first)
      const second = yield* stopping(path, 250)
      assert.notMatch(second.server.output(), waiting)
      yield* kill(second)
      const third = yield* serve({ MUSIC_DATABASE_PATH: path })
      assert.notMatch(third.server.output(), waiting)
      deepStrictEqual((yield* everyCall(third, yield* signIn(third))).round, healthy)
    }
  )
})

describe("Servers that start at the same moment on one SQLite file", () => {
  it.scopedLive.each([1, 2, 3])("exactly one serves (round %i)", function* () {
    const path = join(yield* folder, "new", "deep", "music.sqlite")
    const world = yield* startUpstreams(() => Date.now())
    const servers = yield* Effect.all([1, 2, 3].map(() => startOn(path, { world })))
    const outcomes = yield* Effect.all(
      servers.map((server) => Effect.raceFirst(Effect.as(listens(server), "serves"), ends(server))),
      { concurrency: "unbounded" }
    )
    deepStrictEqual(outcomes.map(String).sort(), ["69", "69", "serves"])
    for (const [index, server] of servers.entries())
      if (outcomes[index] === 69) assert.match(server.output(), /is in use by another server/)
  })
})
