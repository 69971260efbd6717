/** Backups and restores by the command line, beside a server, after its end, and of files that are damaged. */
import fs, {
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import { basename, dirname, join } from "node:path"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Fiber, Option } from "effect"
import { assert, beforeAll, describe, expect, vi } from "vitest"
import { run } from "./Harness.ts"
import { sampleEntry } from "../layers/store/Samples.ts"
import {
  folder,
  newPath,
  openStore,
  postgres,
  rawClient,
  rawQuery,
  withStore
} from "../layers/store/Stores.ts"
import { eventually } from "../world/Waiting.ts"
import { build, bundleBefore, ended, kill, program as cli, serve, start } from "../world/Fleet.ts"
import { it } from "../world/Test.ts"
import { garble, scalar, spoolLawHolds } from "../faults/Databases.ts"
import { telemetry } from "../faults/Server.ts"

beforeAll(bundleBefore)
beforeAll(build)

/** A database with so many waiting records of about a kilobyte, closed, and the place of its copy. */
const filled = (count: number) =>
  Effect.gen(function* () {
    const path = yield* newPath
    const json = JSON.stringify({ text: "x".repeat(1_000) })
    const entries = Array.from({ length: count }, (_, index) => sampleEntry(`first-${index}`, { json }))
    yield* withStore(path, ({ spool }) => spool.offer(entries, { limitBytes: 1_000_000_000 }))
    return { path, copy: join(dirname(path), "copy.sqlite") }
  })

const command = (path: string, ...args: ReadonlyArray<string>) => run(args, { MUSIC_DATABASE_PATH: path })
/** Runs a command that must succeed. */
const done = (path: string, ...args: ReadonlyArray<string>) =>
  Effect.map(command(path, ...args), ({ err, exit }) => deepStrictEqual([exit, err], [0, ""]))
const waitingIn = (path: string) => Effect.map(scalar(path, "SELECT COUNT(*) FROM spool"), Number)
const acceptedIn = (path: string) =>
  Effect.map(
    scalar(path, "SELECT SUM(accepted) FROM spool_counts WHERE table_name = 'musicclidaemon'"),
    Number
  )
const filesBeside = (path: string) => readdirSync(dirname(path)).sort()
/** The database that a restore has replaced. */
const asideOf = (path: string) =>
  filesBeside(path)
    .filter((name) => /^music\.sqlite\.before-\d{8}T\d{9}Z$/.test(name))
    .map((name) => join(dirname(path), name))[0] ?? ""
const damage = (path: string) => garble(path, 4096 * 20, 4096 * 3)

it.scopedLive("Beside a writing server a backup is whole and private, and a restore refused", function* () {
  const { copy, path } = yield* filled(1_000)
  const served = yield* serve({ MUSIC_DATABASE_PATH: path })
  let acknowledged = 0
  const post = Effect.map(telemetry(served), ({ status }) => {
    if (status === 204) acknowledged += 1
  })
  const further = Effect.suspend(() => {
    const before = acknowledged
    return Effect.as(
      eventually("a further write", () => acknowledged > before),
      acknowledged
    )
  })
  const writing = yield* Effect.fork(Effect.forever(post))
  yield* further
  const before = acknowledged
  yield* done(path, "backup", copy)
  yield* further
  assert.isTrue(yield* spoolLawHolds(copy))
  assert.isAtLeast(yield* acceptedIn(copy), 1_000 + before)
  assert.strictEqual(statSync(copy).mode & 0o777, 0o600)

  const files = filesBeside(path)
  const refused = yield* command(path, "restore", copy, "--overwrite")
  assert.match(refused.err, /is in use.*Stop all servers/s)
  deepStrictEqual(filesBeside(path), files)
  yield* further

  // After a kill, the log that is left goes aside with its database.
  yield* Fiber.interrupt(writing)
  yield* Effect.promise(() => kill(served.server))
  assert.isTrue(existsSync(`${path}-wal`))
  yield* done(path, "restore", copy, "--overwrite")
  assert.isFalse(existsSync(`${path}-wal`))
  assert.isAtLeast(yield* acceptedIn(asideOf(path)), 1_000 + acknowledged)
  assert.strictEqual((yield* telemetry(yield* serve({ MUSIC_DATABASE_PATH: path }))).status, 204)
})

