/** Backup of a SQLite database, also while servers write to it, and the handling of its files: opened, checked, copied, synced, renamed. */
import { randomUUID } from "node:crypto"
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import { type SqlClient, TransactionConnection } from "@effect/sql/SqlClient"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { SettingsValues } from "../../../services/Settings.ts"
import type { StoreUnavailable } from "../../../services/Store.ts"
import { canMigrate, checkHistory, recordedSchema } from "../migrations/Migrations.ts"
import { Whole } from "../../../services/store/Rows.ts"
import { applicationId, openClient, preparingAgain } from "../sqlite/SqliteClient.ts"
import { nameOf } from "../sqlite/SqliteFiles.ts"
import { all, any, run, type Statements } from "../../../services/store/Statements.ts"
import { openFailed, toStoreUnavailable } from "../StoreErrors.ts"

/** Nothing was changed. `reason` names the file and never a credential; `fix` is an instruction for an operator. */
export class BackupFailed extends Data.TaggedError("BackupFailed")<{
  readonly reason: string
  readonly fix: string
}> {}

export const failWhen = (
  condition: boolean,
  reason: string,
  fix: string
): Effect.Effect<void, BackupFailed> =>
  condition ? Effect.fail(new BackupFailed({ reason, fix })) : Effect.void

export type DatabasePlace = Pick<SettingsValues, "databasePath" | "databaseUrl">

export interface BackupOptions {
  /** Replaces an existing file. */
  readonly overwrite?: boolean
}

export const refusePostgres = ({ databaseUrl }: DatabasePlace): Effect.Effect<void, BackupFailed> =>
  failWhen(
    Option.isSome(databaseUrl),
    "MUSIC_DATABASE_URL is set: a PostgreSQL database is copied with PostgreSQL's own tools",
    "Run the commands of docs/operations.md, Backup and Restore."
  )

/** Files that SQLite keeps beside a database. */
export const companions = ["-wal", "-shm", "-journal"] as const

export const isSameFile = (one: string, other: string): boolean => {
  const [first, second] = [one, other].map((file) => statSync(file, { throwIfNoEntry: false }))
  return first !== undefined && second !== undefined && first.dev === second.dev && first.ino === second.ino
}

/** Runs file operations; their errors get `fix`. */
export const attempt = <A>(file: string, fix: string, operate: () => A): Effect.Effect<A, BackupFailed> =>
  Effect.try({
    try: operate,
    catch: (error) => new BackupFailed({ reason: openFailed(nameOf(file), error).reason, fix })
  })

/** Runs statements on a connection, which is closed with the scope. It changes nothing without a write. */
export const onFile = <A>(
  file: string,
  use: (sql: SqlClient) => Statements<A>,
  { readonly = true, subject = nameOf(file) } = {}
): Effect.Effect<A, StoreUnavailable, Scope.Scope> =>
  openClient(subject, file, { readonly }).pipe(
    Effect.flatMap((sql) =>
      Effect.flatMap(sql.reserve, (connection) =>
        Effect.provideService(use(sql), TransactionConnection, [preparingAgain(connection), 0])
      )
    ),
    Effect.mapError(toStoreUnavailable(subject, "Backup"))
  )

const damagedFix =
  "The database itself may be damaged: run music-backend check, or restore an earlier backup."

/** With the fix that the failure itself names, or this one; `damaged` is for a corrupt file. */
export const toBackupFailed =
  (fix: string, damaged = fix) =>
  ({ details, kind, summary }: StoreUnavailable): BackupFailed =>
    new BackupFailed({ reason: summary, fix: details?.fix ?? (kind === "corrupt" ? damaged : fix) })

const sync = (path: string, flags: "r" | "r+"): void => {
  const descriptor = openSync(path, flags)
  fsyncSync(descriptor)
  closeSync(descriptor)
}

/** An empty private file beside `target`; removed with the scope unless it was renamed. */
export const partialFile = (target: string): Effect.Effect<string, BackupFailed, Scope.Scope> =>
  Effect.acquireRelease(
    attempt(target, "Choose an existing, writable folder.", () => {
      const partial = join(dirname(target), `.${basename(target)}.${randomUUID()}.partial`)
      closeSync(openSync(partial, "wx", 0o600))
      return partial
    }),
    (partial) =>
      Effect.sync(() => {
        for (const suffix of ["", ...companions]) rmSync(`${partial}${suffix}`, { force: true })
      })
  )

