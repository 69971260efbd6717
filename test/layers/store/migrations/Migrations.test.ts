import { existsSync } from "node:fs"
import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, TestClock } from "effect"
import type { StoreService } from "../../../../src/services/Store.ts"
import { type Kind, onBoth, openUnmigrated } from "../Stores.ts"

/** Tables and indices, as text whose white space is even. */
const catalogs = {
  SQLite: ["SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"],
  Postgres: [
    `SELECT table_name, column_name, data_type, is_nullable, is_identity FROM information_schema.columns
    WHERE table_schema = 'public' AND table_name <> 'migrations' ORDER BY table_name, ordinal_position`,
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname"
  ]
}
const schemaOf = ({ name, rawQuery }: Kind, path: string) =>
  Effect.forEach(catalogs[name], (query) =>
    Effect.map(rawQuery(path, query), (rows) =>
      rows.map((row) => Object.values(row).map((value) => String(value).replaceAll(/\s+/g, " ")))
    )
  )

const appliedTo = ({ rawQuery }: Kind, path: string) =>
  Effect.map(rawQuery(path, "SELECT migration_id FROM migrations ORDER BY migration_id"), (rows) =>
    rows.map(({ migration_id }) => migration_id)
  )

/** Marks a SQLite file as one of this program, as the first opening does. */
const ownMark = "PRAGMA application_id = 1836413794"

const check = ({ check }: StoreService) => check

/** A message names the file, or host, port and database, but not the user. */
const assertNames = (reason: string, path: string) => {
  const { host, pathname } = path.startsWith("/") ? { host: "", pathname: path } : new URL(path)
  assert.include(reason, `${host}${pathname}`)
  assert.notInclude(reason, "postgres:")
}

onBoth("Migrations", (kind) => {
  const { emptyPath, freshPath, openStore, rawQuery, withStore } = kind
  const open = (path: string) => withStore(path, check)
  const openOnly = (path: string) => Effect.scoped(openUnmigrated(path))

  // Under the real clock: one that meets the lock of another waits.
  it.scopedLive(
    "stores that open a new database concurrently create one schema, and none fails",
    function* () {
      const path = yield* emptyPath
      const stores = yield* Effect.all([openStore(path), openStore(path), openStore(path)], {
        concurrency: "unbounded"
      })
      yield* Effect.forEach(stores, check)
      const single = yield* freshPath
      deepStrictEqual(yield* schemaOf(kind, path), yield* schemaOf(kind, single))
      deepStrictEqual(yield* appliedTo(kind, path), yield* appliedTo(kind, single))
    }
  )

  it.scoped(
    "without the right to migrate, a new database is refused with the command, and kept",
    function* () {
      const fresh = yield* emptyPath
      assertNames((yield* Effect.flip(openOnly(fresh))).reason, fresh)
      if (kind.name === "SQLite") {
        assert.isFalse(existsSync(fresh))
        yield* rawQuery(fresh, ownMark)
      }
      const { fix, reason } = yield* Effect.flip(openOnly(fresh))
      assertNames(reason, fresh)
      assert.match(`${reason}: ${fix}`, /\(0, needed \d+\): run music-backend migrate/)
      deepStrictEqual((yield* schemaOf(kind, fresh)).flat(), [])
      yield* open(fresh)
      yield* openOnly(fresh)
    }
  )

  it.scoped("a failed migration changes nothing; the check fails when migrations are missing", function* () {
    const path = yield* emptyPath
    if (kind.name === "SQLite") yield* rawQuery(path, ownMark)
    // One of the last tables of the schema: most statements have succeeded before it fails.
    yield* rawQuery(path, "CREATE TABLE report_sums (something TEXT)")
    const before = yield* schemaOf(kind, path)
    const failure = yield* Effect.flip(open(path))
    assertNames(failure.reason, path)
    deepStrictEqual(yield* schemaOf(kind, path), before)
    yield* rawQuery(path, "DROP TABLE report_sums")
    const store = yield* openStore(path)
    yield* store.check
    yield* rawQuery(path, "DELETE FROM migrations")
    yield* TestClock.adjust(1)
    const missing = yield* Effect.flip(store.check)
    assert.isTrue(store.isFailing())
    assertNames(missing.reason, path)
    deepStrictEqual(
      [failure, missing].map(({ kind }) => kind),
      ["other", "schema"]
    )
  })

  it.scoped("a newer schema is refused, and disturbs no store that is open", function* () {
    const path = yield* kind.ownPath
    const store = yield* openStore(path)
    yield* rawQuery(path, "INSERT INTO migrations (migration_id, name) VALUES (9999, 'later')")
    yield* store.check
    for (const opening of [open(path), openOnly(path)]) {
      const { fix, reason } = yield* Effect.flip(opening)
      assertNames(reason, path)
      assert.match(`${reason}: ${fix}`, /newer schema.*\(9999, known \d+\): use the version/)
    }
  })

  it.scoped("a database from before the first release is refused and kept", function* () {
    const path = yield* kind.ownPath
    yield* rawQuery(path, "UPDATE migrations SET name = 'initial'")
    const content = Effect.all([schemaOf(kind, path), appliedTo(kind, path)])
    const before = yield* content
    for (const opening of [open(path), openOnly(path)]) {
      const { code, fix, reason } = yield* Effect.flip(opening)
      assert.strictEqual(code, "unreleased")
      assertNames(reason, path)
      assert.match(`${reason}: ${fix}`, /before the first release.*: move it away or name a new database/)
    }
    deepStrictEqual(yield* content, before)
  })
})