describe("A backup", () => {
  type Change = (path: string, copy: string) => void
  const none: Change = () => undefined
  const leaving =
    (suffix: string): Change =>
    (_, copy) =>
      writeFileSync(`${copy}${suffix}`, "precious")
  const refusals: ReadonlyArray<readonly [string, Change, file: string, says: RegExp]> = [
    ["over another file", leaving(""), "copy.sqlite", /exists already/],
    ["over its log", none, "music.sqlite-wal", /exists already/],
    ["into no folder", none, "no/copy.sqlite", /existing, writable folder/],
    // SQLite would read the log as that of the copy.
    ["beside a log", leaving("-wal"), "copy.sqlite", /copy\.sqlite-wal is left/],
    ["beside a journal", leaving("-journal"), "copy.sqlite", /-journal is left/],
    ["of a damaged database", damage, "copy.sqlite", /corrupt.*earlier backup/s]
  ]
  it.scopedLive("fails and changes no file in the place of another, or of a damaged database", function* () {
    for (const [name, change, file, says] of refusals) {
      const { copy, path } = yield* filled(200)
      for (const suffix of ["-wal", "-lock"]) writeFileSync(`${path}${suffix}`, "")
      change(path, copy)
      const contents = () =>
        filesBeside(path)
          .filter((one) => !/-(?:wal|shm|lock)$/.test(one))
          .map((one) => `${one} ${readFileSync(join(dirname(path), one), "latin1")}`)
      const before = contents()
      const { err, exit } = yield* command(path, "backup", join(dirname(path), file))
      assert.notStrictEqual(exit, 0)
      assert.match(err, says, name)
      assert.isTrue(contents().join() === before.join(), name)
    }
  })

  it.scopedLive("replaces no other that was made under its name at the same time", function* () {
    const { copy, path } = yield* filled(1)
    const both = yield* Effect.all(
      [1, 2].map(() => command(path, "backup", copy)),
      { concurrency: 2 }
    )
    deepStrictEqual(both.map(({ exit }) => exit).sort(), [0, 69])
    assert.match(both.map(({ err }) => err).join(""), /^music-backend: the file \S+ exists already\./)
  })

  it.scopedLive("on a full disk fails and leaves no file", function* () {
    const { copy, path } = yield* filled(2_000)
    const shell = `ulimit -f 1000; exec "$@"`
    const program = [process.execPath, cli, "backup", copy]
    const running = start("sh", ["-c", shell, "sh", ...program], { MUSIC_DATABASE_PATH: path })
    const { output } = yield* ended(running)
    assert.match(output, /\(SQLITE_(?:IOERR|FULL)\S*\).*folder with free space/s)
    assert.isEmpty(filesBeside(path).filter((name) => name.includes("copy")))
  })
})

