/** Restore of a SQLite database: check the backup, copy it, mark what may have been filed since, swap the files. */
import { chmodSync, existsSync, linkSync, realpathSync, renameSync, rmSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { latestMigration } from "../migrations/Migrations.ts"
import { isLocked } from "../StoreErrors.ts"
import type { BackupOptions, DatabasePlace } from "./Backup.ts"
import {
  attempt,
  type BackupFailed,
  checkDatabase,
  companions,
  copyDatabase,
  type DatabaseFacts,
  failedIn,
  failWhen,
  isSameFile,
  openFile,
  partialFile,
  publish,
  runOn
} from "./DatabaseFiles.ts"
import { refusePostgresRestore } from "./PostgresTools.ts"
import { createFolder, keepOwner } from "../sqlite/PrivateFile.ts"
import { nameOf } from "../sqlite/SqliteFiles.ts"
import { markUnfiledUnknown, removeSessionDigests } from "./RestoreReconciliation.ts"

/** Reads a backup from end to end; fails unless this version can restore it. Changes nothing. */
export const verifyBackup = (file: string): Effect.Effect<DatabaseFacts, BackupFailed> =>
  Effect.gen(function* () {
    const source = resolve(file)
    yield* failWhen(!existsSync(source), `there is no backup at ${source}`, "Check the name of the file.")
    const facts = yield* checkDatabase(
      source,
      nameOf(source),
      "Use another backup: this one cannot be restored."
    )
    yield* failWhen(
      facts.migration > latestMigration,
      `${nameOf(source)} has a newer schema than this version of the program knows (${facts.migration}, known ${latestMigration})`,
      "Restore it with the version that created it, or a later one."
    )
    return facts
  }).pipe(Effect.withSpan("Backup.verify"))

export interface Restored extends DatabaseFacts {
  /** Where the replaced database is kept. */
  readonly aside: Option.Option<string>
  /** Reports that were not filed in the backup: they are searched for before they are sent. */
  readonly unfiled: number
}

/** Changes the copy before any server works on it; returns the number of unfiled reports. */
const reconcile = (partial: string): Effect.Effect<number, BackupFailed> => {
  const fix = "Free some space, and try again."
  return openFile(partial, { readonly: false, fix }).pipe(
    Effect.flatMap((sql) =>
      Effect.gen(function* () {
        yield* runOn(sql, removeSessionDigests(sql))
        return yield* runOn(sql, markUnfiledUnknown(sql))
      }).pipe(Effect.mapError(failedIn(nameOf(partial), "Backup.restore", fix)))
    ),
    Effect.scoped
  )
}

/**
 * Locks the database until the scope closes, and merges its log into the file, which is complete without companions then. A
 * file that is too damaged to be opened cannot be locked; a server that has it open notices the replacement, and accepts
 * nothing more.
 */
const lockDatabase = (database: string): Effect.Effect<void, BackupFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const sql = yield* openFile(database, { readonly: false, fix: "Check the rights of this account." })
    for (const statement of [
      "PRAGMA busy_timeout = 0",
      "PRAGMA locking_mode = EXCLUSIVE",
      "PRAGMA journal_mode = DELETE",
      "BEGIN EXCLUSIVE"
    ]) {
      yield* sql.unsafe(statement)
    }
    // A connection in exclusive mode only invalidates the journal of its last commit, and never deletes it.
    yield* attempt(database, "Check the folder, and try again.", () =>
      rmSync(`${database}-journal`, { force: true })
    )
  }).pipe(
    Effect.catchTag("SqlError", (error) =>
      failWhen(
        isLocked(error),
        `${nameOf(database)} is in use`,
        "Stop all servers and tools that have it open, and try again."
      )
    )
  )

/** Fails while another process has the database open. */
export const refuseOpenDatabase = (place: DatabasePlace): Effect.Effect<void, BackupFailed> =>
  Option.isSome(place.databaseUrl) ? Effect.void : Effect.scoped(lockDatabase(resolve(place.databasePath)))

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
    const source = resolve(file)
    yield* refusePostgresRestore(place, source)
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
    const unfiled = yield* reconcile(partial)
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
