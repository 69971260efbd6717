/** Detects that the database file or its log was moved or deleted: SQLite would keep writing to it, and lose the commits. */
import { statSync } from "node:fs"

export interface WatchedFiles {
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