describe("A restore", () => {
  const newer = "INSERT INTO migrations (migration_id, name) VALUES (9999, 'later')"
  const files: ReadonlyArray<readonly [change: (copy: string) => unknown, says: RegExp]> = [
    [(copy) => rmSync(copy), /SQLITE_CANTOPEN/],
    // A path that cannot be looked at.
    [(copy) => [rmSync(copy), symlinkSync(basename(copy), copy)], /SQLITE_CANTOPEN.*name of the file/s],
    [(copy) => writeFileSync(copy, "a text\n".repeat(900)), /corrupt, or not a database/],
    [(copy) => writeFileSync(copy, ""), /not a database of this program/],
    [damage, /corrupt/],
    [(copy) => writeFileSync(copy, readFileSync(copy).subarray(0, 4096 * 20)), /corrupt/],
    [(copy) => Effect.runPromise(rawQuery(copy, newer)), /newer schema/]
  ]
  it.scopedLive("of an unusable file is refused, and the database stays", function* () {
    const { copy, path } = yield* filled(200)
    for (const [change, says] of files) {
      rmSync(copy, { force: true })
      yield* done(path, "backup", copy)
      yield* Effect.promise(async () => change(copy))
      for (const [option, code] of [
        ["--verify", 1],
        ["--overwrite", 69]
      ] as const) {
        const { err, exit } = yield* command(path, "restore", copy, option)
        assert.match(err, says)
        deepStrictEqual([exit, err.includes(basename(copy))], [code, true])
      }
      assert.strictEqual(yield* waitingIn(path), 200)
    }
  })

  it.scopedLive("keeps the other database aside, replaces with --overwrite only, and creates", function* () {
    const { copy, path } = yield* filled(20)
    yield* done(path, "backup", copy)
    yield* withStore(path, ({ spool }) => spool.offer([sampleEntry("since then")], { limitBytes: 1e9 }))
    assert.match((yield* command(path, "restore", copy)).err, /exists already/)
    assert.match((yield* command(path, "restore", path, "--overwrite")).err, /is the database itself/)
    const verified = yield* command(path, "restore", "--verify", copy, "--json")
    expect(verified.json).toMatchObject({ usable: true, schema: 1 })
    assert.strictEqual(yield* waitingIn(path), 21)
    const restored = yield* command(path, "restore", copy, "--overwrite", "--json")
    expect(restored.json).toMatchObject({ file: path, before: asideOf(path), doubted: 0 })
    assert.strictEqual(statSync(path).mode & 0o777, 0o600)
    deepStrictEqual([yield* waitingIn(path), yield* waitingIn(asideOf(path))], [20, 21])
    yield* withStore(path, ({ check }) => check)
    assert.isTrue(yield* spoolLawHolds(path))
    const elsewhere = join(dirname(path), "new", "music.sqlite")
    yield* done(elsewhere, "restore", copy)
    assert.strictEqual(yield* waitingIn(elsewhere), 20)
  })

  it.scopedLive("replaces a database that cannot be opened, and takes a copy with its log", function* () {
    const { copy, path } = yield* filled(3)
    const sql = yield* rawClient(path)
    yield* sql.unsafe("UPDATE spool SET bytes = bytes")
    for (const suffix of ["", "-wal"]) copyFileSync(`${path}${suffix}`, `${copy}${suffix}`)
    const damaged = yield* newPath
    writeFileSync(damaged, "no database any more ".repeat(500))
    writeFileSync(`${damaged}-wal`, "an old log")
    yield* done(damaged, "restore", copy, "--overwrite")
    assert.include(readFileSync(asideOf(damaged), "utf8"), "no database any more")
    assert.isFalse(existsSync(`${damaged}-wal`))
    assert.strictEqual(yield* waitingIn(damaged), 3)
  })
})

/** Lets a mock of a function of `fs` be in place until the scope closes. */
const untilEnd = (mock: { readonly mockRestore: () => void }) => {
  syncBuiltinESMExports()
  return Effect.addFinalizer(() => Effect.sync(() => [mock.mockRestore(), syncBuiltinESMExports()]))
}

/** Lets calls of a function of `fs` fail in that way. */
const failing = (name: "lchownSync" | "renameSync", code: string) =>
  untilEnd(
    vi.spyOn(fs, name).mockImplementation(() => {
      throw Object.assign(new Error(name), { code })
    })
  )

it.scopedLive("A copy that cannot get its name leaves no file", function* () {
  const { copy, path } = yield* filled(1)
  yield* failing("renameSync", "ENOSPC")
  assert.match((yield* command(path, "backup", copy)).err, /ENOSPC/)
  assert.isFalse(existsSync(copy))
})

it.scopedLive("A restore replaces no database that a server makes while the copy is written", function* () {
  const { copy, path } = yield* filled(3)
  yield* done(path, "backup", copy)
  const lost = yield* newPath
  const opening = vi.spyOn(fs, "openSync").mockImplementationOnce((...args) => {
    copyFileSync(path, lost)
    return fs.openSync(...args)
  })
  yield* untilEnd(opening)
  assert.match((yield* command(lost, "restore", copy)).err, /exists already/)
  deepStrictEqual(filesBeside(lost), ["music.sqlite"])
})

it.scopedLive("In a folder or with a group of others a database is restored without root", function* () {
  const { copy, path } = yield* filled(3)
  yield* done(path, "backup", copy)
  const lost = join(yield* folder, "music.sqlite")
  if (process.getuid?.() === 0) {
    chownSync(dirname(lost), 65_534, 65_534)
    chownSync(path, 0, 65_534)
  }
  yield* failing("lchownSync", "EPERM")
  yield* done(lost, "restore", copy)
  yield* done(path, "restore", copy, "--overwrite")
  assert.strictEqual(yield* waitingIn(lost), 3)
})

