/** The file of ops for logrotate, with the real program, on the log of a server that runs. */
import { execFileSync } from "node:child_process"
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, beforeAll, describe } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { call } from "../../sandbox/HttpExchange.ts"
import { folder } from "../layers/store/Stores.ts"
import { requireProgram } from "../support/Programs.ts"
import { awaited } from "../support/Waiting.ts"
import { bundleBefore, environmentOf, freePort, root, startProcess, stop, upstreams } from "../world/Fleet.ts"

beforeAll(bundleBefore)

const example = readFileSync(join(root, "ops/logrotate/music-backend"), "utf8")

describe("A log that is appended to a file", () => {
  it("is rotated by copying, because the server cannot open the file anew", () => {
    assert.match(example, /^ {2}copytruncate$/m)
  })

  beforeAll(() => requireProgram("logrotate"))

  it.scopedLive("continues at the beginning of the emptied file", function* () {
    const place = yield* folder
    const file = join(place, "server.log")
    const world = yield* upstreams
    const port = yield* Effect.promise(freePort)
    const environment = {
      ...environmentOf(world),
      MUSIC_BIND: `127.0.0.1:${port}`,
      MUSIC_DATABASE_PATH: join(place, "music.sqlite")
    }
    const server = yield* startProcess(environment, `exec >>'${file}';`)
    const log = (name = file) => (existsSync(name) ? readFileSync(name, "utf8") : "")
    const logged = (what: string) =>
      awaited(
        what,
        Effect.sync(() => log()),
        (text) => text.includes(what)
      )
    yield* logged('"Listening"')
    const rules = join(place, "rules")
    writeFileSync(rules, example.replace("/var/log/music-backend/*.log", `${place}/*.log`))
    chmodSync(rules, 0o644)
    const before = log()
    const options = ["--force", "--state", join(place, "state"), rules]
    execFileSync("logrotate", options, { env: { PATH: `${process.env.PATH}:/usr/sbin` } })
    assert.strictEqual(log(`${file}.1`), before)
    assert.strictEqual(log(), "")
    yield* call(`http://127.0.0.1:${port}/api/v1/version`)
    yield* logged('"/api/v1/version"')
    const { code } = yield* stop(server)
    assert.strictEqual(code, 0)
    // Every line is whole: no hole of zeros in the place of what was taken away.
    for (const line of log().trimEnd().split("\n")) assert.isObject(JSON.parse(line))
  })
})