/** Moves the complete file to `target`. File and folder are synced: a rename survives a power cut only with its folder. */
export const publish = (partial: string, target: string): void => {
  sync(partial, "r+")
  renameSync(partial, target)
  sync(dirname(target), "r")
}

/**
 * SQLite works without leaving the thread: signals are handled between two steps. Twice, since the event loop may run the first
 * `setImmediate` before it polls for signals.
 */
const handleSignals = Effect.async<void>((resume) => {
  setImmediate(() => setImmediate(() => resume(Effect.void)))
})

/**
 * Copies the state at this moment into the empty file `partial`. `VACUUM INTO` reads in one transaction, which holds up no
 * writer of a WAL database, and keeps application id and schema.
 */
export const copyDatabase = (from: string, partial: string): Effect.Effect<void, BackupFailed> =>
  onFile(from, (sql) => run(sql`VACUUM INTO ${partial}`), {
    subject: `${nameOf(from)}, or its copy in ${dirname(partial)},`
  }).pipe(
    Effect.mapError(toBackupFailed("Free some space or choose another folder, and try again.", damagedFix)),
    Effect.scoped,
    Effect.zipRight(handleSignals)
  )

/** Content of a checked database. */
export interface DatabaseFacts {
  readonly file: string
  readonly bytes: number
  /** Its newest migration. */
  readonly schema: number
  readonly rows: Readonly<Record<string, number>>
}

const Problem = Schema.Struct({ integrityCheck: Schema.String })
const Table = Schema.Struct({ name: Schema.String })
const Count = Schema.Struct({ count: Whole })

/** Reads the whole file; fails unless it is an intact database that this version reads. In messages it is called `subject`. */
export const checkDatabase = (
  file: string,
  subject: string,
  fix: string
): Effect.Effect<DatabaseFacts, BackupFailed> =>
  Effect.gen(function* () {
    const { size: bytes } = yield* attempt(file, fix, () => statSync(file))
    const refuse = (problem: string) => new BackupFailed({ reason: `${subject} ${problem}`, fix })
    const readFacts = (sql: SqlClient): Statements<BackupFailed | DatabaseFacts> =>
      Effect.gen(function* () {
        if (!(yield* any(sql`SELECT 1 FROM pragma_application_id WHERE application_id = ${applicationId}`)))
          return refuse("is not a database of this program")
        const problems = yield* all(Problem)(sql`PRAGMA integrity_check(1)`)
        if (problems.some(({ integrityCheck }) => integrityCheck !== "ok"))
          return refuse("is corrupt: its integrity check fails")
        const history = yield* recordedSchema(sql)
        if (history.latest === 0) return refuse("has no schema")
        const checked = yield* Effect.either(checkHistory(subject, history))
        if (Either.isLeft(checked) && !canMigrate(checked.left)) return toBackupFailed(fix)(checked.left)
        const tables = yield* all(Table)(sql`
          SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name`)
        const rows = yield* Effect.forEach(tables, ({ name }) =>
          Effect.map(all(Count)(sql`SELECT COUNT(*) AS count FROM ${sql(name)}`), ([row]) => [
            name,
            row?.count ?? 0
          ])
        )
        return { file, bytes, schema: history.latest, rows: Object.fromEntries(rows) }
      })
    const facts = yield* Effect.mapError(onFile(file, readFacts, { subject }), toBackupFailed(fix))
    return facts instanceof BackupFailed ? yield* facts : facts
  }).pipe(Effect.scoped, Effect.zipLeft(handleSignals))

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
    yield* refusePostgres(place)
    const target = resolve(file)
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
    // SQLite would read it as that of the copy, and find other data there than was checked.
    const log = ["-wal", "-journal"].map((suffix) => `${target}${suffix}`).find((file) => existsSync(file))
    yield* failWhen(
      log !== undefined,
      `${log} is left of another database of that name`,
      "Stop what has it open. Then remove it together with that database, or choose another name for the copy."
    )
    const partial = yield* partialFile(target)
    yield* copyDatabase(database, partial)
    const facts = yield* checkDatabase(partial, `the copy of ${nameOf(database)}`, damagedFix)
    yield* attempt(target, "Check the folder, and try again.", () => publish(partial, target))
    return { ...facts, file: target }
  }).pipe(Effect.scoped, Effect.withSpan("Backup.backup"))
