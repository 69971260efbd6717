/** Restore of a SQLite database: check the backup, copy it, mark what may have been filed since, swap the files. */
import { chmodSync, existsSync, linkSync, realpathSync, renameSync, rmSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import type { SqlClient } from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { createFolder, keepOwner } from "../sqlite/PrivateFile.ts"
import { nameOf } from "../sqlite/SqliteFiles.ts"
import { count, run, type Statements } from "../../../services/store/Statements.ts"
import {
  attempt,
  BackupFailed,
  type BackupOptions,
  checkDatabase,
  companions,
  copyDatabase,
  type DatabaseFacts,
  type DatabasePlace,
  failWhen,
  isSameFile,
  onFile,
  partialFile,
  publish,
  refusePostgres,
  toBackupFailed
} from "./Backup.ts"

/** Reads a backup from end to end; fails unless this version can restore it. Changes nothing. */
export const verifyBackup = (file: string): Effect.Effect<DatabaseFacts, BackupFailed> =>
  failWhen(!existsSync(file), `there is no backup at ${resolve(file)}`, "Check the name of the file.").pipe(
    Effect.zipRight(
      checkDatabase(resolve(file), nameOf(file), "Use another backup, or the version that made this one.")
    ),
    Effect.withSpan("Backup.verify")
  )

interface Restored extends DatabaseFacts {
  /** Where the replaced database is kept. */
  readonly aside: Option.Option<string>
  /** Reports that were not filed in the backup: they are searched for before they are sent. */
  readonly unfiled: number
}

/**
 * What the copy cannot know (docs/operations.md has the same for Postgres). Digests of sessions are removed: they may be of sessions that
 * ended since. A report that is not filed in the backup may have an issue by now: it is marked as sent once more, at its creation, by a
 * sender that was lost, so that all searches are made first. A failed delivery stays failed; a retry makes the same searches. Returns
 * how many were marked.
 */
const reconcile = (sql: SqlClient): Statements<number> => {
  const created = sql`
    COALESCE((SELECT reports.created_at FROM reports WHERE reports.id = deliveries.subject), created_at)`
  return Effect.zipRight(
    run(sql`DELETE FROM session_digests`),
    count(sql`
      UPDATE deliveries SET
        state = CASE WHEN state = 'waiting' THEN 'unknown' ELSE state END,
        attempts = attempts + 1, looks = 0, sent_at = ${created}, available_at = ${created},
        fence = fence + 1, lease_until = NULL
      WHERE kind = 'report' AND state <> 'delivered'
      RETURNING id`)
  )
}

const locking = [
  "PRAGMA busy_timeout = 0",
  "PRAGMA locking_mode = EXCLUSIVE",
  "PRAGMA journal_mode = DELETE",
  "BEGIN EXCLUSIVE"
]

/**
 * Locks the database until the scope closes, and merges its log into the file, which is complete without companions then. A
 * file that is too damaged to be opened cannot be locked; a server that has it open notices the replacement, and accepts
 * nothing more.
 */
const lockDatabase = (database: string): Effect.Effect<void, BackupFailed, Scope.Scope> =>
  Effect.gen(function* () {
    yield* onFile(
      database,
      (sql) => Effect.forEach(locking, (statement) => run(sql.unsafe(statement)), { discard: true }),
      { readonly: false }
    )
    // A connection in exclusive mode only invalidates the journal of its last commit, and never deletes it.
    yield* attempt(database, "Check the folder, and try again.", () =>
      rmSync(`${database}-journal`, { force: true })
    )
  }).pipe(
    Effect.catchTag("StoreUnavailable", (failure) => {
      if (failure.kind === "corrupt") return Effect.void
      return failure.kind === "locked"
        ? new BackupFailed({
            reason: `${nameOf(database)} is in use`,
            fix: "Stop all servers and tools that have it open, and try again."
          })
        : toBackupFailed("Check the rights of this account.")(failure)
    })
  )

const moveCompanions = (from: string, to: string): void => {
  for (const suffix of companions)
    if (existsSync(`${from}${suffix}`)) renameSync(`${from}${suffix}`, `${to}${suffix}`)
}

/**
 * Moves the copy to the database's name; the old database, with its companions, is kept as `aside`. At every moment the name
 * leads to a complete database, and never to a new one with the log of the old.
 */
const swap = (partial: string, target: string, aside: string): Effect.Effect<void, BackupFailed> =>
  attempt(target, "Check the folder, and try again.", () => {
    keepOwner(partial, existsSync(target) ? target : dirname(target))
    if (existsSync(target)) linkSync(target, aside)
    moveCompanions(target, aside)
    publish(partial, target)
    // The old database may have come from a copy that others could read.
    for (const suffix of ["", ...companions])
      if (existsSync(`${aside}${suffix}`)) chmodSync(`${aside}${suffix}`, 0o600)
  }).pipe(
    Effect.tapError(() =>
      Effect.sync(() => {
        moveCompanions(aside, target)
        if (isSameFile(aside, target)) rmSync(aside)
      })
    )
  )

/**
 * Replaces the database, which no server may have open, by a copy of the backup `file`. An existing database is replaced only
 * with `overwrite`. After a failure the database is as it was.
 */
export const restore = (
  place: DatabasePlace,
  file: string,
  { overwrite = false }: BackupOptions = {}
): Effect.Effect<Restored, BackupFailed> =>
  Effect.gen(function* () {
    yield* refusePostgres(place)
    const source = resolve(file)
    const named = resolve(place.databasePath)
    // The database stays where a link leads to.
    const database = existsSync(named) ? realpathSync(named) : named
    yield* failWhen(
      isSameFile(database, source),
      `${source} is the database itself`,
      "Name the backup to restore."
    )
    const facts = yield* verifyBackup(source)
    yield* failWhen(
      existsSync(database) && !overwrite,
      `the database ${database} exists already`,
      "Choose another name, or add --overwrite."
    )
    yield* attempt(database, "Check MUSIC_DATABASE_PATH.", () => createFolder(dirname(database)))
    const partial = yield* partialFile(database)
    yield* copyDatabase(source, partial)
    const unfiled = yield* Effect.scoped(onFile(partial, reconcile, { readonly: false })).pipe(
      Effect.mapError(toBackupFailed("Free some space, and try again."))
    )
    const { size: bytes } = yield* attempt(partial, "Check the folder, and try again.", () =>
      statSync(partial)
    )
    const replaced = existsSync(database)
    if (replaced) yield* lockDatabase(database)
    const at = new Date(yield* Clock.currentTimeMillis).toISOString().replaceAll(/[-:.]/g, "")
    const aside = `${database}.before-${at}`
    yield* swap(partial, database, aside)
    return {
      ...facts,
      bytes,
      file: database,
      aside: replaced ? Option.some(aside) : Option.none(),
      unfiled
    }
  }).pipe(Effect.scoped, Effect.withSpan("Backup.restore"))
