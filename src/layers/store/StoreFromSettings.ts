/** The database of the settings. A server that starts before its database, as machines and clusters do, waits for it. */
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import type { Drain } from "../../services/Drain.ts"
import { recurWithin } from "../../services/MonotonicTime.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { Store, type StoreUnavailable } from "../../services/Store.ts"
import { latestMigration, type OpenedDatabase } from "./migrations/Migrations.ts"
import { makeStore } from "./StoreHealth.ts"

/**
 * Postgres when `MUSIC_DATABASE_URL` is set, else the file at `MUSIC_DATABASE_PATH`. Without `migrate` nothing is created, and an
 * older schema is refused.
 */
export const databaseFromSettings = (
  { databasePath, databaseUrl }: Pick<SettingsValues, "databasePath" | "databaseUrl">,
  options: { readonly migrate: boolean }
): Effect.Effect<OpenedDatabase, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    // Each is imported only when needed: a driver is slow to load, and SQLite's is a native addon.
    if (Option.isSome(databaseUrl)) {
      const { openPostgres } = yield* Effect.promise(() => import("./postgres/PgStore.ts"))
      return yield* openPostgres(databaseUrl.value, options)
    }
    const { openDatabase } = yield* Effect.promise(() => import("./sqlite/SqliteStore.ts"))
    return yield* openDatabase(databasePath, options)
  })

const reportOpened = ({ foundSchema, name }: OpenedDatabase) =>
  Effect.gen(function* () {
    yield* Effect.logInfo("Database opened", {
      database: name,
      schema_found: foundSchema,
      schema_needed: latestMigration
    })
    if (foundSchema < latestMigration)
      yield* Effect.logInfo("Database migrated", { from: foundSchema, to: latestMigration })
  })

/** Seconds. */
const longestWait = 60

/** Opens a database. While its server does not answer, tries again, for 60 s at most. What a failed attempt opened is freed. */
export const waitForDatabase = <A>(
  open: Effect.Effect<A, StoreUnavailable, Scope.Scope>
): Effect.Effect<A, StoreUnavailable, Scope.Scope> => {
  const isAway = ({ kind }: StoreUnavailable) => kind === "unanswered"
  const attempt = Effect.flatMap(Effect.scope, (scope) =>
    Effect.acquireUseRelease(
      Scope.fork(scope, ExecutionStrategy.sequential),
      (own) => Scope.extend(open, own),
      (own, exit) => (Exit.isFailure(exit) ? Scope.close(own, exit) : Effect.void)
    )
  )
  const retried = Effect.retry(attempt, {
    while: isAway,
    schedule: Schedule.intersect(Schedule.spaced("1 second"), recurWithin(longestWait * 1_000))
  })
  return Effect.catchIf(attempt, isAway, ({ reason }) =>
    Effect.logWarning("Waiting for the database", { reason, at_most_seconds: longestWait }).pipe(
      Effect.zipRight(retried),
      Effect.zipLeft(Effect.logInfo("The database answers"))
    )
  )
}

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
