/** Backup of a SQLite database, also while servers write to it. */
import { existsSync } from "node:fs"
import { resolve } from "node:path"
import * as Effect from "effect/Effect"
import type { SettingsValues } from "../../../services/Settings.ts"
import {
  attempt,
  type BackupFailed,
  checkDatabase,
  companions,
  copyDatabase,
  damagedFix,
  type DatabaseFacts,
  failWhen,
  isSameFile,
  partialFile,
  publish
} from "./DatabaseFiles.ts"
import { nameOf } from "../sqlite/SqliteFiles.ts"
import { refusePostgresBackup } from "./PostgresTools.ts"

export type DatabasePlace = Pick<SettingsValues, "databasePath" | "databaseUrl">

export interface BackupOptions {
  /** Replaces an existing file. */
  readonly overwrite?: boolean
}

/** Endings of the database's own files: itself, SQLite's log and index, and the lock and the name of its server. */
const endings = ["", ...companions, "-lock", "-server"]

/**
 * Writes a consistent copy of the database to `file`, with everything that was committed before the start. The copy is
 * checked, synced and private, and gets its name only when it is complete.
 */
export const backup = (
  place: DatabasePlace,
  file: string,
  { overwrite = false }: BackupOptions = {}
): Effect.Effect<DatabaseFacts, BackupFailed> =>
  Effect.gen(function* () {
    const target = resolve(file)
    yield* refusePostgresBackup(place, target)
    const database = resolve(place.databasePath)
    yield* failWhen(
      !existsSync(database),
      `there is no database at ${database}`,
      "Check MUSIC_DATABASE_PATH, which is relative to the folder that the command runs in."
    )
    yield* failWhen(
      endings.some((ending) => isSameFile(`${database}${ending}`, target)),
      `${target} is a file of the database itself`,
      "Choose another name for the copy."
    )
    yield* failWhen(
      existsSync(target) && !overwrite,
      `the file ${target} exists already`,
      "Choose another name, or add --overwrite."
    )
    const partial = yield* partialFile(target)
    yield* copyDatabase(database, partial)
    const facts = yield* checkDatabase(partial, `the copy of ${nameOf(database)}`, damagedFix)
    yield* attempt(target, "Check the folder, and try again.", () => publish(partial, target))
    return { ...facts, file: target }
  }).pipe(Effect.scoped, Effect.withSpan("Backup.backup"))
