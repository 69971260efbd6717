/** Several server processes on one SQLite file: one of them serves. */
import { chownSync, existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Fiber } from "effect"
import { assert, beforeAll, describe } from "vitest"
import { run } from "../cli/Harness.ts"
import { folder, newPath, storeOf } from "../layers/store/Stores.ts"
import { eventually } from "../world/Waiting.ts"
import * as Fleet from "../world/Fleet.ts"
import { testSettings } from "../world/Settings.ts"
import { it } from "../world/Test.ts"
import { refusalOf } from "./Databases.ts"
import { expectRound, loginInFlight, signIn, untilReady } from "./Server.ts"

const { environmentOf, serve, stop } = Fleet

beforeAll(Fleet.bundleBefore)

/** Names another server that serves, and says what to do. */
const inUse =
  /^SQLite database \S+ is in use by another server \(process \d+ on \S+\)\. Stop that server.*\n?$/
const waiting = /"Waiting for the earlier server to stop"/

const on = (path: string) => serve({ MUSIC_DATABASE_PATH: path })
const startOn = (path: string, { world }: Pick<Fleet.Served, "world">, more = {}) =>
  Fleet.startProcess({ ...environmentOf(world), MUSIC_DATABASE_PATH: path, ...more })
const codeOf = ({ ended }: Fleet.Running) =>
  Effect.map(
    Effect.promise(() => ended),
    ({ code }) => code
  )
const killed = ({ server }: Fleet.Served) => Effect.promise(() => Fleet.kill(server))

/** A server that stops with a login in flight, is signalled again, as npm does, and is frozen in the middle of it until `finish`. */
const stopping = (path: string) =>
  Effect.gen(function* () {
    const served = yield* on(path)
    const { child, says } = served.server
    const answer = yield* loginInFlight(served)
    const stopped = yield* Effect.fork(stop(served.server))
    yield* Effect.promise(() => says(/"Stopping"/))
    yield* eventually("the end of its mark", () => !existsSync(`${path}-server`))
    for (const signal of ["SIGINT", "SIGHUP", "SIGTERM", "SIGSTOP"] as const) child.kill(signal)
    const finish = Effect.gen(function* () {
      child.kill("SIGCONT")
      assert.strictEqual((yield* Fiber.join(answer)).status, 200)
      assert.strictEqual((yield* Fiber.join(stopped)).code, 0)
      assert.lengthOf(served.server.output().match(/"Stopping"/g) ?? [], 1)
    })
    return { ...served, finish }
  })

/** A database of another account, where this process is root. */
const ofAnother = (path: string) => {
  if (process.getuid?.() === 0) for (const file of [dirname(path), path]) chownSync(file, 65_534, 65_534)
}

describe("A second server on one SQLite file", () => {
  it.scopedLive("is refused at once, however the path is written; all others go on", function* () {
    const real = yield* folder
    const path = join(real, "music.sqlite")
    const links = yield* folder
    symlinkSync(real, join(links, "folder"))
    symlinkSync(path, join(links, "file.sqlite"))
    const first = yield* on(join(links, "file.sqlite"))
    mkdirSync(join(links, "other"))
    for (const databasePath of [path, `${links}/other/../folder/./music.sqlite`]) {
      const says = yield* refusalOf({ databasePath })
      assert.match(says, inUse)
      assert.include(says, `process ${first.server.child.pid} `)
    }
    for (const file of [`${path}-lock`, `${path}-server`])
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)

    const environment = { ...environmentOf(first.world), MUSIC_DATABASE_PATH: path }
    for (const args of [["reports", "list"], ["migrate"], ["backup", `${path}.copy`]])
      assert.strictEqual((yield* run(args, environment)).exit, 0)
    yield* expectRound(first, yield* signIn(first))
  })

  it.scopedLive("leaves its lock to the database's account, and no file that a link leads to", function* () {
    const [path, linked, other] = [yield* newPath, yield* newPath, yield* newPath]
    for (const file of [path, linked, other]) writeFileSync(file, "")
    const { uid } = statSync(other)
    ofAnother(path)
    ofAnother(linked)
    symlinkSync(other, `${linked}-lock`)
    for (const databasePath of [path, linked]) yield* storeOf(testSettings({ databasePath }))
    const owner = statSync(path).uid
    for (const suffix of ["-lock", "-server"]) assert.strictEqual(statSync(`${path}${suffix}`).uid, owner)
    assert.strictEqual(statSync(other).uid, uid)
  })

  it.scopedLive("waits while the first one finishes, and no longer than its own grace period", function* () {
    const path = yield* newPath
    const first = yield* stopping(path)
    const second = yield* startOn(path, first, { MUSIC_SHUTDOWN_GRACE_SECONDS: "250" })
    const hasty = yield* startOn(path, first, {
      MUSIC_REQUEST_DEADLINE_SECONDS: "1",
      MUSIC_SHUTDOWN_GRACE_SECONDS: "3"
    })
    for (const { says } of [second, hasty]) yield* Effect.promise(() => says(waiting))
    assert.strictEqual(yield* codeOf(hasty), 69)
    assert.match(
      hasty.output(),
      /\nmusic-backend: SQLite database \S+ is in use by another server, which has not stopped in time\. Stop/
    )
    assert.isNull(first.server.child.exitCode)
    assert.notInclude(second.output(), "Listening")
    yield* first.finish
    yield* untilReady({ ...first, base: yield* Effect.promise(() => Fleet.urlOf(second)) })
    assert.match(yield* refusalOf({ databasePath: path }), inUse)
  })

  it.scopedLive("serves at once after a kill of the first one while it stops", function* () {
    const path = yield* newPath
    const first = yield* stopping(path)
    yield* killed(first)
    const second = yield* on(path)
    assert.notMatch(second.server.output(), waiting)
    yield* expectRound(second, yield* signIn(second))
  })
})

it.scopedLive("Servers that start at the same moment on one SQLite file exactly one serves", function* () {
  const path = join(yield* folder, "new", "deep", "music.sqlite")
  const world = yield* Fleet.upstreams
  const servers = yield* Effect.replicateEffect(startOn(path, { world }), 2)
  const outcomes = yield* Effect.promise(() =>
    Promise.all(
      servers.map((server) =>
        Promise.race([server.says(/Listening/).then(() => "serves"), server.ended.then(({ code }) => code)])
      )
    )
  )
  deepStrictEqual(outcomes.map(String).sort(), ["69", "serves"])
  for (const { output } of servers) assert.match(output(), /Listening|is in use by another server/)
})
