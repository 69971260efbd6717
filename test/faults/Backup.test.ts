/** Backups and restores by the command line, beside a server, after its end, and of files that are damaged. */
import {
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync
} from "node:fs"
import { basename, dirname, join } from "node:path"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import { assert, describe } from "vitest"
import { settingsFor, startUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { run } from "../cli/Harness.ts"
import {
  folder,
  openStore,
  postgres,
  rawClient,
  rawQuery,
  sampleEntry,
  sampleReport,
  withStore
} from "../layers/store/Stores.ts"
import { root, start } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { it } from "../world/Test.ts"
import { scalar, spoolLawHolds } from "./Databases.ts"
import { bundleBefore, serve } from "./Processes.ts"
import { issues, startServer, telemetry } from "./Server.ts"

bundleBefore()

/** A database with so many waiting records of about a kilobyte, closed, and the place of its copy. */
const filled = (count: number) =>
  Effect.gen(function* () {
    const path = join(yield* folder, "music.sqlite")
    const json = JSON.stringify({ text: "x".repeat(1_000) })
    const entries = Array.from({ length: count }, (_, index) => sampleEntry(`first-${index}`, { json }))
    yield* withStore(path, ({ spool }) => spool.offer(entries, { limitBytes: 1_000_000_000 }))
    return { path, copy: join(dirname(path), "copy.sqlite") }
  })

const command = (path: string, ...args: ReadonlyArray<string>) => run(args, { MUSIC_DATABASE_PATH: path })
/** Runs a command that must succeed. */
const done = (path: string, ...args: ReadonlyArray<string>) =>
  Effect.map(command(path, ...args), ({ err, exit, out }) => {
    deepStrictEqual([exit, err], [0, ""])
    return out
  })
const waitingIn = (path: string) => Effect.map(scalar(path, "SELECT COUNT(*) FROM spool"), Number)
const filesBeside = (path: string) => readdirSync(dirname(path)).sort()
/** The database that a restore has replaced. */
const asideOf = (path: string) =>
  filesBeside(path)
    .filter((name) => /^music\.sqlite\.before-\d{8}T\d{9}Z$/.test(name))
    .map((name) => join(dirname(path), name))[0] ?? ""

/** Overwrites pages with invalid bytes. */
const garble = (path: string) => {
  const descriptor = openSync(path, "r+")
  writeSync(descriptor, Buffer.alloc(4096 * 3, 0xa5), 0, 4096 * 3, 4096 * 20)
  closeSync(descriptor)
}

describe("Beside a server that writes all the time", () => {
  it.scopedLive(
    "a backup is complete, private and consistent; a restore is refused until the server ends",
    function* () {
      const { copy, path } = yield* filled(4_000)
      const served = yield* serve({ MUSIC_DATABASE_PATH: path })
      let acknowledged = 0
      const post = Effect.map(telemetry(served), ({ status }) => {
        if (status === 204) acknowledged += 1
      })
      const writing = yield* Effect.fork(Effect.forever(post))
      yield* eventually("a write", () => acknowledged > 0)
      const before = acknowledged
      yield* done(path, "backup", copy)
      yield* eventually("a further write", () => acknowledged > before)
      assert.isTrue(yield* spoolLawHolds(copy))
      const accepted = yield* scalar(
        copy,
        "SELECT SUM(accepted) FROM spool_counts WHERE table_name = 'musicclidaemon'"
      )
      assert.isAtLeast(Number(accepted), 4_000 + before)
      assert.strictEqual(statSync(copy).mode & 0o777, 0o600)

      const files = filesBeside(path)
      const refused = yield* command(path, "restore", copy, "--overwrite")
      assert.match(refused.err, /is in use.*Stop all servers/s)
      deepStrictEqual(filesBeside(path), files)
      const later = acknowledged
      yield* eventually("writes after the refusal", () => acknowledged > later)

      // After a kill, the log that is left goes aside with its database.
      yield* Fiber.interrupt(writing)
      served.server.child.kill("SIGKILL")
      yield* Effect.promise(() => served.server.ended)
      assert.isTrue(existsSync(`${path}-wal`))
      yield* done(path, "restore", copy, "--overwrite")
      assert.isFalse(existsSync(`${path}-wal`))
      const now = yield* scalar(
        asideOf(path),
        "SELECT SUM(accepted) FROM spool_counts WHERE table_name = 'musicclidaemon'"
      )
      assert.isAtLeast(Number(now), 4_000 + acknowledged)
      assert.strictEqual((yield* telemetry(yield* serve({ MUSIC_DATABASE_PATH: path }))).status, 204)
    }
  )
})

describe("A backup", () => {
  it.scopedLive("keeps the marks of the database, and is the only new file", function* () {
    const { copy, path } = yield* filled(1)
    yield* rawQuery(path, "PRAGMA user_version = 7")
    yield* done(path, "backup", copy)
    assert.strictEqual(
      yield* scalar(copy, "PRAGMA application_id"),
      yield* scalar(path, "PRAGMA application_id")
    )
    assert.strictEqual(yield* scalar(copy, "PRAGMA user_version"), 7)
    assert.isEmpty(filesBeside(path).filter((name) => !/^(?:music|copy)\.sqlite(?:-lock)?$/.test(name)))
  })

  type Change = (path: string, copy: string) => void
  const refusals: Readonly<
    Record<string, readonly [change: Change, args: ReadonlyArray<string>, says: RegExp]>
  > = {
    "over another file": [(_, copy) => writeFileSync(copy, "precious"), ["copy.sqlite"], /exists already/],
    "over the database": [() => undefined, ["music.sqlite", "--overwrite"], /is the database itself/],
    "into no folder": [() => undefined, ["no/copy.sqlite"], /existing, writable folder/],
    "of a damaged database": [garble, ["copy.sqlite"], /corrupt.*earlier backup/s]
  }
  it.scopedLive.each(Object.keys(refusals))("%s fails, and changes no file", function* (name) {
    const { copy, path } = yield* filled(200)
    const [change, [file = "", ...args], says] = refusals[name] ?? [() => undefined, [], /never/]
    change(path, copy)
    const files = filesBeside(path).map((one) => [one, readFileSync(join(dirname(path), one), "latin1")])
    const { err, exit } = yield* command(path, "backup", join(dirname(path), file), ...args)
    assert.notStrictEqual(exit, 0)
    assert.match(err, says)
    for (const [one = "", content] of files)
      if (!/-(?:wal|shm)$/.test(one))
        assert.isTrue(readFileSync(join(dirname(path), one), "latin1") === content, one)
    deepStrictEqual(
      filesBeside(path).filter(
        (one) => /partial/.test(one) || (one.startsWith("copy") && name !== "over another file")
      ),
      []
    )
  })

  it.scopedLive("on a full disk fails and leaves no file", function* () {
    const { copy, path } = yield* filled(2_000)
    const shell = `ulimit -f 1000; exec "$@"`
    const program = [process.execPath, "--import", "tsx", join(root, "src/cli/main.ts"), "backup", copy]
    const { ended, output } = start("sh", ["-c", shell, "sh", ...program], { MUSIC_DATABASE_PATH: path })
    yield* Effect.promise(() => ended)
    assert.match(output(), /\(SQLITE_(?:IOERR|FULL)\S*\).*Free some space/s)
    assert.isEmpty(filesBeside(path).filter((name) => name.includes("copy")))
  })
})

describe("A restore", () => {
  const files: Readonly<Record<string, readonly [make: (copy: string, made: Buffer) => void, says: RegExp]>> =
    {
      missing: [() => undefined, /no backup/],
      "a text": [
        (copy) => writeFileSync(copy, "this is a text file\n".repeat(300)),
        /corrupt, or not a database/
      ],
      empty: [(copy) => writeFileSync(copy, ""), /not a database of this program/],
      damaged: [
        (copy, made) => {
          writeFileSync(copy, made)
          garble(copy)
        },
        /corrupt/
      ],
      short: [(copy, made) => writeFileSync(copy, made.subarray(0, 4096 * 20)), /corrupt/]
    }
  it.scopedLive.each(Object.keys(files))(
    "of an unusable file is refused, and the database stays: %s",
    function* (name) {
      const { copy, path } = yield* filled(200)
      const [make, says] = files[name] ?? [() => undefined, /never/]
      yield* done(path, "backup", `${copy}.made`)
      make(copy, readFileSync(`${copy}.made`))
      const { err, exit } = yield* command(path, "restore", copy, "--overwrite")
      assert.notStrictEqual(exit, 0)
      assert.match(err, says)
      assert.include(err, basename(copy))
      assert.strictEqual(yield* waitingIn(path), 200)
    }
  )

  it.scopedLive.each([
    [
      "of another program",
      "CREATE TABLE migrations (migration_id INTEGER)",
      /not a database of this program/
    ],
    [
      "of a later version",
      "INSERT INTO migrations (migration_id, name) VALUES (9999, 'later')",
      /newer schema/
    ]
  ] as const)("of a database %s is refused", function* ([name, statement, says]) {
    const { copy, path } = yield* filled(1)
    if (name === "of a later version") yield* done(path, "backup", copy)
    yield* rawQuery(copy, statement)
    assert.match((yield* command(path, "restore", copy, "--overwrite")).err, says)
  })

  it.scopedLive(
    "keeps the other database aside, replaces one only with --overwrite, and creates one",
    function* () {
      const { copy, path } = yield* filled(20)
      yield* done(path, "backup", copy)
      yield* withStore(path, ({ spool }) => spool.offer([sampleEntry("since then")], { limitBytes: 1e9 }))
      assert.match((yield* command(path, "restore", copy)).err, /exists already/)
      assert.match((yield* command(path, "restore", path, "--overwrite")).err, /is the database itself/)
      yield* done(path, "restore", copy, "--overwrite")
      assert.strictEqual(statSync(path).mode & 0o777, 0o600)
      deepStrictEqual([yield* waitingIn(path), yield* waitingIn(asideOf(path))], [20, 21])
      yield* withStore(path, ({ check }) => check)
      assert.isTrue(yield* spoolLawHolds(path))

      const elsewhere = join(dirname(path), "new", "music.sqlite")
      yield* done(elsewhere, "restore", copy)
      assert.strictEqual(yield* waitingIn(elsewhere), 20)
    }
  )

  it.scopedLive(
    "replaces a database that is too damaged to open, and takes a copy made by hand with its log",
    function* () {
      const { copy, path } = yield* filled(3)
      const sql = yield* rawClient(path)
      yield* sql.unsafe("UPDATE spool SET bytes = bytes")
      for (const suffix of ["", "-wal"]) copyFileSync(`${path}${suffix}`, `${copy}${suffix}`)
      const damaged = join(yield* folder, "music.sqlite")
      writeFileSync(damaged, "no database any more ".repeat(500))
      writeFileSync(`${damaged}-wal`, "an old log")
      yield* done(damaged, "restore", copy, "--overwrite")
      assert.include(readFileSync(asideOf(damaged), "utf8"), "no database any more")
      assert.isFalse(existsSync(`${damaged}-wal`))
      assert.strictEqual(yield* waitingIn(damaged), 3)
    }
  )
})

describe("A waiting report in a backup that is restored", () => {
  /** A tracker that outlives every server, and a backup with a report that no worker has leased yet. */
  const waiting = Effect.gen(function* () {
    const path = join(yield* folder, "music.sqlite")
    const copy = `${path}.backup`
    const admitted = sampleReport({ createdAt: Date.now() - 20 * 60_000 })
    yield* withStore(path, ({ reports }) => reports.admit(admitted, true))
    yield* done(path, "backup", copy)
    const world = yield* startUpstreams(() => Date.now())
    const { tracker } = settingsFor(world, {
      bind: { host: "127.0.0.1", port: 0 },
      databasePath: "unused",
      logLevel: LogLevel.Info,
      logFormat: "json"
    })
    const target = Option.map(tracker, (all) => ({ ...all, reconcileSeconds: [0.02, 0.04, 0.06] }))
    /** Serves until the report is delivered. */
    const serveOnce = Effect.scoped(
      Effect.gen(function* () {
        const { log } = yield* startServer(openStore(path), { tracker: target })
        yield* eventually("the report is filed", () => log.some((line) => line.includes("Report filed")))
      })
    )
    const kinds = Effect.map(rawQuery(path, "SELECT kind, state FROM deliveries ORDER BY kind"), (rows) =>
      rows.map(({ kind, state }) => `${kind} ${state}`)
    )
    return { kinds, restored: done(path, "restore", copy, "--overwrite"), serveOnce, world }
  })

  it.scopedLive("was filed since: is found, and not filed again", function* () {
    const { kinds, restored, serveOnce, world } = yield* waiting
    yield* serveOnce
    yield* restored
    yield* serveOnce
    assert.strictEqual(issues({ world }), 1)
    deepStrictEqual(yield* kinds, ["report delivered"])
  })

  it.scopedLive("was not filed since: is filed after all searches, and gets a sweep", function* () {
    const { kinds, restored, serveOnce, world } = yield* waiting
    yield* restored
    yield* serveOnce
    assert.strictEqual(issues({ world }), 1)
    const searches = world.tracker.seen.filter(({ method, path }) => method === "GET" && /issues$/.test(path))
    assert.strictEqual(searches.length, 3)
    deepStrictEqual(yield* kinds, ["report delivered", "sweep waiting"])
  })
})

describe("The restore command for PostgreSQL", () => {
  /** Tables of the second version, as its dump has them. */
  const dump = readFileSync(new URL("../layers/store/migrations/fixtures/0002.sql", import.meta.url), "utf8")
    .replaceAll(/^--.*$/gm, "")
    .split(/;$/m)
    .filter((statement) => /^\s*CREATE|INSERT INTO (?:"?migrations|reports|deliveries)/.test(statement))
    .join(";\n")
    .replace("created_at datetime", "created_at TIMESTAMP WITH TIME ZONE")
    .replace("sequence INTEGER PRIMARY KEY", "sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")

  it.scopedLive("empties the database first, so that no newer table prevents the next upgrade", function* () {
    const url = yield* postgres.emptyPath
    yield* Effect.scoped(postgres.openStore(url))
    yield* postgres.rawQuery(url, "CREATE TABLE of_a_later_version (id TEXT NOT NULL PRIMARY KEY)")
    const { err, out } = yield* run(["restore", "music.dump"], { MUSIC_DATABASE_URL: url })
    const emptying = Array.from((err + out).matchAll(/--command='([^']*)'/g), ([, statement]) => statement)
    assert.isAtLeast(emptying.length, 1)
    yield* postgres.rawQuery(url, `${emptying.join(";\n")};\n${dump}`)
    deepStrictEqual(yield* postgres.rawQuery(url, "SELECT to_regclass('of_a_later_version') AS later"), [
      { later: null }
    ])
    const store = yield* postgres.openStore(url)
    yield* store.check
  })
})
