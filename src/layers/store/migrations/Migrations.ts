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
import initial from "./0001_initial.ts"
import durableDelivery from "./0002_durable_delivery.ts"
import discardedDeliveries from "./0003_discarded_deliveries.ts"
import boundedReports from "./0004_bounded_reports.ts"
import loginRefusals from "./0005_login_refusals.ts"
import orderedReading from "./0006_ordered_reading.ts"
import operatorsRecords from "./0007_operators_records.ts"
import sessionDigests from "./0008_session_digests.ts"
import roomHolders from "./0009_room_holders.ts"
import { any, first } from "../Query.ts"
import { OptionalWhole } from "../repositories/Rows.ts"
import { migrationFailed } from "../StoreErrors.ts"

const migrations = {
  "0001_initial": initial,
  "0002_durable_delivery": durableDelivery,
  "0003_discarded_deliveries": discardedDeliveries,
  "0004_bounded_reports": boundedReports,
  "0005_login_refusals": loginRefusals,
  "0006_ordered_reading": orderedReading,
  "0007_operators_records": operatorsRecords,
  "0008_session_digests": sessionDigests,
  "0009_room_holders": roomHolders
}

export const migrationsTable = "migrations"

/** Their numbers, in order. */
export const migrationNumbers = Object.keys(migrations).map((name) => Number.parseInt(name, 10))

export const latestMigration = Math.max(...migrationNumbers)

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

/** Number of the last applied migration; 0 without one. */
const latestApplied = ({ sql, read }: Database, operation: string) =>
  read(
    operation,
    first(Schema.Struct({ latest: OptionalWhole }))(
      sql`SELECT MAX(migration_id) AS latest FROM ${sql(migrationsTable)}`
    )
  ).pipe(Effect.map(Option.flatMap(({ latest }) => latest)), Effect.map(Option.getOrElse(() => 0)))

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

const otherSchema = ({ name }: Database, kind: "newer_schema" | "older_schema", found: number) =>
  new StoreUnavailable({ database: name, problem: { kind, found, known: latestMigration } })

/** Fails when a migration of this version is missing. */
export const checkSchema = (database: Database): Effect.Effect<void, StoreUnavailable> =>
  Effect.flatMap(latestApplied(database, "Store.check"), (applied) =>
    applied < latestMigration
      ? Effect.fail(new StoreUnavailable({ database: database.name, problem: { kind: "schema_incomplete" } }))
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

/** Fails when the database is empty or newer than this version; accepts an older one as it is. */
export const checkReadable = (database: Database): Effect.Effect<OpenedSchema, StoreUnavailable> =>
  Effect.gen(function* () {
    const found = (yield* hasHistory(database)) ? yield* latestApplied(database, "Store.open") : 0
    if (found === 0) return yield* otherSchema(database, "older_schema", found)
    if (found > latestMigration) return yield* otherSchema(database, "newer_schema", found)
    return { found, migrationMillis: Option.none() }
  })

/**
 * Brings an opened database to this version's schema by `migration`; fails without one where something is missing. A newer
 * schema is refused: this version's writes may mean something else there.
 */
export const prepareSchema = (
  database: Database,
  migration: Option.Option<Effect.Effect<unknown, StoreUnavailable>>
): Effect.Effect<OpenedSchema, StoreUnavailable> =>
  Effect.gen(function* () {
    const found = (yield* hasHistory(database)) ? yield* latestApplied(database, "Store.open") : 0
    if (found > latestMigration) return yield* otherSchema(database, "newer_schema", found)
    if (found === latestMigration) return { found, migrationMillis: Option.none() }
    if (Option.isNone(migration)) return yield* otherSchema(database, "older_schema", found)
    const [duration] = yield* Effect.timed(migration.value)
    // A newer version may have migrated in between.
    const reached = yield* latestApplied(database, "Store.open")
    if (reached > latestMigration) return yield* otherSchema(database, "newer_schema", reached)
    yield* checkSchema(database)
    return { found, migrationMillis: Option.some(Duration.toMillis(duration)) }
  })
