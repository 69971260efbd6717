import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { basename, join } from "node:path"
import { expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { sampleEntry, sampleReport } from "../layers/store/Samples.ts"
import { folder, freshPath, openStore, postgres, rawQuery, withStore } from "../layers/store/Stores.ts"
import { run } from "./Harness.ts"

const nameOf = (day: string) => `music-${day}T000000000Z.sqlite`

/** A database in use, a folder for copies, and `music-backend backup`. */
const world = Effect.gen(function* () {
  const place = yield* freshPath
  const { backups } = yield* openStore(place)
  const backup = (args: ReadonlyArray<string>, path = place) =>
    run(["backup", ...args], { MUSIC_DATABASE_PATH: path })
  return { place, backups, copies: yield* folder, backup }
})

it.scopedLive("backup --keep removes its own older copies, after the new one is complete", function* () {
  const { backup, backups, copies, place } = yield* world
  const old = ["20260101", "20260102", "20260103"].map(nameOf)
  const others = ["music-2026-01-01.sqlite", `${nameOf("20260101")}.txt`, "music.sqlite", "other"]
  const before = [...old, ...others].sort()
  for (const name of before) writeFileSync(join(copies, name), "")

  expect((yield* backup(["--keep", "1", copies], `${place}.none`)).exit).toBe(69)
  expect(readdirSync(copies).sort()).toEqual(before)
  expect(yield* backups.last).toEqual(Option.none())

  const { exit, json } = yield* backup(["--keep", "2", "--json", copies])
  const [name = ""] = readdirSync(copies).filter((file) => !before.includes(file))
  expect(name).toMatch(/^music-\d{8}T\d{9}Z\.sqlite$/)
  expect(readdirSync(copies).sort()).toEqual([...old.slice(2), ...others, name].sort())
  const removed = old.slice(0, 2).map((file) => join(copies, file))
  expect([exit, json]).toMatchObject([0, { file: join(copies, name), removed }])
  expect(statSync(join(copies, name)).mode & 0o777).toBe(0o600)
  expect(Option.getOrElse(yield* backups.last, () => 0)).toBeGreaterThan(Date.parse("2026-01-03"))

  for (const [args, code] of [
    [["--keep", "0", copies], 64],
    [["--keep", "2", "--overwrite", copies], 64],
    [["--keep", "2", join(copies, name)], 64],
    [["--record", copies], 64],
    [[], 64],
    [["--keep", "2", join(copies, "none")], 69]
  ] as const)
    expect([args, (yield* backup(args)).exit]).toEqual([args, code])
})

it.scopedLive("backup --keep removes no later copy, link, folder or database in use", function* () {
  const { backup, copies } = yield* world
  const elsewhere = join(yield* folder, "kept")
  const days = ["20250101", "20250102", "20250103", "20250104", "20250105", "20990101"]
  const [old, link, inside, live, other, later] = days.map(nameOf)
  for (const file of [elsewhere, join(copies, `${old}`), join(copies, `${later}`)]) writeFileSync(file, "")
  symlinkSync(elsewhere, join(copies, `${link}`))
  mkdirSync(join(copies, `${inside}`))
  yield* openStore(join(copies, `${live}`))
  for (const name of [`${other}`, `${other}-wal`]) writeFileSync(join(copies, name), "")
  const { exit, out } = yield* backup(["--keep", "1", copies], join(copies, `${live}`))
  const [, made = ""] = /^file +(\S+)/m.exec(out) ?? []
  expect(exit).toBe(0)
  const left = readdirSync(copies).filter((name) => !/-shm$|-wal$/.test(name))
  expect(left.sort()).toEqual([link, inside, live, other, basename(made), later].sort())
  expect(existsSync(elsewhere)).toBe(true)
})

it.scopedLive("backup --record records a backup by another tool on Postgres", function* () {
  const url = yield* postgres.freshPath
  const { backups } = yield* postgres.openStore(url)
  expect((yield* run(["backup", "--record"], { MUSIC_DATABASE_URL: url })).exit).toBe(0)
  expect(Option.isSome(yield* backups.last)).toBe(true)
})

it.scopedLive("restore replaces the database that a link leads to, and keeps the link", function* () {
  const place = yield* freshPath
  yield* withStore(place, ({ reports }) => reports.admit(sampleReport(), true))
  const links = yield* folder
  const environment = { MUSIC_DATABASE_PATH: join(links, "music.sqlite") }
  symlinkSync(place, environment.MUSIC_DATABASE_PATH)
  yield* run(["backup", join(links, "copy")], environment)
  yield* rawQuery(place, "DELETE FROM deliveries")
  const { err, exit } = yield* run(["restore", join(links, "copy"), "--overwrite"], environment)
  expect([exit, err]).toEqual([0, expect.stringContaining("searches the tracker")])
  const states = yield* rawQuery(place, "SELECT state, attempts FROM deliveries")
  expect(states).toEqual([{ state: "unknown", attempts: 1 }])
  expect(realpathSync(environment.MUSIC_DATABASE_PATH)).toBe(realpathSync(place))
})

it.effect("on PostgreSQL backup and restore are refused, without the password", function* () {
  const environment = { MUSIC_DATABASE_URL: "postgres://music:hidden@/music?host=/tmp" }
  for (const command of ["backup", "restore"])
    expect(yield* run([command, "music.dump"], environment)).toMatchObject({
      exit: 69,
      err: expect.stringMatching(
        /^(?!.*hidden).*PostgreSQL's own tools\. Run the commands of docs.operations\.md/s
      )
    })
})

it.scopedLive("backup takes no name beside which a killed command has left a log of SQLite", function* () {
  const path = yield* freshPath
  const copy = `${path}.copy`
  const offer = (place: string, ids: ReadonlyArray<string>, use: () => void = () => undefined) =>
    withStore(place, ({ spool }) =>
      Effect.tap(
        spool.offer(
          ids.map((id) => sampleEntry(id)),
          { limitBytes: 1_000_000 }
        ),
        () => Effect.sync(use)
      )
    )
  const waiting = (place: string) =>
    Effect.map(rawQuery(place, "SELECT record_id FROM spool"), (rows) => rows.length)
  yield* offer(path, ["first"])
  const backup = (...options: ReadonlyArray<string>) =>
    run(["backup", copy, ...options], { MUSIC_DATABASE_PATH: path })
  expect((yield* backup()).exit).toBe(0)
  // A command on the copy, which is killed.
  yield* offer(copy, ["second", "third"], () => copyFileSync(`${copy}-wal`, `${path}.log`))
  copyFileSync(`${path}.log`, `${copy}-wal`)
  const { err, exit } = yield* backup("--overwrite")
  expect([exit, err]).toEqual([69, expect.stringContaining(`${copy}-wal`)])
  yield* Effect.sync(() => rmSync(`${copy}-wal`))
  expect((yield* backup("--overwrite")).exit).toBe(0)
  expect(yield* waiting(copy)).toBe(1)
})
