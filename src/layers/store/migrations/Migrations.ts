/** The migrations. A released one is never changed; a new one is added. */
import type { SqlClient } from "@effect/sql/SqlClient"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { type Database, type Stored, StoreUnavailable } from "../../../services/Store.ts"
import { type Driver, makeDatabase } from "../Database.ts"
import baseline from "./0001_baseline.ts"
import { OptionalText, OptionalWhole } from "../../../services/store/Rows.ts"
import { applicationId } from "../sqlite/SqliteClient.ts"
import { any, first, run, type Statements } from "../../../services/store/Statements.ts"
import { migrationFailed } from "../StoreErrors.ts"

/** A baseline that is changed before the first release gets another name here: databases of any other name are refused. */
const baselineName = "baseline_3"

/** In order. The next one is added with the next id, and only adds, so that an older process can run beside it. */
const migrations = [{ id: 1, name: baselineName, statements: baseline }]

export const migrationsTable = "migrations"

export const latestMigration = Math.max(...migrations.map(({ id }) => id))

/** A write that reaches the disk and changes nothing. SQLite skips an UPDATE that changes nothing. */
export const emptyWrite = (sql: SqlClient): Statements<void> =>
  run(
    sql.onDialectOrElse({
      sqlite: () => sql.unsafe(`PRAGMA application_id = ${applicationId}`),
      orElse: () => sql`UPDATE ${sql(migrationsTable)} SET name = name WHERE migration_id = 1`
    })
  )

/**
 * Runs missing migrations, in the caller's transaction; does nothing to a database of this version or of a newer one. Not the library's
 * migrator, which begins transactions of its own and takes a failed insert of its row for a success.
 */
export const migrate = (sql: SqlClient, database: string) =>
  Effect.gen(function* () {
    yield* run(sql`
      CREATE TABLE IF NOT EXISTS ${sql(migrationsTable)} (
        migration_id INTEGER NOT NULL PRIMARY KEY,
        created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
        name TEXT NOT NULL
      )`)
    const { latest } = yield* recordedSchema(sql)
    for (const { id, name, statements } of migrations.filter(({ id }) => id > latest)) {
      for (const statement of statements(sql)) yield* run(sql.unsafe(statement))
      yield* run(sql`INSERT INTO ${sql(migrationsTable)} (migration_id, name) VALUES (${id}, ${name})`)
    }
    yield* emptyWrite(sql)
  }).pipe(Effect.catchTag("SqlError", (error) => Effect.fail(migrationFailed(database, error))))

const History = Schema.Struct({ latest: OptionalWhole, origin: OptionalText })

/** Which migrations a database records: the number of the last one, or 0, and whether the history began before the first release. */
export const recordedSchema = (
  sql: SqlClient
): Statements<{ readonly latest: number; readonly unreleased: boolean }> =>
  Effect.map(
    first(History)(sql`
    SELECT MAX(migration_id) AS latest, (SELECT name FROM ${sql(migrationsTable)} WHERE migration_id = 1) AS origin
    FROM ${sql(migrationsTable)}`),
    (history) => ({
      latest: Option.getOrElse(
        Option.flatMap(history, ({ latest }) => latest),
        () => 0
      ),
      unreleased: Option.exists(
        Option.flatMap(history, ({ origin }) => origin),
        (name) => name !== baselineName
      )
    })
  )

const hasHistory = ({ sql, read }: Database) =>
  read(
    "Store.open",
    any(
      sql.onDialectOrElse({
        pg: () => sql`SELECT 1 WHERE to_regclass(${migrationsTable}) IS NOT NULL`,
        orElse: () => sql`SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ${migrationsTable}`
      })
    )
  )

/** A database whose last migration is `found`. */
const otherSchema = (database: string, found: number) =>
  new StoreUnavailable(
    found > latestMigration
      ? {
          database,
          kind: "schema",
          code: "newer",
          details: {
            phrase: `has a newer schema than this version of the program knows (${found}, known ${latestMigration})`,
            fix: "use the version of music-backend that created it, or restore a backup of this version"
          }
        }
      : {
          database,
          kind: "schema",
          code: found === 0 ? "empty" : "older",
          details: {
            phrase: `has an older schema than this version of the program needs (${found}, needed ${latestMigration})`,
            fix: "run music-backend migrate, or start the server once"
          }
        }
  )

export const unreleasedSchema = (database: string): StoreUnavailable =>
  new StoreUnavailable({
    database,
    kind: "schema",
    code: "unreleased",
    details: {
      phrase: "was made by a version before the first release, and this version does not read it",
      fix: "move it away or name a new database; only the version that made it can export its reports (music-backend reports export)"
    }
  })

/**
 * Number of the last applied migration; 0 without one. Fails where this version's reads and writes may mean something else: on a newer
 * schema, and on one from before the first release.
 */
const latestApplied = (database: Database): Effect.Effect<number, StoreUnavailable> =>
  Effect.gen(function* () {
    const { latest, unreleased } = yield* database.read("Store.open", recordedSchema(database.sql))
    if (unreleased) return yield* unreleasedSchema(database.name)
    if (latest > latestMigration) return yield* otherSchema(database.name, latest)
    return latest
  })

/** Fails when a migration of this version is missing. */
export const checkSchema = ({ name, read, sql }: Database): Effect.Effect<void, StoreUnavailable> =>
  Effect.flatMap(read("Store.check", recordedSchema(sql)), ({ latest }) =>
    latest < latestMigration
      ? Effect.fail(new StoreUnavailable({ database: name, kind: "schema" }))
      : Effect.void
  )

/** The schema of a database when it was opened, and how long its migration took, if there was one. */
interface OpenedSchema {
  readonly found: number
  readonly migrationMillis: Option.Option<number>
}

export interface OpenedDatabase extends Database {
  readonly schema: OpenedSchema
}

/** The database of a driver, of this version's schema. `migration` brings it there; without one it is refused where something is missing. */
export const openSchema = (
  driver: Driver,
  migration: Option.Option<Stored<unknown>>
): Effect.Effect<OpenedDatabase, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const database = yield* makeDatabase(driver)
    const found = (yield* hasHistory(database)) ? yield* latestApplied(database) : 0
    const opened = (migrationMillis: Option.Option<number>) => ({
      ...database,
      schema: { found, migrationMillis }
    })
    if (found === latestMigration) {
      // Only a write shows that the database is writable.
      if (Option.isSome(migration)) yield* database.write("schema")("Store.open", emptyWrite(driver.sql))
      return opened(Option.none())
    }
    if (Option.isNone(migration)) return yield* otherSchema(database.name, found)
    const [duration] = yield* Effect.timed(migration.value)
    // A newer version may have migrated in between.
    yield* latestApplied(database)
    yield* checkSchema(database)
    return opened(Option.some(Duration.toMillis(duration)))
  })
