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
        ({ openPostgres }) => openPostgres(url, options)
      )
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
): Effect.Effect<A, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const attempt = Effect.acquireUseRelease(
      Scope.fork(scope, ExecutionStrategy.sequential),
      (own) => Scope.extend(open, own),
      (own, exit) => (Exit.isFailure(exit) ? Scope.close(own, exit) : Effect.void)
    )
    const isAway = ({ kind }: StoreUnavailable) => kind === "unanswered"
    let isWaiting = false
    const report = (failure: StoreUnavailable): Effect.Effect<void> => {
      if (isWaiting || !isAway(failure)) return Effect.void
      isWaiting = true
      const { reason } = failure
      return Effect.logWarning("Waiting for the database", { reason, at_most_seconds: longestWait })
    }
    const reported = Effect.tapError(attempt, report)
    const opened = yield* Effect.retry(reported, {
      while: isAway,
      schedule: Schedule.intersect(Schedule.spaced("1 second"), recurWithin(longestWait * 1_000))
    })
    if (isWaiting) yield* Effect.logInfo("The database answers")
    return opened
  })

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
