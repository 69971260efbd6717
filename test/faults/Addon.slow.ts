/** SQLite's driver, a native addon, that cannot be loaded: missing, or built for another version of Node. */
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { beforeAll, describe, expect } from "vitest"
import { postgres } from "../layers/store/Stores.ts"
import { build, environmentOf, killedWithScope, root, start, stop, upstreams, urlOf } from "../world/Fleet.ts"
import { it } from "../world/Test.ts"
import { report } from "./Server.ts"

/** The bundles without any package beside them. */
let without = ""
/** The same with a driver whose addon does not load. */
let broken = ""

beforeAll(() => {
  build()
  const scratch = mkdtempSync(join(tmpdir(), "music-addon-"))
  const copy = (name: string): string => {
    const folder = join(scratch, name)
    cpSync(join(root, "dist"), join(folder, "dist"), {
      recursive: true,
      filter: (file) => !/\.map$|dist\/client/.test(file)
    })
    writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }))
    return folder
  }
  without = copy("without")
  broken = copy("broken")
  const driver = join(broken, "node_modules/better-sqlite3")
  mkdirSync(driver, { recursive: true })
  writeFileSync(
    join(driver, "index.js"),
    "module.exports = class { constructor() { throw Object.assign(new Error('other ABI'), { code: 'ERR_DLOPEN_FAILED' }) } }"
  )
  return () => rmSync(scratch, { recursive: true, force: true })
})

/** Runs an entry to its end. */
const run = (file: string, args: ReadonlyArray<string>, environment: Readonly<Record<string, string>>) =>
  Effect.promise(async () => {
    const { ended, output } = start(process.execPath, [file, ...args], environment)
    return { code: (await ended).code, output: output() }
  })

describe.concurrent("Without SQLite's addon", () => {
  it.scopedLive("server and commands work on Postgres", function* () {
    const environment = { ...environmentOf(yield* upstreams), MUSIC_DATABASE_URL: yield* postgres.emptyPath }
    const cli = join(without, "dist/cli.js")
    const server = yield* killedWithScope(() =>
      start(process.execPath, [join(without, "dist/main.js")], environment)
    )
    const base = yield* Effect.promise(() => urlOf(server))
    const [starting = ""] = server.output().split("\n")
    expect(JSON.parse(starting)).toMatchObject({ message: "Starting" })
    expect((yield* report({ base })).status).toBe(200)
    const listed = yield* run(cli, ["reports", "list", "--json"], environment)
    expect([listed.code, JSON.parse(listed.output).items.length]).toEqual([0, 1])
    const backup = yield* run(cli, ["backup", "copy.dump"], environment)
    expect([backup.code, backup.output]).toEqual([69, expect.stringContaining("docs/operations.md, Backup")])
    expect((yield* stop(server)).code).toBe(0)
  })

  it.scopedLive("server and commands on SQLite end with 69, one line and its fix", function* () {
    const path = join(without, "data/music.sqlite")
    const settings = { MUSIC_DATABASE_PATH: path, MUSIC_LOG_LEVEL: "error" }
    const environment = { ...environmentOf(yield* upstreams), ...settings }
    const line = (code: string) =>
      new RegExp(
        `^music-backend: SQLite database ${path} cannot be opened: its driver better-sqlite3 does not load \\(${code}\\)[.:] [Rr]un npm rebuild better-sqlite3 .*\n$`
      )
    mkdirSync(join(without, "data"), { recursive: true })
    // A backup looks for the file first.
    writeFileSync(path, "")
    for (const [folder, code, entry, ...args] of [
      [without, "ERR_MODULE_NOT_FOUND", "dist/main.js"],
      [broken, "ERR_DLOPEN_FAILED", "dist/cli.js", "migrate"]
    ] as const) {
      const ended = yield* run(join(folder, entry), args, environment)
      expect([ended.code, ended.output]).toEqual([69, expect.stringMatching(line(code))])
    }
    // Also before the first start, which creates the file.
    const fresh = { ...environment, MUSIC_DATABASE_PATH: join(without, "data/absent.sqlite") }
    const checked = yield* run(join(without, "dist/cli.js"), ["check"], fresh)
    expect([checked.code, checked.output]).toEqual([
      1,
      expect.stringMatching(/^FAIL {2}database .*does not load.*\n +-> run npm rebuild/m)
    ])
  })
})
