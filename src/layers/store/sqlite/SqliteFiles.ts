/** Detects that the database file or its log was moved or deleted: SQLite would keep writing to it, and lose the commits. */
import { statSync } from "node:fs"
import * as Effect from "effect/Effect"
import { StoreUnavailable } from "../../../services/Store.ts"

export interface WatchedFiles {
  /** Fails when the path no longer leads to the file that was opened, or its log was replaced since `watchLog`. */
  readonly present: Effect.Effect<void, StoreUnavailable>
  /**
   * For when the connection has the log open, which keeps other processes from removing it. Before, the log may be one that
   * another process, the last to close the database, is about to remove.
   */
  readonly watchLog: Effect.Effect<void>
}

/** Identity of the file at a path; undefined when there is none. */
const identityOf = (path: string): string | undefined => {
  const found = statSync(path, { throwIfNoEntry: false })
  return found === undefined ? undefined : `${found.dev}:${found.ino}`
}

/** For the database that was just opened at `path`. */
export const watchFiles = (path: string, name: string): Effect.Effect<WatchedFiles> =>
  Effect.sync(() => {
    const log = `${path}-wal`
    const opened = identityOf(path)
    let watched: { readonly log: string | undefined } | undefined
    const isUnchanged = () =>
      opened !== undefined &&
      identityOf(path) === opened &&
      (watched === undefined || (watched.log !== undefined && identityOf(log) === watched.log))
    return {
      present: Effect.suspend(() =>
        isUnchanged()
          ? Effect.void
          : Effect.fail(new StoreUnavailable({ database: name, problem: { kind: "gone" } }))
      ),
      watchLog: Effect.sync(() => {
        watched = { log: identityOf(log) }
      })
    }
  })
