import { existsSync, readdirSync, readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { latestMigration } from "../../../src/layers/store/Migrations.ts"
import { openDatabase } from "../../../src/layers/store/SqliteStore.ts"
import type { UpstreamKey } from "../../../src/services/Iam.ts"
import { productionId } from "../../../src/services/Plane.ts"
import type { StoreService } from "../../../src/services/Store.ts"
import { freshPath, openStore, rawClient, rawQuery, sampleEvent, sampleReport, withStore } from "./Stores.ts"

/** One SQL file a migration, named by its number: a database as that version left it, with a row of everything. */
const fixtures = new URL("./fixtures/", import.meta.url)
const fixtureOf = (version: number) => new URL(`${String(version).padStart(4, "0")}.sql`, fixtures)
const versions = Array.from({ length: latestMigration }, (_, index) => index + 1)

/** A database as it was made by an earlier version; version 0 is an empty file. */
const databaseOf = (version: number) =>
  Effect.gen(function* () {
    const path = yield* freshPath
    if (version === 0) return path
    const script = readFileSync(fixtureOf(version), "utf8").replaceAll(/^--.*$/gm, "")
    yield* Effect.scoped(
      Effect.gen(function* () {
        const sql = yield* rawClient(path)
        for (const statement of script.split(/;$/m)) if (statement.trim() !== "") yield* sql.unsafe(statement)
      })
    )
    return path
  })

const schemaOf = (path: string) =>
  Effect.map(
    rawQuery(path, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"),
    (rows) => rows.map(({ sql, ...row }) => ({ ...row, sql: String(sql).replaceAll(/\s+/g, " ") }))
  )

const appliedTo = (path: string) =>
  Effect.map(rawQuery(path, "SELECT migration_id FROM migrations ORDER BY migration_id"), (rows) =>
    rows.map(({ migration_id }) => migration_id)
  )

const open = (path: string) => withStore(path, ({ check }) => check)

/** What every version's database says through today's repositories. */
const readEverything = (store: StoreService) =>
  Effect.gen(function* () {
    const report = yield* store.reports.find("rep_1")
    return {
      active: yield* store.recipients.isActive({
        plane: productionId,
        organisation: "acme",
        publicId: "c:ana"
      }),
      // Keys are made by hashing; any text of their form will do.
      outcome: yield* store.loginOutcomes.find("a".repeat(64) as UpstreamKey),
      content: Option.map(report, ({ content }) => content),
      reporter: Option.map(report, ({ reporter }) => reporter),
      plane: yield* store.planes.findByKeyDigest("digest-1"),
      counts: yield* store.spool.counts,
      delivery: Option.map(yield* store.deliveries.find("report:rep_1"), ({ state, subject }) => ({
        state,
        subject
      })),
      replayed: (yield* store.reports.admit(sampleReport(), true))._tag,
      receivedAgain: yield* store.webhooks.receive(sampleEvent(), [])
    }
  })

const everything = {
  active: true,
  outcome: Option.some({ outcome: { subscribed: true, subscription_id: "sub_1" }, transient: false }),
  content: Option.some(sampleReport().content),
  reporter: Option.some(sampleReport().reporter),
  plane: Option.some("env-1"),
  counts: [
    {
      table: "musicclidaemon",
      accepted: 3,
      delivered: 1,
      duplicates: 1,
      expired: 0,
      refused: 0,
      waiting: 1,
      waitingBytes: 10
    }
  ],
  delivery: Option.some({ state: "waiting", subject: "rep_1" }),
  replayed: "Replayed",
  receivedAgain: false
}

describe("Migrations", () => {
  it("every released migration has a database that it left behind", () => {
    deepStrictEqual(
      readdirSync(fixtures).toSorted(),
      versions.map((version) => `${String(version).padStart(4, "0")}.sql`)
    )
    for (const version of versions) assert.isTrue(existsSync(fixtureOf(version)))
  })

  for (const version of [0, ...versions]) {
    it.scoped(`from version ${version}, a database comes to today's schema`, () =>
      Effect.gen(function* () {
        const fresh = yield* freshPath
        yield* open(fresh)
        const path = yield* databaseOf(version)
        yield* open(path)
        deepStrictEqual(yield* schemaOf(path), yield* schemaOf(fresh))
        deepStrictEqual(yield* appliedTo(path), versions)
      })
    )
    if (version > 0)
      it.scoped(`what version ${version} stored is all there`, () =>
        Effect.gen(function* () {
          const path = yield* databaseOf(version)
          assert.deepStrictEqual<unknown>(yield* withStore(path, readEverything), everything)
        })
      )
  }

  it.scoped("running them again changes nothing", () =>
    Effect.gen(function* () {
      const path = yield* freshPath
      yield* open(path)
      const snapshot = Effect.all([schemaOf(path), rawQuery(path, "SELECT * FROM migrations")])
      const before = yield* snapshot
      yield* open(path)
      deepStrictEqual(yield* snapshot, before)
    })
  )

  it.scoped("stores that open a new file at once leave one schema", () =>
    Effect.gen(function* () {
      const path = yield* freshPath
      const stores = yield* Effect.all([openStore(path), openStore(path), openStore(path)], {
        concurrency: "unbounded"
      })
      yield* Effect.forEach(stores, ({ check }) => check)
      deepStrictEqual(yield* appliedTo(path), versions)
    })
  )

  it.scoped("a database of a newer version is refused, by name and with what to do, and left alone", () =>
    Effect.gen(function* () {
      const path = yield* freshPath
      yield* open(path)
      yield* rawQuery(path, "INSERT INTO migrations (migration_id, name) VALUES (9999, 'future')")
      const before = yield* schemaOf(path)
      const { reason } = yield* Effect.flip(open(path))
      assert.include(reason, path)
      assert.include(reason, "newer schema")
      assert.include(reason, `9999, known ${latestMigration}`)
      deepStrictEqual(yield* schemaOf(path), before)
    })
  )

  it.scoped("a newer version that migrates beside us does not make us unready", () =>
    Effect.gen(function* () {
      const path = yield* freshPath
      const { check } = yield* openStore(path)
      yield* rawQuery(path, "INSERT INTO migrations (migration_id, name) VALUES (9999, 'future')")
      yield* check
    })
  )

  it.scoped("the check fails when migrations are missing", () =>
    Effect.gen(function* () {
      const path = yield* freshPath
      const { check } = yield* openStore(path)
      yield* check
      yield* rawQuery(path, "DELETE FROM migrations")
      const { reason } = yield* Effect.flip(check)
      assert.include(reason, path)
      assert.include(reason, "lacks migrations")
    })
  )

  it.scoped("a migration that fails leaves nothing behind, and the reason names the database", () =>
    Effect.gen(function* () {
      const path = yield* freshPath
      yield* rawQuery(path, "CREATE TABLE deliveries (something TEXT)")
      const before = yield* schemaOf(path)
      const { reason } = yield* Effect.flip(Effect.scoped(openDatabase(path)))
      assert.include(reason, path)
      assert.include(reason, "could not be brought to the schema")
      deepStrictEqual(yield* schemaOf(path), before)
    })
  )
})
