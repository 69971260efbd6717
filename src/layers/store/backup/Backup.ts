/** Backup and restore of a SQLite database, while a server writes to it or not; for operators. */
import { existsSync, mkdirSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { SettingsValues } from "../../../services/Settings.ts"
import { markUnfiledUnknown } from "./RestoreReconciliation.ts"
import { type BackupFacts, type BackupOptions, copyBeside, examine } from "./BackupCopy.ts"
import {
  attempt,
  BackupFailed,
  failedIn,
  isSameFile,
  nameOf,
  openFile,
  publish,
  replace,
  syncFile
} from "./BackupFiles.ts"
import { isLocked } from "../StoreErrors.ts"
import { latestMigration } from "../migrations/Migrations.ts"

export type { BackupFacts, BackupOptions, BackupProgress } from "./BackupCopy.ts"
export { BackupFailed } from "./BackupFiles.ts"

export interface Restored extends BackupFacts {
  /** Where the database that was there before is kept. */
  readonly aside: Option.Option<string>
  /** Reports that were not filed in the backup, and may be by now: they are looked for before they are sent. */
  readonly doubted: number
}

type Place = Pick<SettingsValues, "databasePath" | "databaseUrl">

/** The password stays out of a message; the tools ask for it, or find it in PGPASSWORD or ~/.pgpass. */
const withoutPassword = (databaseUrl: Redacted.Redacted): string => {
  const url = new URL(Redacted.value(databaseUrl))
  url.password = ""
  url.searchParams.delete("password")
  return url.href
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

const refusePostgres = (
  { databaseUrl }: Place,
  command: (url: string) => string
): Effect.Effect<void, BackupFailed> =>
  Option.match(databaseUrl, {
    onNone: () => Effect.void,
    onSome: (url) =>
      Effect.fail(
        new BackupFailed({
          reason: "MUSIC_DATABASE_URL is set: a PostgreSQL database is copied with PostgreSQL's own tools",
          fix: `Run: ${command(quoted(withoutPassword(url)))}`
        })
      )
  })

const demandDatabase = (file: string): Effect.Effect<void, BackupFailed> =>
  existsSync(file)
    ? Effect.void
    : Effect.fail(
        new BackupFailed({
          reason: `there is no database at ${file}`,
          fix: "Check MUSIC_DATABASE_PATH, which is relative to the folder that the command runs in."
        })
      )

const refuseExisting = (file: string, what: string, { overwrite = false }: BackupOptions) =>
  existsSync(file) && !overwrite
    ? Effect.fail(
        new BackupFailed({
          reason: `${what} ${file} exists already`,
          fix: "Choose another name, or ask for it to be overwritten."
        })
      )
    : Effect.void

/**
 * Writes a consistent copy of the database to `file`, also while servers write to it; what was committed before the start
 * is in it. The copy is checked, lasting, for its owner only, and shows under its name only when it is whole.
 */
export const backup = (
  place: Place,
  file: string,
  options: BackupOptions = {}
): Effect.Effect<BackupFacts, BackupFailed> =>
  Effect.gen(function* () {
    const target = resolve(file)
    yield* refusePostgres(place, (url) => `pg_dump --format=custom --file=${quoted(target)} --dbname=${url}`)
    const database = resolve(place.databasePath)
    yield* demandDatabase(database)
    if (isSameFile(database, target))
      return yield* new BackupFailed({
        reason: `${target} is the database itself`,
        fix: "Choose another name for the copy."
      })
    yield* refuseExisting(target, "the file", options)
    const { facts, partial } = yield* copyBeside(database, target, options)
    yield* attempt(target, "Check the folder, and try again.", () => publish(partial, target))
    return { ...facts, file: target }
  }).pipe(Effect.scoped, Effect.withSpan("Backup.backup"))

/** Reads a backup from end to end: fails unless this version can restore it. Changes nothing. */
export const verifyBackup = (file: string): Effect.Effect<BackupFacts, BackupFailed> =>
  Effect.gen(function* () {
    const source = resolve(file)
    yield* demandBackup(source)
    const facts = yield* examine(source)
    if (facts.migration > latestMigration)
      return yield* new BackupFailed({
        reason: `${nameOf(source)} has a newer schema than this version of the program knows (${facts.migration}, known ${latestMigration})`,
        fix: "Restore it with the version that made it, or a later one."
      })
    return facts
  }).pipe(Effect.withSpan("Backup.verify"))

const demandBackup = (file: string): Effect.Effect<void, BackupFailed> =>
  existsSync(file)
    ? Effect.void
    : Effect.fail(
        new BackupFailed({ reason: `there is no backup at ${file}`, fix: "Check the name of the file." })
      )

/**
 * Keeps everybody else out until the scope closes, and merges the log into the file. What is too damaged to be opened
 * cannot tell who uses it; a server that does notices that its file was replaced, and accepts nothing more.
 */
const claim = (database: string): Effect.Effect<void, BackupFailed, Scope.Scope> =>
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
  }).pipe(
    Effect.catchTag("SqlError", (error) =>
      isLocked(error)
        ? Effect.fail(
            new BackupFailed({
              reason: `${nameOf(database)} is in use`,
              fix: "Stop every server and tool that has it open, and try again."
            })
          )
        : Effect.void
    )
  )

