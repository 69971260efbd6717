import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { Store, type StoreUnavailable } from "../../services/Store.ts"
import type { Database } from "./Database.ts"
import { waitForDatabase } from "./DatabaseWait.ts"
import { makeStore } from "./repositories/Repositories.ts"
import { openDatabase } from "./sqlite/SqliteStore.ts"

/**
 * Postgres when `MUSIC_DATABASE_URL` is set, else the file at `MUSIC_DATABASE_PATH`. Without `migrate` nothing is created, and an
 * older schema is refused, or with `older` accepted as it is.
 */
export const databaseFromSettings = (
  {
    databaseConnections: connections,
    databasePath,
    databaseUrl
  }: Pick<SettingsValues, "databasePath" | "databaseUrl"> &
    Partial<Pick<SettingsValues, "databaseConnections">>,
  options: { readonly migrate: boolean; readonly older?: boolean }
): Effect.Effect<Database, StoreUnavailable, Scope.Scope> =>
  Option.match(databaseUrl, {
    onNone: () => openDatabase(databasePath, options),
    // Imported only when needed: the driver is slow to load.
    onSome: (url) =>
      Effect.flatMap(
        Effect.promise(() => import("./postgres/PgStore.ts")),
        ({ openPostgres }) =>
          openPostgres(url, connections === undefined ? options : { ...options, connections })
      )
  })

/** Of a server: it waits for a Postgres that is away. */
export const StoreFromSettings: Layer.Layer<Store, StoreUnavailable, Settings> = Layer.scoped(
  Store,
  Settings.pipe(
    Effect.flatMap((settings) => waitForDatabase(databaseFromSettings(settings, { migrate: true }))),
    Effect.flatMap(makeStore)
  )
)
