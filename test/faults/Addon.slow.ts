/** SQLite's driver, a native addon, that cannot be loaded. */
import { cpSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { beforeAll, describe, expect } from "vitest"
import { postgres } from "../layers/store/Stores.ts"
import { folderOfFile } from "../world/Folder.ts"
import {
  build,
  ended,
  environmentOf,
  killedWithScope,
  root,
  start,
  stop,
  upstreams,
  urlOf
} from "../world/Fleet.ts"
import { it } from "../world/Test.ts"
import { report } from "./Server.ts"

/** The bundles without any package beside them. */
const without = folderOfFile()

beforeAll(() => {
  build()
  cpSync(join(root, "dist"), join(without, "dist"), {
    recursive: true,
    filter: (file) => !/\.map$|dist\/client/.test(file)
  })
  writeFileSync(join(without, "package.json"), JSON.stringify({ type: "module" }))
})

/** Runs an entry to its end. */
const run = (file: string, args: ReadonlyArray<string>, environment: Readonly<Record<string, string>>) =>
  ended(start(process.execPath, [file, ...args], environment))

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
    const line = new RegExp(
      `^music-backend: SQLite database ${path} cannot be opened: its driver better-sqlite3 does not load \\(ERR_MODULE_NOT_FOUND\\)[.:] [Rr]un npm rebuild better-sqlite3 .*\n$`
    )
    for (const [entry, ...args] of [["main.js"], ["cli.js", "migrate"]] as const) {
      const refused = yield* run(join(without, "dist", entry), args, environment)
      expect([refused.code, refused.output]).toEqual([69, expect.stringMatching(line)])
    }
    const checked = yield* run(join(without, "dist/cli.js"), ["check"], environment)
    const failed = /^FAIL {2}database .*does not load.*\n +-> run npm rebuild/m
    expect([checked.code, checked.output]).toEqual([1, expect.stringMatching(failed)])
  })
})
