/** The real process on databases of other versions. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { backup } from "../../src/layers/store/backup/Backup.ts"
import { restore } from "../../src/layers/store/backup/Restore.ts"
import { latestMigration } from "../../src/layers/store/migrations/Migrations.ts"
import { scalar } from "./Databases.ts"
import { bundleBefore, refuse, serve, stop } from "./Processes.ts"
import { everyCall, healthy, issues, signIn } from "./Server.ts"
import { eventually } from "../support/Waiting.ts"
import { folder, rawQuery } from "../layers/store/Stores.ts"

bundleBefore()

/** A database of the first version, with a row in every table and a report that waits to be filed. */
const fixture = readFileSync(new URL("../layers/store/migrations/fixtures/0001.sql", import.meta.url), "utf8")

const firstVersion = Effect.gen(function* () {
  const path = join(yield* folder, "music.sqlite")
  yield* rawQuery(path, fixture.replaceAll(/^--.*$/gm, ""))
  yield* rawQuery(path, "PRAGMA application_id = 1836413794")
  return path
})

const versionOf = (path: string) => scalar(path, "SELECT MAX(migration_id) FROM migrations")
const tablesOf = (path: string) =>
  rawQuery(path, "SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name")

describe.concurrent("A start on a database of another version", () => {
  it.scopedLive("migrates an older one with all its rows, and serves", function* () {
    const path = yield* firstVersion
    const copy = `${path}.backup`
    const place = { databasePath: path, databaseUrl: Option.none() }
    assert.strictEqual((yield* backup(place, copy)).migration, 1)
    const served = yield* serve({ MUSIC_DATABASE_PATH: path })
    deepStrictEqual((yield* everyCall(served, yield* signIn(served))).round, healthy)
    assert.strictEqual(yield* versionOf(path), latestMigration)
    yield* eventually("the old report and the new one filed", () => issues(served) === 2)
    assert.strictEqual((yield* stop(served.server)).code, 0)

    // Downgrade by the backup.
    assert.strictEqual((yield* restore(place, copy, { overwrite: true })).migration, 1)
    assert.strictEqual(yield* versionOf(path), 1)
    assert.strictEqual(yield* scalar(path, "SELECT COUNT(*) FROM reports"), 1)
  })

  it.scopedLive("refuses a newer one with exit code 69 and one line, and does not change it", function* () {
    const path = yield* firstVersion
    yield* rawQuery(path, "INSERT INTO migrations (migration_id, name) VALUES (9999, 'future')")
    const before = yield* tablesOf(path)
    const { code, output } = yield* refuse({ MUSIC_DATABASE_PATH: path })
    assert.strictEqual(code, 69)
    assert.match(
      output,
      /^music-backend: SQLite database \S+ has a newer schema .* \(9999, known \d+\)\. Use .*\n$/
    )
    assert.include(output, path)
    deepStrictEqual(yield* tablesOf(path), before)
  })

  it.scopedLive("on a full disk exits with 69, and both versions can start afterwards", function* () {
    const path = yield* firstVersion
    const before = yield* tablesOf(path)
    // 512 bytes each: enough to open it, not to write the new tables.
    const { code, output } = yield* refuse({ MUSIC_DATABASE_PATH: path }, "ulimit -f 72;")
    assert.strictEqual(code, 69)
    assert.match(output, /^music-backend: SQLite database \S+ .*(?:SQLITE_IOERR|SQLITE_FULL).*\n$/)
    assert.strictEqual(yield* versionOf(path), 1)
    deepStrictEqual(yield* tablesOf(path), before)
    assert.strictEqual(
      yield* scalar(path, "SELECT COUNT(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
      0
    )
    yield* serve({ MUSIC_DATABASE_PATH: path })
    assert.strictEqual(yield* versionOf(path), latestMigration)
  })
})
