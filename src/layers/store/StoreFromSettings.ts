import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { Drain } from "../../services/Drain.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { Store, type StoreUnavailable } from "../../services/Store.ts"
import { latestMigration, type OpenedDatabase } from "./migrations/Migrations.ts"
import { waitForDatabase } from "./DatabaseWait.ts"
import { makeStore } from "./StoreHealth.ts"

/**
 * Postgres when `MUSIC_DATABASE_URL` is set, else the file at `MUSIC_DATABASE_PATH`. Without `migrate` nothing is created, and an
 * older schema is refused.
 */
export const databaseFromSettings = (
  {
    databaseConnections: connections,
    databasePath,
    databaseUrl
  }: Pick<SettingsValues, "databasePath" | "databaseUrl"> &
    Partial<Pick<SettingsValues, "databaseConnections">>,
  options: { readonly migrate: boolean }
): Effect.Effect<OpenedDatabase, StoreUnavailable, Scope.Scope> =>
  Option.match(databaseUrl, {
    // Each is imported only when needed: a driver is slow to load, and SQLite's is a native addon.
    onNone: () =>
      Effect.flatMap(
        Effect.promise(() => import("./sqlite/SqliteStore.ts")),
        ({ openDatabase }) => openDatabase(databasePath, options)
      ),
    onSome: (url) =>
      Effect.flatMap(
        Effect.promise(() => import("./postgres/PgStore.ts")),
        ({ openPostgres }) =>
          openPostgres(url, connections === undefined ? options : { ...options, connections })
      )
  })

const reportOpened = ({ name, schema: { found, migrationMillis } }: OpenedDatabase): Effect.Effect<void> =>
  Effect.zipRight(
    Effect.logInfo("Database opened", {
      database: name,
      schema_found: found,
      schema_needed: latestMigration
    }),
    Option.match(migrationMillis, {
      onNone: () => Effect.void,
      onSome: (millis) =>
        Effect.logInfo("Database migrated", {
          from: found,
          to: latestMigration,
          duration_ms: Math.round(millis)
        })
    })
  )

const lockForServer = ({ databasePath, databaseUrl, shutdownGraceSeconds }: SettingsValues) =>
  Option.isSome(databaseUrl)
    ? Effect.void
    : Effect.flatMap(
        Effect.promise(() => import("./sqlite/ServerLock.ts")),
        (module) => module.lockForServer(databasePath, shutdownGraceSeconds)
      )

/** Of a server: it waits for a Postgres that is away, and is the only one on a SQLite file. */
export const StoreFromSettings: Layer.Layer<Store, StoreUnavailable, Settings | Drain> = Layer.scoped(
  Store,
  Settings.pipe(
    Effect.tap(lockForServer),
    Effect.flatMap((settings) => waitForDatabase(databaseFromSettings(settings, { migrate: true }))),
    Effect.tap(reportOpened),
    Effect.flatMap(makeStore)
  )
)
