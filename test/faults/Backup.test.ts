import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync
} from "node:fs"
import { basename, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { backup } from "../../src/layers/store/backup/Backup.ts"
import { restore, verifyBackup } from "../../src/layers/store/backup/Restore.ts"
import { applicationId } from "../../src/layers/store/sqlite/ApplicationId.ts"
import { latestMigration } from "../../src/layers/store/migrations/Migrations.ts"
import { start } from "../support/Process.ts"
import { scalar, spoolLawHolds } from "./Databases.ts"
import { folder, openStore, rawClient, rawQuery, sampleEntry, withStore } from "../layers/store/Stores.ts"
import { patience, until } from "../support/Waiting.ts"

const limit = { limitBytes: 1_000_000_000 }
const placeOf = (databasePath: string) => ({ databasePath, databaseUrl: Option.none() })

/** A database with so many waiting records of about a kilobyte, closed. */
const filled = (count: number) =>
  Effect.gen(function* () {
    const path = join(yield* folder, "music.sqlite")
    yield* withStore(path, ({ spool }) =>
      spool.offer(
        Array.from({ length: count }, (_, index) =>
          sampleEntry(`first-${index}`, { json: JSON.stringify({ text: "x".repeat(1_000) }) })
        ),
        limit
      )
    )
    return path
  })

const waitingIn = (path: string) => scalar(path, "SELECT COUNT(*) FROM spool")

/** Runs `Program.ts`, killed with the scope. */
const program = (shell: string, ...parameters: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const file = fileURLToPath(new URL("./Program.ts", import.meta.url))
      return start(
        "sh",
        ["-c", `${shell} exec "$@"`, "sh", process.execPath, "--import", "tsx", file, ...parameters],
        {}
      )
    }),
    ({ child, ended }) =>
      Effect.promise(() => {
        child.kill("SIGKILL")
        return ended
      })
  )

/** A database with so many waiting records, and its backup. */
const backedUp = (count: number) =>
  Effect.gen(function* () {
    const path = yield* filled(count)
    const copy = join(dirname(path), "copy.sqlite")
    return { path, copy, facts: yield* backup(placeOf(path), copy) }
  })

/** Neither a copy nor a part of it. */
const assertNoCopy = (path: string) =>
  deepStrictEqual(
    readdirSync(dirname(path)).filter((name) => name.includes("copy")),
    []
  )

/** Overwrites pages with invalid bytes. */
const garble = (path: string, from: number, length: number) => {
  const descriptor = openSync(path, "r+")
  writeSync(descriptor, Buffer.alloc(length, 0xa5), 0, length, from)
  closeSync(descriptor)
}

