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
import { all, any, run, type Statements } from "../../../services/store/Statements.ts"
import { migrationFailed } from "../StoreErrors.ts"

/** A baseline that is changed before the first release gets another name here: databases of any other name are refused. */
const baselineName = "baseline_4"

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

/** Which migrations a database records: the number of the last one, or 0, and the name of the first one. */
export const recordedSchema = (
  sql: SqlClient
): Statements<{ readonly latest: number; readonly origin: string }> =>
  Effect.map(
    all(History)(sql`
      SELECT MAX(migration_id) AS latest, (SELECT name FROM ${sql(migrationsTable)} WHERE migration_id = 1) AS origin
      FROM ${sql(migrationsTable)}`),
    ([row]) => ({
      latest: Option.getOrElse(row?.latest ?? Option.none(), () => 0),
      origin: Option.getOrElse(row?.origin ?? Option.none(), () => baselineName)
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

/**
 * Fails where this version's reads and writes may mean something else: on a newer schema, and on one from before the first release; and
 * where migrations are missing.
 */
export const checkHistory = (
  database: string,
  { latest, origin }: Effect.Effect.Success<ReturnType<typeof recordedSchema>>
): Effect.Effect<void, StoreUnavailable> => {
  const refuse = (code: string, phrase: string, fix: string) =>
    new StoreUnavailable({ database, kind: "schema", code, details: { phrase, fix } })
  if (origin !== baselineName)
    return refuse(
      "unreleased",
      "was made by a version before the first release, and this version does not read it",
      "move it away or name a new database; only the version that made it can export its reports (music-backend reports export)"
    )
  if (latest > latestMigration)
    return refuse(
      "newer",
      `has a newer schema than this version of the program knows (${latest}, known ${latestMigration})`,
      "use the version of music-backend that created it, or restore a backup of this version"
    )
  return latest === latestMigration
    ? Effect.void
    : refuse(
        latest === 0 ? "empty" : "older",
        `has an older schema than this version of the program needs (${latest}, needed ${latestMigration})`,
        "run music-backend migrate, or start the server once"
      )
}

/** Missing migrations can be made. */
export const canMigrate = ({ code }: StoreUnavailable): boolean => code === "empty" || code === "older"

/** Fails when a migration of this version is missing. One that a newer version has added since disturbs nothing. */
export const checkSchema = ({ name, read, sql }: Database): Effect.Effect<void, StoreUnavailable> =>
  read("Store.check", recordedSchema(sql)).pipe(
    Effect.flatMap((history) => checkHistory(name, history)),
    Effect.catchIf(
      ({ code }) => code === "newer",
      () => Effect.void
    )
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
    const recorded = database.read("Store.open", recordedSchema(driver.sql))
    const before = (yield* hasHistory(database)) ? yield* recorded : { latest: 0, origin: baselineName }
    const check = checkHistory(database.name, before)
    const opened = (migrationMillis: Option.Option<number>) => ({
      ...database,
      schema: { found: before.latest, migrationMillis }
    })
    return yield* Option.match(migration, {
      onNone: () => Effect.as(check, opened(Option.none())),
      onSome: (migrate) =>
        check.pipe(
          // Only a write shows that the database is writable.
          Effect.zipRight(database.write("schema")("Store.open", emptyWrite(driver.sql))),
          Effect.as(opened(Option.none())),
          Effect.catchIf(canMigrate, () =>
            Effect.gen(function* () {
              const [duration] = yield* Effect.timed(migrate)
              // A newer version may have migrated in between.
              yield* checkHistory(database.name, yield* recorded)
              return opened(Option.some(Duration.toMillis(duration)))
            })
          )
        )
    })
  })
