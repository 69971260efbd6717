/** The real process on databases of other versions. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import { assert, describe } from "vitest"
import { run } from "../cli/Harness.ts"
import { folder, rawQuery } from "../layers/store/Stores.ts"
import { eventually } from "../support/Waiting.ts"
import { it } from "../world/Test.ts"
import { scalar } from "./Databases.ts"
import { bundleBefore, refuse, serve, stop } from "./Processes.ts"
import { everyCall, healthy, issues, signIn } from "./Server.ts"

bundleBefore()

/** A database of the first version, with a row in every table and a report that waits to be filed. */
const fixture = readFileSync(new URL("../layers/store/migrations/fixtures/0001.sql", import.meta.url), "utf8")

const firstVersion = Effect.gen(function* () {
  const path = join(yield* folder, "music.sqlite")
  yield* rawQuery(path, fixture.replaceAll(/^--.*$/gm, ""))
  yield* rawQuery(path, "PRAGMA application_id = 1836413794")
  return path
})

const versionOf = (path: string) =>
  Effect.map(scalar(path, "SELECT MAX(migration_id) FROM migrations"), Number)
const tablesOf = (path: string) =>
  rawQuery(path, "SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name")

describe.concurrent("A start on a database of another version", () => {
  it.scopedLive(
    "migrates an older one with all its rows, and serves; its backup brings it back",
    function* () {
      const path = yield* firstVersion
      const environment = { MUSIC_DATABASE_PATH: path }
      assert.strictEqual((yield* run(["backup", `${path}.copy`], environment)).exit, 0)
      const served = yield* serve(environment)
      deepStrictEqual((yield* everyCall(served, yield* signIn(served))).round, healthy)
      assert.isAbove(yield* versionOf(path), 1)
      yield* eventually("the old report and the new one filed", () => issues(served) === 2)
      assert.strictEqual((yield* stop(served.server)).code, 0)
      assert.strictEqual((yield* run(["restore", `${path}.copy`, "--overwrite"], environment)).exit, 0)
      assert.strictEqual(yield* versionOf(path), 1)
      assert.strictEqual(yield* scalar(path, "SELECT COUNT(*) FROM reports"), 1)
    }
  )

  it.scopedLive("refuses a newer one with exit code 69 and one line, and does not change it", function* () {
    const path = yield* firstVersion
    yield* rawQuery(path, "INSERT INTO migrations (migration_id, name) VALUES (9999, 'future')")
    const before = yield* tablesOf(path)
    const { code, output } = yield* refuse({ MUSIC_DATABASE_PATH: path })
    assert.strictEqual(code, 69)
    assert.match(
      output,
      /^music-backend: SQLite database \S+ has a newer schema .* \(9999, known \d+\)\. .*\n$/
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
    deepStrictEqual([yield* versionOf(path), yield* tablesOf(path)], [1, before])
    const damage = "SELECT COUNT(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"
    assert.strictEqual(yield* scalar(path, damage), 0)
    yield* serve({ MUSIC_DATABASE_PATH: path })
    assert.isAbove(yield* versionOf(path), 1)
  })
})