describe("A backup", () => {
  it.scoped("is one complete private file, and returns its content", function* () {
    const { copy, facts, path } = yield* backedUp(50)
    assert.strictEqual(facts.file, copy)
    assert.strictEqual(facts.bytes, statSync(copy).size)
    assert.strictEqual(facts.migration, latestMigration)
    assert.strictEqual(facts.rows.spool, 50)
    assert.strictEqual(facts.rows.reports, 0)
    assert.strictEqual(statSync(copy).mode & 0o777, 0o600)
    deepStrictEqual(yield* verifyBackup(copy), facts)
    // After reading it, no log and no partial copy exists beside it.
    deepStrictEqual(
      readdirSync(dirname(path)).filter((name) => !name.startsWith("music.sqlite")),
      ["copy.sqlite"]
    )
  })

  it.scopedLive(
    "completes while another process commits continuously, and holds everything acknowledged before",
    function* () {
      const path = yield* filled(8_000)
      const writer = yield* program("", "write", path)
      /** One line for each commit. */
      const acknowledged = () => writer.output().split("\n").length - 1
      yield* Effect.promise(() => writer.says(/\n/))
      for (const name of ["one.sqlite", "two.sqlite"]) {
        const before = acknowledged()
        const copy = join(dirname(path), name)
        const { rows } = yield* backup(placeOf(path), copy).pipe(
          Effect.timeoutFail({ duration: patience, onTimeout: () => "no end" as const })
        )
        assert.isAtLeast(rows.spool ?? 0, 8_000 + before)
        assert.isAbove(acknowledged(), before, "the writer was not blocked")
        assert.isTrue(yield* spoolLawHolds(copy))
      }
    }
  )

  it.scopedLive("reports its steps", function* () {
    const path = yield* filled(10)
    const steps: Array<string> = []
    yield* backup(placeOf(path), join(dirname(path), "copy.sqlite"), {
      progress: (step) => Effect.sync(() => steps.push(step))
    })
    deepStrictEqual(steps, ["copying", "checking"])
  })

  it.scopedLive("keeps the marks of the database", function* () {
    const path = yield* filled(1)
    const copy = join(dirname(path), "copy.sqlite")
    yield* rawQuery(path, "PRAGMA user_version = 7")
    yield* backup(placeOf(path), copy)
    assert.strictEqual(yield* scalar(copy, "PRAGMA application_id"), applicationId)
    assert.strictEqual(yield* scalar(copy, "PRAGMA user_version"), 7)
  })

  it.scoped("replaces a file only with overwrite", function* () {
    const path = yield* filled(5)
    const copy = join(dirname(path), "copy.sqlite")
    writeFileSync(copy, "precious")
    const { fix, reason } = yield* Effect.flip(backup(placeOf(path), copy))
    assert.include(reason, `${copy} exists already`)
    assert.include(fix, "another name")
    assert.strictEqual(readFileSync(copy, "utf8"), "precious")
    const { rows } = yield* backup(placeOf(path), copy, { overwrite: true })
    assert.strictEqual(rows.spool, 5)
  })

  it.scoped("never overwrites the database itself", function* () {
    const path = yield* filled(5)
    const { reason } = yield* Effect.flip(backup(placeOf(path), path, { overwrite: true }))
    assert.include(reason, "is the database itself")
    assert.strictEqual(yield* waitingIn(path), 5)
  })

  it.scoped("needs a database and a folder, and creates neither", function* () {
    const directory = yield* folder
    const path = join(directory, "music.sqlite")
    const missing = yield* Effect.flip(backup(placeOf(path), join(directory, "copy.sqlite")))
    assert.include(missing.reason, `no database at ${path}`)
    const database = yield* filled(1)
    const nowhere = yield* Effect.flip(backup(placeOf(database), join(directory, "no", "copy.sqlite")))
    assert.include(nowhere.fix, "existing, writable folder")
    deepStrictEqual(readdirSync(directory), [])
  })

  it.scoped("of a damaged database fails and leaves no file", function* () {
    const path = yield* filled(200)
    garble(path, 4096 * 20, 4096 * 3)
    const copy = join(dirname(path), "copy.sqlite")
    const { fix, reason } = yield* Effect.flip(backup(placeOf(path), copy))
    assert.match(reason, /corrupt/)
    assert.include(reason, path)
    assert.include(fix, "earlier backup")
    assertNoCopy(path)
  })

  it.scopedLive("on a full disk fails and leaves no file", function* () {
    const path = yield* filled(2_000)
    const copy = join(dirname(path), "copy.sqlite")
    const { ended, output } = yield* program("ulimit -f 1000;", "backup", path, copy)
    yield* Effect.promise(() => ended)
    assert.match(output(), /or its copy in .* \(SQLITE_(?:IOERR|FULL)\S*\).*Free some space/)
    assertNoCopy(path)
  })

  it.scopedLive("that is interrupted leaves no file", function* () {
    const path = yield* filled(8_000)
    const copy = join(dirname(path), "copy.sqlite")
    const copying = yield* Effect.fork(backup(placeOf(path), copy))
    const partial = () => readdirSync(dirname(path)).filter((name) => name.includes("partial"))
    yield* until(() => partial().length > 0)
    yield* Fiber.interrupt(copying)
    assertNoCopy(path)
    assert.strictEqual(yield* waitingIn(path), 8_000)
  })
})

