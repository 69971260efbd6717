/** SQLite goes on writing to a file that was moved or deleted, or whose log was, and what it commits is lost. */
import { statSync } from "node:fs"
import * as Effect from "effect/Effect"
import { StoreUnavailable } from "../../../services/Store.ts"

export interface WatchedFiles {
  /** Fails when the path no longer leads to the file that was opened, or to the log that was joined. */
  readonly present: Effect.Effect<void, StoreUnavailable>
  /**
   * Once the connection has the log open, which keeps every other process from taking it away. Until then the log may be
   * one that another process, the last to close the database, is about to remove.
   */
  readonly joined: Effect.Effect<void>
}

/** Which file a path leads to; undefined when to none. */
const identityOf = (path: string): string | undefined => {
  const found = statSync(path, { throwIfNoEntry: false })
  return found === undefined ? undefined : `${found.dev}:${found.ino}`
}

/** Of the database that was just opened at `path`. */
export const watchFiles = (path: string, name: string): Effect.Effect<WatchedFiles> =>
  Effect.sync(() => {
    const log = `${path}-wal`
    const opened = identityOf(path)
    let joined: { readonly log: string | undefined } | undefined
    const stands = () =>
      opened !== undefined &&
      identityOf(path) === opened &&
      (joined === undefined || (joined.log !== undefined && identityOf(log) === joined.log))
    return {
      present: Effect.suspend(() =>
        stands()
          ? Effect.void
          : Effect.fail(new StoreUnavailable({ database: name, problem: { kind: "gone" } }))
      ),
      joined: Effect.sync(() => {
        joined = { log: identityOf(log) }
      })
    }
  })
