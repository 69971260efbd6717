/** Starts of the real process that must fail, and say why. */
import { execFileSync } from "node:child_process"
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import { folder, postgres, withStore } from "../layers/store/Stores.ts"
import { pgProxy } from "../layers/store/postgres/PgProxy.ts"
import { scalar } from "./Databases.ts"
import { bundleBefore, refuse } from "./Processes.ts"

bundleBefore()

/** A start that spins ends, after so many seconds of processor time. */
const bounded = "ulimit -t 30;"

describe.concurrent("A start with a database path that cannot be", () => {
  const paths: Readonly<Record<string, (place: string) => string | Promise<string>>> = {
    "below /proc": () => "/proc/music/music.sqlite",
    "in /proc": () => "/proc/music.sqlite",
    "a folder": (place) => place,
    "below a file": (place) => {
      writeFileSync(join(place, "file"), "")
      return join(place, "file/below/music.sqlite")
    },
    "a device": () => "/dev/null",
    "a FIFO": (place) => {
      execFileSync("mkfifo", [join(place, "fifo")])
      return join(place, "fifo")
    },
    "a socket": (place) =>
      new Promise((resolve) => {
        const server = createServer()
        server.unref().listen(join(place, "socket"), () => resolve(join(place, "socket")))
      }),
    "a link into nothing": (place) => {
      symlinkSync(join(place, "nothing/music.sqlite"), join(place, "link"))
      return join(place, "link")
    },
    "a link to itself": (place) => {
      symlinkSync(join(place, "link"), join(place, "link"))
      return join(place, "link")
    },
    "a name of 5,000 characters": (place) => join(place, "a".repeat(5_000)),
    "1,000 folders": (place) => join(place, "folders/".repeat(1_000), "music.sqlite")
  }

  it.scopedLive.each(Object.keys(paths))(
    "ends with 69 and one line, and leaves nothing: %s",
    function* (name) {
      const place = yield* folder
      const path = yield* Effect.promise(async () => paths[name]?.(place) ?? "")
      const before = readdirSync(place)
      const { code, output } = yield* refuse({ MUSIC_DATABASE_PATH: path }, bounded)
      assert.strictEqual(code, 69)
      assert.match(
        output,
        /^music-backend: SQLite database \S+ cannot be opened, read or written(?: \(\w+\))?\. Set MUSIC_DATABASE_PATH .*\n$/
      )
      deepStrictEqual(readdirSync(place), before)
    }
  )
})

describe.concurrent("A start on a damaged database", () => {
  const page = 4_096
  const overwrite = (bytes: Buffer, from: number, to: number) => bytes.fill(0xa5, from, to)

  /** `root` is the first page of the migrations. */
  const damages: Readonly<Record<string, (bytes: Buffer, root: number) => Buffer>> = {
    "garbage at its head": (bytes) => overwrite(bytes, 0, page),
    "nothing but zeros": (bytes) => bytes.fill(0),
    "another format": () => Buffer.from("a note for later\n".repeat(1_000)),
    "half of it cut off": (bytes) => bytes.subarray(0, bytes.length / 2),
    "all but some bytes cut off": (bytes) => bytes.subarray(0, 50),
    "a page of its schema": (bytes) => overwrite(bytes, 100, page),
    "the migrations": (bytes, root) => overwrite(bytes, (root - 1) * page, root * page)
  }

  it.scopedLive.each(Object.keys(damages))(
    "ends with 69 and the advice to restore a backup, in one line without a stack: %s",
    function* (name) {
      const path = join(yield* folder, "music.sqlite")
      yield* withStore(path, ({ check }) => check)
      const root = yield* scalar(path, "SELECT rootpage FROM sqlite_master WHERE name = 'migrations'")
      const damaged = damages[name]?.(readFileSync(path), Number(root)) ?? Buffer.of()
      writeFileSync(path, damaged)
      const { code, output } = yield* refuse({ MUSIC_DATABASE_PATH: path })
      assert.strictEqual(code, 69)
      assert.match(
        output,
        /^music-backend: SQLite database \S+ is corrupt, or not a database \(SQLITE_\w+\)\. Restore a backup with music-backend restore.*\n$/
      )
      assert.isTrue(readFileSync(path).equals(damaged), "the file is as it was")
    }
  )
})

describe("A start behind a pooler in transaction mode", () => {
  it.scopedLive("ends at once, with reason and fix", function* () {
    const { url } = yield* pgProxy(yield* postgres.freshPath, { movesSessions: true })
    const { code, output } = yield* refuse({ MUSIC_DATABASE_URL: url })
    assert.strictEqual(code, 69)
    assert.match(output, /shares sessions between transactions.*pool_mode = session/)
    assert.notMatch(output, /Waiting for the database/)
  })
})

describe("A start that meets a defect of the program", () => {
  it.scopedLive("prints it with its stack, and ends with 70", function* () {
    const place = yield* folder
    const broken = join(place, "broken.cjs")
    writeFileSync(
      broken,
      `require("node:http").createServer = () => { throw new TypeError("no such transport") }
        require("node:module").syncBuiltinESMExports()`
    )
    mkdirSync(join(place, "data"))
    const { code, output } = yield* refuse(
      { MUSIC_DATABASE_PATH: join(place, "data/music.sqlite") },
      `export NODE_OPTIONS=--require=${broken};`
    )
    assert.strictEqual(code, 70, output)
    assert.match(output, /^music-backend: internal error: TypeError: no such transport\n +at /)
    deepStrictEqual(readdirSync(join(place, "data")), ["music.sqlite", "music.sqlite-lock"])
  })
})