/** Changes the checked copy before anybody serves it. */
const doubt = (partial: string): Effect.Effect<number, BackupFailed> =>
  Effect.gen(function* () {
    const fix = "Make room, and try again."
    const doubted = yield* openFile(partial, { readonly: false, fix }).pipe(
      Effect.flatMap((sql) =>
        Effect.mapError(markUnfiledUnknown(sql), failedIn(partial, "Backup.restore", fix))
      ),
      Effect.scoped
    )
    yield* attempt(partial, "Check the disk, and try again.", () => syncFile(partial))
    return doubted
  })

/**
 * Fills an emptied database: with tables that the backup does not know beside it, the next upgrade would fail. The dump is made a script
 * first, so that all of it, and the emptying, is one transaction.
 */
const pgRestore = (url: string, file: string): string => {
  const script = quoted(`${file}.sql`)
  return [
    `(umask 077 && pg_restore --file=${script} ${quoted(file)})`,
    `psql --single-transaction --set=ON_ERROR_STOP=1 --command='DROP SCHEMA public CASCADE' --command='CREATE SCHEMA public' --file=${script} --dbname=${url}`,
    `rm ${script}`,
    "music-backend restore --finish"
  ].join(" && ")
}

/**
 * Puts a checked copy of `file` in the place of the database, which no server may have open meanwhile. An existing
 * database is replaced with `overwrite` only, and kept aside. On a failure the database is as it was.
 */
export const restore = (
  place: Place,
  file: string,
  options: BackupOptions = {}
): Effect.Effect<Restored, BackupFailed> =>
  Effect.gen(function* () {
    const source = resolve(file)
    yield* refusePostgres(place, (url) => pgRestore(url, source))
    const database = resolve(place.databasePath)
    if (isSameFile(database, source))
      return yield* new BackupFailed({
        reason: `${source} is the database itself`,
        fix: "Name the backup to restore."
      })
    yield* verifyBackup(source)
    yield* refuseExisting(database, "the database", options)
    yield* attempt(database, "Check MUSIC_DATABASE_PATH.", () =>
      mkdirSync(dirname(database), { recursive: true, mode: 0o700 })
    )
    const { facts, partial } = yield* copyBeside(source, database, options)
    const doubted = yield* doubt(partial)
    const { size: bytes } = yield* attempt(partial, "Check the folder, and try again.", () =>
      statSync(partial)
    )
    const replaced = existsSync(database)
    if (replaced) yield* claim(database)
    const at = new Date(yield* Clock.currentTimeMillis).toISOString().replaceAll(/[-:.]/g, "")
    const aside = `${database}.before-${at}`
    yield* replace(partial, database, aside)
    return { ...facts, bytes, file: database, aside: replaced ? Option.some(aside) : Option.none(), doubted }
  }).pipe(Effect.scoped, Effect.withSpan("Backup.restore"))
