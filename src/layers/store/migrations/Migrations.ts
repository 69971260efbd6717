/** The migrations. A released one is never changed; a new one is added. */
import * as Migrator from "@effect/sql/Migrator"
import { SqlClient } from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { StoreUnavailable } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import baseline from "./0001_baseline.ts"
import { any, first, type Query } from "../Query.ts"
import { OptionalText, OptionalWhole } from "../repositories/Rows.ts"
import { migrationFailed } from "../StoreErrors.ts"

/** A baseline that is changed before the first release gets another name here: databases of any other name are refused. */
const baselineName = "baseline_2"

const migrations = { [`0001_${baselineName}`]: baseline }

export const migrationsTable = "migrations"

export const latestMigration = Math.max(...Object.keys(migrations).map((name) => Number.parseInt(name, 10)))

const runMissing = Migrator.make({})({ loader: Migrator.fromRecord(migrations), table: migrationsTable })

/**
 * Runs missing migrations, inside a transaction; does nothing to a database of this version or of a newer one. The migrator
 * detects a missing table by a failing statement, which in Postgres would end the transaction: the table is made first.
 */
export const migrate = (sql: SqlClient, name: string): Effect.Effect<void, SqlError | StoreUnavailable> =>
  sql
    .onDialectOrElse({
      pg: () =>
        Effect.asVoid(sql`
          CREATE TABLE IF NOT EXISTS ${sql(migrationsTable)} (
            migration_id INTEGER PRIMARY KEY,
            created_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now(),
            name TEXT NOT NULL
          )`),
      orElse: () => Effect.void
    })
    .pipe(
      Effect.zipRight(runMissing),
      Effect.provideService(SqlClient, sql),
      Effect.catchTag("MigrationError", (error) => Effect.fail(migrationFailed(name, error))),
      Effect.catchAllDefect((defect) => Effect.fail(migrationFailed(name, defect))),
      Effect.asVoid
    )

const History = Schema.Struct({ latest: OptionalWhole, origin: OptionalText })

/** Which migrations a database records: the number of the last one, or 0, and whether the history began before the first release. */
export const recordedSchema = (
  sql: SqlClient
): Query<{ readonly latest: number; readonly unreleased: boolean }> =>
  first(History)(sql`
    SELECT MAX(migration_id) AS latest, (SELECT name FROM ${sql(migrationsTable)} WHERE migration_id = 1) AS origin
    FROM ${sql(migrationsTable)}`).map((history) => ({
    latest: Option.getOrElse(
      Option.flatMap(history, ({ latest }) => latest),
      () => 0
    ),
    unreleased: Option.exists(
      Option.flatMap(history, ({ origin }) => origin),
      (name) => name !== baselineName
    )
  }))

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
export interface OpenedSchema {
  readonly found: number
  readonly migrationMillis: Option.Option<number>
}

export interface OpenedDatabase extends Database {
  readonly schema: OpenedSchema
}

/** Brings an opened database to this version's schema by `migration`; fails without one where something is missing. */
export const prepareSchema = (
  database: Database,
  migration: Option.Option<Effect.Effect<unknown, StoreUnavailable>>
): Effect.Effect<OpenedSchema, StoreUnavailable> =>
  Effect.gen(function* () {
    const found = (yield* hasHistory(database)) ? yield* latestApplied(database) : 0
    if (found === latestMigration) return { found, migrationMillis: Option.none() }
    if (Option.isNone(migration)) return yield* otherSchema(database.name, found)
    const [duration] = yield* Effect.timed(migration.value)
    // A newer version may have migrated in between.
    yield* latestApplied(database)
    yield* checkSchema(database)
    return { found, migrationMillis: Option.some(Duration.toMillis(duration)) }
  })
