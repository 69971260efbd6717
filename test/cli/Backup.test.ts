import { existsSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { folder, freshPath, openStore, postgres } from "../layers/store/Stores.ts"
import { run } from "./Harness.ts"

it.scopedLive(
  "backup --keep removes only its own older copies, after the new one is complete, and records the time",
  function* () {
    const place = yield* freshPath
    const environment = { MUSIC_DATABASE_PATH: place }
    const { backups } = yield* openStore(place)
    const copies = yield* folder
    const old = ["20260101T000000000Z", "20260102T000000000Z", "20260103T000000000Z"].map(
      (at) => `music-${at}.sqlite`
    )
    const others = [
      "music-2026-01-01.sqlite",
      "music-20260101T000000000Z.sqlite.txt",
      "music.sqlite",
      "other"
    ]
    for (const name of [...old, ...others]) writeFileSync(join(copies, name), "")

    // A backup that fails removes nothing.
    const absent = yield* run(["backup", "--keep", "1", copies], { MUSIC_DATABASE_PATH: `${place}.none` })
    expect(absent.exit).toBe(69)
    expect(readdirSync(copies).sort()).toEqual([...old, ...others].sort())
    expect(yield* backups.last).toEqual(Option.none())

    const made = yield* run(["backup", "--keep", "2", copies], environment)
    expect([made.exit, made.err]).toEqual([0, ""])
    const [name = ""] = readdirSync(copies).filter((file) => ![...old, ...others].includes(file))
    expect(name).toMatch(/^music-\d{8}T\d{9}Z\.sqlite$/)
    expect(readdirSync(copies).sort()).toEqual([...old.slice(2), ...others, name].sort())
    expect(made.out.match(/^removed +\S+$/gm)).toEqual(
      old.slice(0, 2).map((file) => `removed  ${join(copies, file)}`)
    )
    expect(statSync(join(copies, name)).mode & 0o777).toBe(0o600)
    expect(Option.getOrElse(yield* backups.last, () => 0)).toBeGreaterThan(Date.parse("2026-01-03"))

    for (const args of [
      ["--keep", "0", copies],
      ["--keep", "2", "--overwrite", copies],
      ["--keep", "2", join(copies, name)],
      ["--record", copies],
      []
    ])
      expect((yield* run(["backup", ...args], environment)).exit).toBe(64)
    const nowhere = yield* run(["backup", "--keep", "2", join(copies, "none")], environment)
    expect([nowhere.exit, nowhere.err]).toEqual([
      69,
      expect.stringContaining("none does not exist. Create it, or choose")
    ])
  }
)

it.scopedLive("backup --keep never removes its own copy, a later one, a link or a folder", function* () {
  const place = yield* freshPath
  yield* openStore(place)
  const copies = yield* folder
  const elsewhere = join(yield* folder, "kept")
  const [old, link, inside, later] = ["20250101", "20250102", "20250103", "20990101"].map(
    (day) => `music-${day}T000000000Z.sqlite`
  )
  for (const file of [elsewhere, join(copies, `${old}`), join(copies, `${later}`)]) writeFileSync(file, "")
  symlinkSync(elsewhere, join(copies, `${link}`))
  mkdirSync(join(copies, `${inside}`))
  const { err, exit, json } = yield* run(["backup", "--keep", "1", "--json", copies], {
    MUSIC_DATABASE_PATH: place
  })
  expect([exit, err]).toEqual([0, ""])
  const { file, removed } = Schema.decodeUnknownSync(
    Schema.Struct({ file: Schema.String, removed: Schema.Array(Schema.String) })
  )(json)
  expect(removed).toEqual([join(copies, `${old}`)])
  expect(readdirSync(copies).sort()).toEqual([link, inside, basename(file), later])
  expect(existsSync(elsewhere)).toBe(true)
})

it.scopedLive(
  "backup --keep never removes a database in use, also one with the name of a copy",
  function* () {
    const copies = yield* folder
    const [live, other] = ["20250101", "20250102"].map((day) =>
      join(copies, `music-${day}T000000000Z.sqlite`)
    )
    yield* openStore(`${live}`)
    writeFileSync(`${other}`, "")
    writeFileSync(`${other}-wal`, "")
    const { err, exit } = yield* run(["backup", "--keep", "1", copies], { MUSIC_DATABASE_PATH: `${live}` })
    expect([exit, err]).toEqual([0, ""])
    expect([existsSync(`${live}`), existsSync(`${other}`)]).toEqual([true, true])
  }
)

it.scopedLive("backup --record records a backup by another tool on Postgres", function* () {
  const url = yield* postgres.freshPath
  const { backups } = yield* postgres.openStore(url)
  const recorded = yield* run(["backup", "--record"], { MUSIC_DATABASE_URL: url })
  expect([recorded.exit, recorded.out]).toEqual([0, expect.stringMatching(/\nrecorded +\S+Z$/)])
  expect(Option.isSome(yield* backups.last)).toBe(true)
})