describe("Verifying", () => {
  it.scoped("refuses unusable files, with their name and problem", function* () {
    const directory = yield* folder
    const file = (name: string) => join(directory, name)
    const reasonOf = (name: string) =>
      Effect.map(Effect.flip(verifyBackup(file(name))), ({ reason }) => {
        assert.include(reason, file(name))
        return reason
      })

    assert.match(yield* reasonOf("missing"), /no backup/)
    writeFileSync(file("text"), "this is a text file\n".repeat(300))
    assert.match(yield* reasonOf("text"), /corrupt, or not a database/)
    writeFileSync(file("empty"), "")
    assert.match(yield* reasonOf("empty"), /not a database of this program/)
    yield* rawQuery(file("foreign"), "CREATE TABLE migrations (migration_id INTEGER)")
    assert.match(yield* reasonOf("foreign"), /not a database of this program/)

    const path = yield* filled(200)
    yield* backup(placeOf(path), file("damaged"))
    garble(file("damaged"), 4096 * 20, 4096 * 3)
    assert.match(yield* reasonOf("damaged"), /corrupt/)
    yield* backup(placeOf(path), file("short"))
    writeFileSync(file("short"), readFileSync(file("short")).subarray(0, 4096 * 20))
    assert.match(yield* reasonOf("short"), /corrupt/)

    yield* backup(placeOf(path), file("newer"))
    yield* rawQuery(file("newer"), "INSERT INTO migrations (migration_id, name) VALUES (9999, 'future')")
    assert.match(yield* reasonOf("newer"), /newer schema/)
  })
})

