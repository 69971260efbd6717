/** Where the files of a database are, and whether they still are there: SQLite would keep writing to moved ones, and lose the commits. */
import { existsSync, realpathSync, statSync } from "node:fs"
import { stat, statfs } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type StoreSize, StoreUnavailable } from "../../../services/Store.ts"
import { openFailed } from "../StoreErrors.ts"
import { createFile } from "./PrivateFile.ts"

export const nameOf = (path: string): string => `SQLite database ${resolve(path)}`

/**
 * The database file at `path`, which is made with `create`. Links are followed, as SQLite does: its other files are beside the
 * real one.
 */
export const locateFile = (
  path: string,
  { create }: { readonly create: boolean }
): Effect.Effect<string, StoreUnavailable> =>
  Effect.gen(function* () {
    const given = resolve(path)
    const database = nameOf(path)
    if (!create && !existsSync(given))
      return yield* new StoreUnavailable({
        database,
        kind: "schema",
        code: "ENOENT",
        details: {
          phrase: "does not exist",
          fix: "set MUSIC_DATABASE_PATH to the server's file, or create one with music-backend migrate"
        }
      })
    const { file, found } = yield* Effect.try({
      try: () => {
        if (create) createFile(given)
        const file = realpathSync(given)
        return { file, found: statSync(file) }
      },
      catch: (error) => openFailed(database, error)
    })
    return found.isFile() ? file : yield* new StoreUnavailable({ database, kind: "other" })
  })

interface WatchedFiles {
  /** The path leads to the file that was opened, and its log was not replaced since `watchLog`. */
  readonly arePresent: () => boolean
  /**
   * For when the connection has the log open, which keeps other processes from removing it. Before, the log may be one that
   * another process, the last to close the database, is about to remove.
   */
  readonly watchLog: () => void
}

/** Identity of the file at a path; undefined when there is none, or the path leads through something else than folders. */
const identityOf = (path: string): string | undefined => {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    return found === undefined ? undefined : `${found.dev}:${found.ino}`
  } catch {
    return undefined
  }
}

/** For the database that was just opened at `path`. */
export const watchFiles = (path: string): WatchedFiles => {
  const log = `${path}-wal`
  const opened = identityOf(path)
  let watched: { readonly log: string | undefined } | undefined
  return {
    arePresent: () =>
      opened !== undefined &&
      identityOf(path) === opened &&
      (watched === undefined || (watched.log !== undefined && identityOf(log) === watched.log)),
    watchLog: () => {
      watched = { log: identityOf(log) }
    }
  }
}

/** Of the database at `path`. It opens neither file: closing one would drop the locks that this process has on it. */
export const sizeOf = (path: string): Effect.Effect<StoreSize, SqlError> =>
  Effect.tryPromise({
    try: async () => {
      const [data, log, disk] = await Promise.all([stat(path), stat(`${path}-wal`), statfs(dirname(path))])
      return { data: data.size, file: Option.some({ log: log.size, free: disk.bavail * disk.bsize }) }
    },
    catch: (cause) => new SqlError({ cause, message: "The size of the database is unknown" })
  })
