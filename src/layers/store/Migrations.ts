/** The schema's history. A migration that was released is never changed; the next one is added. */
import * as Migrator from "@effect/sql/Migrator"
import type { SqlClient } from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { StoreUnavailable } from "../../services/Store.ts"
import type { Database } from "./Database.ts"
import { missingSchema, newerSchema } from "./Failures.ts"
import initial from "./migrations/0001_initial.ts"
import durableDelivery from "./migrations/0002_durable_delivery.ts"
import { first, OptionalWhole } from "./Rows.ts"

const migrations = { "0001_initial": initial, "0002_durable_delivery": durableDelivery }

export const migrationsTable = "migrations"

export const latestMigration = Math.max(...Object.keys(migrations).map((name) => Number.parseInt(name, 10)))

/** Runs what is missing; does nothing to a database of this version or of a newer one. */
export const migrate: Effect.Effect<void, SqlError | Migrator.MigrationError, SqlClient> = Migrator.make({})({
  loader: Migrator.fromRecord(migrations),
  table: migrationsTable
})

const latestApplied = first(Schema.Struct({ latest: OptionalWhole }))

const appliedMigration = ({ sql, read }: Database, operation: string) =>
  read(operation, latestApplied(sql`SELECT MAX(migration_id) AS latest FROM ${sql(migrationsTable)}`)).pipe(
    Effect.map((row) =>
      Option.getOrElse(
        Option.flatMap(row, ({ latest }) => latest),
        () => 0
      )
    )
  )

/** Fails when the migrations of this version are not all there. */
export const checkSchema = (database: Database): Effect.Effect<void, StoreUnavailable> =>
  Effect.flatMap(appliedMigration(database, "Store.check"), (applied) =>
    applied < latestMigration ? Effect.fail(missingSchema(database.name)) : Effect.void
  )

/** A schema from the future may mean something else by what we would write: fails when it is newer. */
export const refuseNewerSchema = (database: Database): Effect.Effect<void, StoreUnavailable> =>
  Effect.flatMap(appliedMigration(database, "Store.open"), (applied) =>
    applied > latestMigration
      ? Effect.fail(newerSchema(database.name, applied, latestMigration))
      : Effect.void
  )
