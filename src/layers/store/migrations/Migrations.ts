/** The migrations. A released one is never changed; a new one is added. */
import type { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { type Database, StoreUnavailable } from "../../../services/Store.ts"
import { Whole } from "../../../services/store/Rows.ts"
import { first, run, type Statements } from "../../../services/store/Statements.ts"
import { type Driver, makeAccess, makeDatabase } from "../../../services/store/Database.ts"
import baseline from "./0001_baseline.ts"

/** A baseline that is changed before the first release gets another name here: databases of any other name are refused. */
const baselineName = "baseline_6"

/** In order. The next one is added with the next id, and only adds, so that an older process can run beside it. */
const migrations = [{ id: 1, name: baselineName, statements: baseline }]

export const migrationsTable = "migrations"

export const latestMigration = Math.max(...migrations.map(({ id }) => id))

/** "musb": marks a SQLite file as a database of this program. */
export const applicationId = 0x6d757362

/** A write that reaches the disk and changes nothing. SQLite skips an UPDATE that changes nothing. */
export const emptyWrite = (sql: SqlClient): Statements<void> =>
  run(
    sql.onDialectOrElse({
      sqlite: () => sql.unsafe(`PRAGMA application_id = ${applicationId}`),
      orElse: () => sql`UPDATE ${sql(migrationsTable)} SET name = name WHERE migration_id = 1`
    })
  )

/**
 * Runs missing migrations, in the caller's transaction; does nothing to a database of this version or of a newer one. Returns the number of
 * the last one that it found. Not the library's migrator, which begins transactions of its own and takes a failed insert of its row for a success.
 */
export const migrate = (sql: SqlClient): Statements<number> =>
  Effect.gen(function* () {
    yield* run(sql`
      CREATE TABLE IF NOT EXISTS ${sql(migrationsTable)} (
        migration_id INTEGER NOT NULL PRIMARY KEY,
        name TEXT NOT NULL
      )`)
    const { latest } = yield* recordedSchema(sql)
    for (const { id, name, statements } of migrations.filter(({ id }) => id > latest)) {
      for (const statement of statements(sql)) yield* run(sql.unsafe(statement))
      yield* run(sql`INSERT INTO ${sql(migrationsTable)} (migration_id, name) VALUES (${id}, ${name})`)
    }
    yield* emptyWrite(sql)
    return latest
  })

/** The number of the last migration that a database records, or 0, and the name of the first one. */
const History = Schema.Struct({ latest: Whole, origin: Schema.String })
type History = typeof History.Type
const none: History = { latest: 0, origin: baselineName }

export const recordedSchema = (sql: SqlClient): Statements<History> =>
  Effect.map(
    first(History)(sql`
      SELECT COALESCE(MAX(migration_id), ${none.latest}) AS latest,
        COALESCE(MAX(CASE migration_id WHEN 1 THEN name END), ${none.origin}) AS origin
      FROM ${sql(migrationsTable)}`),
    Option.getOrElse(() => none)
  )

/**
 * Fails where this version's reads and writes may mean something else: on a newer schema, and on one from before the first release; and
 * where migrations are missing.
 */
export const checkHistory = (
  database: string,
  { latest, origin }: History
): Effect.Effect<void, StoreUnavailable> => {
  const refuse = (code: string, phrase: string, advice: string) =>
    new StoreUnavailable({ database, kind: "schema", code, phrase, advice })
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
        "older",
        `has an older schema than this version of the program needs (${latest}, needed ${latestMigration})`,
        "run music-backend migrate, or start the server once"
      )
}

/** Missing migrations can be made. */
export const canMigrate = ({ code }: StoreUnavailable): boolean => code === "older"

/** Fails when a migration of this version is missing. One that a newer version has added since disturbs nothing. */
export const checkSchema = ({ name, sql }: Database): Statements<void> =>
  Effect.flatMap(recordedSchema(sql), ({ latest, origin }) =>
    checkHistory(name, { latest: Math.min(latest, latestMigration), origin })
  )

export interface OpenedDatabase extends Database {
  /** The number of the last migration that it had. */
  readonly foundSchema: number
}

/** Of SQLite, and of Postgres. */
const isMissingTable = ({ code }: StoreUnavailable): boolean => code === "SQLITE_ERROR" || code === "42P01"

/** The database of a driver. Where migrations are missing, `migrator` runs them, or without `migrates` it is refused. */
export const openSchema = (
  driver: Driver,
  migrates: boolean,
  migrator: Effect.Effect<Driver, StoreUnavailable, Scope.Scope> = Effect.succeed(driver)
): Effect.Effect<OpenedDatabase, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const database = yield* makeDatabase(driver)
    const { name, read, sql, write } = database
    const recorded = Effect.catchIf(recordedSchema(sql).pipe(read("Store.open")), isMissingTable, () =>
      Effect.succeed(none)
    )
    const migration = Effect.flatMap(migrator, ({ transaction }) =>
      makeAccess(driver)("Store.migrate", transaction("schema", "Store.migrate", migrate(sql)))
    )
    const before = yield* recorded
    const foundSchema = yield* checkHistory(name, before).pipe(
      Effect.as(before.latest),
      Effect.catchIf(
        (failure) => migrates && canMigrate(failure),
        () =>
          Effect.zipLeft(
            Effect.scoped(migration),
            // Another process, also of a newer version, may have migrated in between.
            Effect.flatMap(recorded, (after) => checkHistory(name, after))
          )
      )
    )
    // Only a write shows that the database is writable.
    if (migrates) yield* emptyWrite(sql).pipe(write("schema", "Store.open"))
    return { ...database, foundSchema }
  })
