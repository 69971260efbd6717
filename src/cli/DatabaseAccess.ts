/** The database of the settings, for commands that query and repair. It is neither created nor migrated. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { readSettings } from "../layers/settings/Settings.ts"
import type { CursorInvalid } from "../services/OperatorQueries.ts"
import { OperatorQueries } from "../services/OperatorQueries.ts"
import type { SettingsValues } from "../services/Settings.ts"
import { Store, type StoreUnavailable } from "../services/Store.ts"
import { CommandFailed, exits, usage } from "./CommandFailed.ts"
import { CliEnvironment } from "./Environment.ts"

const databaseSettings = ["MUSIC_DATABASE_PATH", "MUSIC_DATABASE_URL"]

/** The settings. Those that name the database must be valid; others may be missing. */
export const databasePlace: Effect.Effect<SettingsValues, CommandFailed, CliEnvironment> = Effect.gen(
  function* () {
    const environment = yield* CliEnvironment
    const { problems, settings } = readSettings(environment)
    const own = problems.filter(({ name }) => databaseSettings.includes(name))
    return own.length === 0
      ? settings
      : yield* new CommandFailed({
          exit: exits.settings,
          lines: own.map(({ name, problem }) => `${name}: ${problem}`),
          fix: "see music-backend config"
        })
  }
)

export const storeFailed = ({ fix, summary }: StoreUnavailable): CommandFailed =>
  new CommandFailed({ exit: exits.unavailable, lines: [summary], fix })

const cursorFailed = (_: CursorInvalid): CommandFailed =>
  usage(
    "the cursor of --after does not belong to this list",
    "use the cursor that the previous page printed, or omit it"
  )

/** Loads the database drivers only for commands that need them. */
const access = (checkSessions: boolean) =>
  Layer.unwrapScoped(
    Effect.gen(function* () {
      const settings = yield* databasePlace
      const { databaseFromSettings, makeOperatorQueries, makeStore } = yield* Effect.promise(
        () => import("./DatabaseModule.ts")
      )
      const database = yield* Effect.mapError(
        databaseFromSettings(settings, { migrate: false, checkSessions }),
        storeFailed
      )
      return Layer.merge(
        Layer.succeed(OperatorQueries, makeOperatorQueries(database)),
        Layer.scoped(Store, makeStore(database))
      )
    })
  )

const provideDatabase = <A, R>(
  command: Effect.Effect<A, CommandFailed | StoreUnavailable | CursorInvalid, R>,
  checkSessions: boolean
): Effect.Effect<A, CommandFailed, Exclude<R, OperatorQueries | Store> | CliEnvironment> =>
  command.pipe(
    Effect.mapError((error) => {
      switch (error._tag) {
        case "CommandFailed":
          return error
        case "CursorInvalid":
          return cursorFailed(error)
        case "StoreUnavailable":
          return storeFailed(error)
      }
    }),
    Effect.provide(access(checkSessions))
  )

/** Provides the database to a command, and maps its errors to `CommandFailed`. */
export const onDatabase = <A, R>(
  command: Effect.Effect<A, CommandFailed | StoreUnavailable | CursorInvalid, R>
) => provideDatabase(command, true)

/** For a command that only reads: a pooler that moves its sessions does no harm, and the check for one takes many round trips. */
export const onDatabaseToRead = <A, R>(
  command: Effect.Effect<A, CommandFailed | StoreUnavailable | CursorInvalid, R>
) => provideDatabase(command, false)