describe("Restoring", () => {
  it.scopedLive(
    "brings back the content of the backup, keeps the other database aside, and the store opens",
    function* () {
      const { copy, path } = yield* backedUp(20)
      yield* withStore(path, ({ spool }) => spool.offer([sampleEntry("since then")], limit))

      const { aside, rows, file } = yield* restore(placeOf(path), copy, { overwrite: true })
      assert.strictEqual(file, path)
      assert.strictEqual(rows.spool, 20)
      assert.strictEqual(statSync(path).mode & 0o777, 0o600)
      const old = Option.getOrThrow(aside)
      assert.match(basename(old), /^music\.sqlite\.before-\d{8}T\d{9}Z$/)
      deepStrictEqual(readdirSync(dirname(path)).sort(), ["copy.sqlite", "music.sqlite", basename(old)])
      assert.strictEqual(yield* waitingIn(old), 21)
      yield* withStore(path, ({ spool }) => spool.offer([sampleEntry("afterwards")], limit))
      assert.strictEqual(yield* waitingIn(path), 21)
      assert.isTrue(yield* spoolLawHolds(path))
      assert.strictEqual((yield* verifyBackup(copy)).rows.spool, 20)
    }
  )

  it.scoped("creates the database when there is none", function* () {
    const { copy, path } = yield* backedUp(3)
    const elsewhere = join(dirname(path), "new", "music.sqlite")
    const { aside } = yield* restore(placeOf(elsewhere), copy)
    assert.isTrue(Option.isNone(aside))
    assert.strictEqual(yield* waitingIn(elsewhere), 3)
  })

  it.scoped("replaces a file only with overwrite", function* () {
    const { copy, path } = yield* backedUp(3)
    const { reason } = yield* Effect.flip(restore(placeOf(path), copy))
    assert.include(reason, `${path} exists already`)
    const itself = yield* Effect.flip(restore(placeOf(path), path, { overwrite: true }))
    assert.include(itself.reason, "is the database itself")
  })

  it.scopedLive("is refused while a server has the database open, and changes nothing", function* () {
    const { copy, path } = yield* backedUp(3)
    const { spool } = yield* openStore(path)
    yield* spool.offer([sampleEntry("since then")], limit)
    const before = readdirSync(dirname(path))
    const { fix, reason } = yield* Effect.flip(restore(placeOf(path), copy, { overwrite: true }))
    assert.include(reason, `${path} is in use`)
    assert.include(fix, "Stop all servers")
    deepStrictEqual(readdirSync(dirname(path)), before)
    yield* spool.offer([sampleEntry("and later")], limit)
    assert.strictEqual(yield* waitingIn(path), 5)
  })

  it.scopedLive("after a kill moves the remaining log aside with the old database", function* () {
    const { copy, path } = yield* backedUp(3)
    const writer = yield* program("", "write", path)
    yield* Effect.promise(() => writer.says(/\n/))
    writer.child.kill("SIGKILL")
    yield* Effect.promise(() => writer.ended)
    assert.isTrue(existsSync(`${path}-wal`))
    const { aside } = yield* restore(placeOf(path), copy, { overwrite: true })
    assert.isFalse(existsSync(`${path}-wal`))
    assert.strictEqual(yield* waitingIn(path), 3)
    assert.isAbove(Number(yield* waitingIn(Option.getOrThrow(aside))), 3)
  })

  it.scoped("replaces a database that is too damaged to open, with its log", function* () {
    const { copy, path } = yield* backedUp(3)
    writeFileSync(path, "no database any more ".repeat(500))
    writeFileSync(`${path}-wal`, "an old log")
    const aside = Option.getOrThrow((yield* restore(placeOf(path), copy, { overwrite: true })).aside)
    assert.include(readFileSync(aside, "utf8"), "no database any more")
    assert.isFalse(existsSync(`${path}-wal`))
    assert.strictEqual(yield* waitingIn(path), 3)
  })

  it.scoped("refuses a damaged backup, and the database stays", function* () {
    const { copy, path } = yield* backedUp(200)
    garble(copy, 4096 * 20, 4096 * 3)
    const { reason } = yield* Effect.flip(restore(placeOf(path), copy, { overwrite: true }))
    assert.include(reason, copy)
    assert.strictEqual(yield* waitingIn(path), 200)
  })

  it.scoped("accepts a copy made by hand, with its log", function* () {
    const path = yield* filled(3)
    const folder = join(dirname(path), "by-hand")
    mkdirSync(folder)
    const sql = yield* rawClient(path)
    yield* sql.unsafe("UPDATE spool SET bytes = bytes")
    for (const suffix of ["", "-wal"])
      writeFileSync(join(folder, `copy.sqlite${suffix}`), readFileSync(`${path}${suffix}`))
    chmodSync(join(folder, "copy.sqlite"), 0o644)
    const elsewhere = join(dirname(path), "new.sqlite")
    yield* restore(placeOf(elsewhere), join(folder, "copy.sqlite"))
    assert.strictEqual(yield* waitingIn(elsewhere), 3)
  })
})

describe("On PostgreSQL", () => {
  const place = {
    databasePath: "unused.sqlite",
    databaseUrl: Option.some(
      Redacted.make("postgres://music:very-secret@db.example:5433/music?sslmode=require&password=very-secret")
    )
  }

  it.effect("both are refused with the command to run, without the password", function* () {
    const copying = yield* Effect.flip(backup(place, "/backups/it's music.dump"))
    assert.include(copying.reason, "MUSIC_DATABASE_URL")
    assert.include(
      copying.fix,
      `pg_dump --format=custom --file='/backups/it'\\''s music.dump' --dbname='postgres://music@db.example:5433/music?sslmode=require'`
    )
    const restoring = yield* Effect.flip(restore(place, "/backups/music.dump"))
    assert.include(restoring.fix, `pg_restore --file='/backups/music.dump.sql' '/backups/music.dump'`)
    assert.include(
      restoring.fix,
      `--file='/backups/music.dump.sql' --dbname='postgres://music@db.example:5433/music?sslmode=require' && `
    )
    assert.match(restoring.fix, / && music-backend restore --finish$/)
    assert.notInclude(JSON.stringify([copying, restoring]), "very-secret")
  })
})