it.scopedLive(
  "Where the folder cannot be synced, a copy and a restored database are in place, and that is said",
  function* () {
    const { copy, path } = yield* filled(3)
    const syncing = vi.spyOn(fs, "fsyncSync").mockImplementation((descriptor) => {
      if (fs.fstatSync(descriptor).isDirectory()) throw Object.assign(new Error("sync"), { code: "EINVAL" })
    })
    yield* untilEnd(syncing)
    const says = /is in its place, but its folder cannot be synced \(EINVAL\).*run sync\..*\.$/
    const fails = (...args: Parameters<typeof command>) =>
      Effect.map(command(...args), ({ err, exit }) => {
        assert.match(err, says)
        assert.strictEqual(exit, 69)
      })
    yield* fails(path, "backup", copy)
    // The log of a server that was killed, and a database too damaged to be locked.
    const sql = yield* rawClient(path)
    yield* sql.unsafe("UPDATE spool SET bytes = bytes")
    const log = readFileSync(`${path}-wal`)
    const damaged = yield* newPath
    writeFileSync(damaged, "no database any more ".repeat(500))
    writeFileSync(`${damaged}-wal`, log)
    yield* fails(damaged, "restore", copy, "--overwrite")
    // The old log would be read as that of the new database.
    deepStrictEqual([existsSync(`${damaged}-wal`), readFileSync(`${asideOf(damaged)}-wal`)], [false, log])
    assert.strictEqual(yield* waitingIn(damaged), 3)
  }
)

const nameOf = (day: string) => `music-${day}T000000000Z.sqlite`

it.scopedLive("backup --keep removes its own older copies, after the new one is complete", function* () {
  const copies = yield* folder
  const at = (name: string) => join(copies, name)
  const days = ["20250101", "20250102", "20250103", "20250104", "20250105", "20250106", "20990101"]
  const [live = "", oldest = "", old = "", link = "", inside = "", used = "", later = ""] = days.map(nameOf)
  const others = ["music-2026-01-01.sqlite", `${oldest}.txt`, "music.sqlite", `${used}-wal`]
  const { backups } = yield* openStore(at(live))
  const backup = (args: ReadonlyArray<string>, path = at(live)) => command(path, "backup", ...args)
  for (const name of [oldest, old, used, later, ...others]) writeFileSync(at(name), "")
  symlinkSync(at("music.sqlite"), at(link))
  mkdirSync(at(inside))
  const names = () => readdirSync(copies).filter((name) => !name.startsWith(`${live}-`))
  const before = names()

  expect((yield* backup(["--keep", "1", copies], at("none"))).exit).toBe(69)
  expect(names()).toEqual(before)
  expect(yield* backups.last).toEqual(Option.none())

  // Links, folders, copies of a later time and databases in use stay.
  const { exit, json } = yield* backup(["--keep", "2", "--json", copies])
  const [name = ""] = names().filter((file) => !before.includes(file))
  expect(name).toMatch(/^music-\d{8}T\d{9}Z\.sqlite$/)
  expect(names()).toEqual([...before, name].filter((file) => file !== oldest).sort())
  expect([exit, json]).toMatchObject([0, { file: at(name), removed: [at(oldest)] }])
  expect(statSync(at(name)).mode & 0o777).toBe(0o600)
  expect(Option.getOrElse(yield* backups.last, () => 0)).toBeGreaterThan(Date.parse("2026-01-03"))

  symlinkSync("loop", at("loop"))
  for (const [args, code] of [
    [["--keep", "2", at("loop")], 69],
    [["--keep", "0", copies], 64],
    [["--keep", "2", at(name)], 64],
    [["--record", copies], 64],
    [[], 64],
    [["--keep", "2", at("none")], 69]
  ] as const)
    expect([args, (yield* backup(args)).exit]).toEqual([args, code])
})

it.scopedLive("backup --record records a backup by another tool on Postgres", function* () {
  const url = yield* postgres.freshPath
  const { backups } = yield* postgres.openStore(url)
  expect((yield* run(["backup", "--record"], { MUSIC_DATABASE_URL: url })).exit).toBe(0)
  expect(Option.isSome(yield* backups.last)).toBe(true)
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
