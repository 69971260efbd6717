/** Starts of the real process that must fail, and say why. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect } from "effect"
import { assert, beforeAll, describe } from "vitest"
import { folder, newPath, rawQuery, withStore } from "../layers/store/Stores.ts"
import { bundleBefore, refuse, serve, stop } from "../world/Fleet.ts"
import { it } from "../world/Test.ts"
import { refusalOf, scalar } from "./Databases.ts"
import { expectRound, signIn } from "./Server.ts"

beforeAll(bundleBefore)

/** A path, or what makes a file in a folder and names it. */
const paths: Readonly<Record<string, string | ((place: string) => string)>> = {
  "in /proc": "/proc/music.sqlite",
  "a folder": ".",
  "below a file": (place) => {
    writeFileSync(join(place, "file"), "")
    return "file/below/music.sqlite"
  }
}

const unusable =
  /^SQLite database \S+ cannot be opened, read or written(?: \(\w+\))?\. Set MUSIC_DATABASE_PATH .*$/
const corrupt =
  /^SQLite database \S+ is corrupt, or not a database \(SQLITE_\w+\)\. Restore a backup with music-backend restore.*$/

it.scopedLive.each(Object.entries(paths))("A refused path leaves nothing: %s", function* ([, given]) {
  const place = yield* folder
  const name = typeof given === "string" ? given : given(place)
  const before = readdirSync(place)
  const databasePath = name.startsWith("/") ? name : `${place}/${name}`
  assert.match(yield* refusalOf({ databasePath }), unusable)
  deepStrictEqual(readdirSync(place), before)
})

const page = 4_096
const overwrite = (bytes: Buffer, from: number, to: number) => bytes.fill(0xa5, from, to)
/** `root` is the first page of the migrations. */
const damages: Readonly<Record<string, (bytes: Buffer, root: number) => Buffer>> = {
  "garbage at its head": (bytes) => overwrite(bytes, 0, page),
  "half of it cut off": (bytes) => bytes.subarray(0, bytes.length / 2),
  "the migrations": (bytes, root) => overwrite(bytes, (root - 1) * page, root * page)
}

const damagedBy = (damage: (bytes: Buffer, root: number) => Buffer) =>
  Effect.gen(function* () {
    const path = yield* newPath
    yield* withStore(path, ({ check }) => check)
    const root = yield* scalar(path, "SELECT rootpage FROM sqlite_master WHERE name = 'migrations'")
    const bytes = damage(readFileSync(path), Number(root))
    writeFileSync(path, bytes)
    return { path, isUnchanged: () => readFileSync(path).equals(bytes) }
  })

it.scopedLive.each(Object.entries(damages))(
  "A damaged database is refused with the advice to restore a backup, and stays as it was: %s",
  function* ([, damage]) {
    const { isUnchanged, path } = yield* damagedBy(damage)
    assert.match(yield* refusalOf({ databasePath: path }), corrupt)
    assert.isTrue(isUnchanged())
  }
)

describe.concurrent("A start", () => {
  it.scopedLive("on a full disk ends with 69, and makes nothing; the next one serves", function* () {
    const path = yield* newPath
    const full = /^music-backend: SQLite database \S+ .*(?:SQLITE_IOERR|SQLITE_FULL).*\n$/
    // 512 bytes each: enough to open it, not to write the tables.
    const { code, output } = yield* refuse({ MUSIC_DATABASE_PATH: path }, "ulimit -f 72;")
    assert.strictEqual(code, 69)
    assert.match(output, full)
    deepStrictEqual(yield* rawQuery(path, "SELECT name FROM sqlite_master"), [])
    const served = yield* serve({ MUSIC_DATABASE_PATH: path })
    yield* expectRound(served, yield* signIn(served))
    assert.strictEqual((yield* stop(served.server)).code, 0)
  })

  it.scopedLive("that meets a defect prints it with its stack, and ends with 70", function* () {
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
