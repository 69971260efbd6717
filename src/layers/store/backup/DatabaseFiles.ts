/** SQLite files as backup and restore handle them: opened, checked, copied, synced and renamed. */
import { randomUUID } from "node:crypto"
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import type { SqliteClient } from "@effect/sql-sqlite-node/SqliteClient"
import { type SqlClient, TransactionConnection } from "@effect/sql/SqlClient"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { recordedSchema, unreleasedSchema } from "../migrations/Migrations.ts"
import { all, first, type Statements } from "../Statements.ts"
import { Whole } from "../repositories/Rows.ts"
import { applicationId, openClient } from "../sqlite/SqliteClient.ts"
import { nameOf } from "../sqlite/SqliteFiles.ts"
import { type DatabaseFailure, openFailed, toStoreUnavailable } from "../StoreErrors.ts"

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

export const damagedFix =
  "The database itself may be damaged: run its integrity check, or restore an earlier backup."

/** Files that SQLite keeps beside a database. */
export const companions = ["-wal", "-shm", "-journal"] as const

export const isSameFile = (one: string, other: string): boolean => {
  const [first, second] = [one, other].map((file) => statSync(file, { throwIfNoEntry: false }))
  return first !== undefined && second !== undefined && first.dev === second.dev && first.ino === second.ino
}

/** Runs file operations; their errors get `fix`. */
export const attempt = <A>(file: string, fix: string, run: () => A): Effect.Effect<A, BackupFailed> =>
  Effect.try({
    try: run,
    catch: (error) => new BackupFailed({ reason: openFailed(nameOf(file), error).reason, fix })
  })

export const failedIn =
  (database: string, operation: string, fix: string) =>
  (error: DatabaseFailure): BackupFailed =>
    new BackupFailed({ reason: toStoreUnavailable(database, operation)(error).reason, fix })

/** One connection, closed with the scope; it changes nothing without a write. */
export const openFile = (
  file: string,
  { readonly, fix }: { readonly readonly: boolean; readonly fix: string }
): Effect.Effect<SqliteClient, BackupFailed, Scope.Scope> =>
  Effect.mapError(
    openClient(nameOf(file), file, { readonly }),
    ({ details, summary }) => new BackupFailed({ reason: summary, fix: details?.fix ?? fix })
  )

/** Runs statements by the client of a file. */
export const runOn = <A>(sql: SqlClient, statements: Statements<A>) =>
  Effect.scoped(
    Effect.flatMap(sql.reserve, (connection) =>
      Effect.provideService(statements, TransactionConnection, [connection, 0])
    )
  )

const sync = (path: string, flags: "r" | "r+"): void => {
  const descriptor = openSync(path, flags)
  fsyncSync(descriptor)
  closeSync(descriptor)
}

/** An empty private file beside `target`; removed with the scope unless it was renamed. */
export const partialFile = (target: string): Effect.Effect<string, BackupFailed, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.zipRight(
      failWhen(
        !existsSync(dirname(target)),
        `the folder ${dirname(target)} does not exist`,
        "Create it, or choose an existing, writable folder."
      ),
      attempt(target, "Choose an existing, writable folder.", () => {
        const partial = join(dirname(target), `.${basename(target)}.${randomUUID()}.partial`)
        closeSync(openSync(partial, "wx", 0o600))
        return partial
      })
    ),
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
  openFile(from, { readonly: true, fix: "Check MUSIC_DATABASE_PATH and the rights of this account." }).pipe(
    Effect.flatMap((sql) => sql`VACUUM INTO ${partial}`),
    Effect.catchTag("SqlError", (error) => {
      const { kind, reason } = toStoreUnavailable(
        `${nameOf(from)}, or its copy in ${dirname(partial)},`,
        "Backup.copy"
      )(error)
      const fix = kind === "corrupt" ? damagedFix : "Free some space or choose another folder, and try again."
      return new BackupFailed({ reason, fix })
    }),
    Effect.scoped,
    Effect.zipRight(handleSignals)
  )

/** Content of a checked database. */
export interface DatabaseFacts {
  readonly file: string
  readonly bytes: number
  /** Its newest migration. */
  readonly migration: number
  readonly rows: Readonly<Record<string, number>>
}

const Marked = Schema.Struct({ applicationId: Whole })
const Problem = Schema.Struct({ integrityCheck: Schema.String })
const Table = Schema.Struct({ name: Schema.String })
const Count = Schema.Struct({ count: Whole })

/**
 * Reads the whole file; fails unless it is an intact database of this program. In messages it is called `subject`, and `fix`
 * goes with all of them.
 */
export const checkDatabase = (
  file: string,
  subject: string,
  fix: string
): Effect.Effect<DatabaseFacts, BackupFailed> =>
  Effect.gen(function* () {
    const { size: bytes } = yield* attempt(file, fix, () => statSync(file))
    const sql = yield* openFile(file, { readonly: true, fix })
    const refuse = (problem: string) => new BackupFailed({ reason: `${subject} ${problem}`, fix })

    const marked = yield* runOn(sql, first(Marked)(sql`PRAGMA application_id`))
    if (!Option.exists(marked, (marked) => marked.applicationId === applicationId))
      return yield* refuse("is not a database of this program")
    const problems = yield* runOn(sql, all(Problem)(sql`PRAGMA integrity_check(1)`))
    if (problems.some(({ integrityCheck }) => integrityCheck !== "ok"))
      return yield* refuse("is corrupt: its integrity check fails")
    const { latest: migration, unreleased } = yield* runOn(sql, recordedSchema(sql))
    if (migration === 0) return yield* refuse("has no schema")
    if (unreleased) {
      const { fix, summary } = unreleasedSchema(subject)
      return yield* new BackupFailed({ reason: summary, fix })
    }

    const tables = yield* runOn(
      sql,
      all(Table)(sql`
      SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name`)
    )
    const rows = yield* Effect.forEach(tables, ({ name }) =>
      Effect.map(
        runOn(sql, first(Count)(sql`SELECT COUNT(*) AS count FROM ${sql(name)}`)),
        (row) => [name, Option.match(row, { onNone: () => 0, onSome: ({ count }) => count })] as const
      )
    )
    return { file, bytes, migration, rows: Object.fromEntries(rows) }
  }).pipe(
    Effect.catchTags({
      SqlError: (error) => failedIn(subject, "Backup.verify", fix)(error),
      ParseError: (error) => failedIn(subject, "Backup.verify", fix)(error)
    }),
    Effect.scoped,
    Effect.zipLeft(handleSignals)
  )
