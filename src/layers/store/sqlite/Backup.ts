/** Backup of a SQLite database, also while servers write to it, and its restore. A file gets its name when it is complete, checked and synced. */
import { randomUUID } from "node:crypto"
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync
} from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import type { SqlClient } from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { errorCode } from "../../../services/ErrorCode.ts"
import type { SettingsValues } from "../../../services/Settings.ts"
import { type Stored, StoreUnavailable } from "../../../services/Store.ts"
import { any, count, run, type Statements } from "../../../services/store/Statements.ts"
import { toStoreUnavailable } from "../../../services/store/StoreUnavailable.ts"
import { applicationId, canMigrate, checkHistory, recordedSchema } from "../migrations/Migrations.ts"
import { createFolder, identityOf, keepOwner, locateFile, nameOf, openConnection } from "./SqliteFiles.ts"

type DatabasePlace = Pick<SettingsValues, "databasePath" | "databaseUrl">

/** A failure that an operator can mend: what it is about, the end of the sentence, and the fix. */
const refuse = (database: string, phrase: string, advice: string) =>
  new StoreUnavailable({ database, kind: "other", phrase, advice })

const failWhen = (condition: boolean, ...refusal: Parameters<typeof refuse>): Stored<void> =>
  condition ? refuse(...refusal) : Effect.void

/** For failures that have no fix of their own. Nothing was changed. */
const advise = (advice: string) =>
  Effect.mapError((failure: StoreUnavailable) =>
    failure.advice === undefined ? new StoreUnavailable({ ...failure, advice }) : failure
  )

const refusePostgres = ({ databaseUrl }: DatabasePlace): Stored<void> =>
  failWhen(
    Option.isSome(databaseUrl),
    "the database of MUSIC_DATABASE_URL",
    "is copied with PostgreSQL's own tools",
    "run the commands of docs/operations.md, Backup and Restore"
  )

/** Works on a file without leaving the thread. */
const operate = <A>(file: string, operation: () => A): Stored<A> =>
  Effect.try({ try: operation, catch: toStoreUnavailable(nameOf(file)) })

/**
 * SQLite works without leaving the thread: signals are handled between two steps. Twice, since the event loop may run the first
 * `setImmediate` before it polls for signals.
 */
const handleSignals = Effect.async<void>((resume) => {
  setImmediate(() => setImmediate(() => resume(Effect.void)))
})

/** Runs statements on a connection, which is closed with the scope. It changes nothing without a write. */
const onFile = <A>(
  file: string,
  use: (sql: SqlClient) => Statements<A>,
  { readonly = true, subject = nameOf(file) } = {}
): Effect.Effect<A, StoreUnavailable, Scope.Scope> =>
  openConnection(subject, file, { readonly }).pipe(
    Effect.flatMap(({ on, sql }) => on(use(sql))),
    Effect.mapError(toStoreUnavailable(subject)),
    Effect.zipLeft(handleSignals)
  )

/** Files that SQLite keeps beside a database. */
const companions = ["-wal", "-shm", "-journal"] as const

/** An empty private file beside `target`; removed with the scope unless it was renamed. */
const partialFile = (target: string): Effect.Effect<string, StoreUnavailable, Scope.Scope> =>
  Effect.acquireRelease(
    operate(target, () => {
      const partial = join(dirname(target), `.${basename(target)}.${randomUUID()}.partial`)
      closeSync(openSync(partial, "wx", 0o600))
      return partial
    }),
    (partial) =>
      Effect.sync(() => {
        for (const suffix of ["", ...companions]) rmSync(`${partial}${suffix}`, { force: true })
      })
  )

const sync = (path: string, flags: "r" | "r+"): void => {
  const descriptor = openSync(path, flags)
  fsyncSync(descriptor)
  closeSync(descriptor)
}

/**
 * Moves the complete file to `target`. File and folder are synced: a rename survives a power cut only with its folder. A new file takes its
 * name with an empty one first, and fails with EEXIST where another one has it. Not by a link: some file systems of backups have none.
 */
const publish = (partial: string, target: string, { isNew = false } = {}): void => {
  sync(partial, "r+")
  if (isNew) closeSync(openSync(target, "wx", 0o600))
  const moved = Either.try({ try: () => renameSync(partial, target), catch: identity })
  if (isNew && Either.isLeft(moved)) rmSync(target)
  Either.getOrThrowWith(moved, identity)
  Either.getOrThrowWith(
    Either.try(() => sync(dirname(target), "r")),
    (error) =>
      refuse(
        nameOf(target),
        `is in its place, but its folder cannot be synced (${errorCode(error)}): a power cut may undo that`,
        "check the disk, then run sync. A database that was replaced is kept as .before-<time> beside it"
      )
  )
}

/**
 * Copies the state at this moment into the empty file `partial`. `VACUUM INTO` reads in one transaction, which holds up no
 * writer of a WAL database, and keeps application id and schema.
 */
const copyDatabase = (from: string, partial: string): Stored<void> =>
  Effect.scoped(
    onFile(from, (sql) => run(sql`VACUUM INTO ${partial}`), {
      subject: `${nameOf(from)}, or its copy in ${dirname(partial)},`
    })
  )

/** Reads the whole file; fails unless it is an intact database that this version reads. In messages it is called `subject`. */
const checkDatabase = (file: string, subject: string) =>
  onFile(
    file,
    (sql) =>
      Effect.gen(function* () {
        if (!(yield* any(sql`SELECT 1 FROM pragma_application_id WHERE application_id = ${applicationId}`)))
          return yield* refuse(subject, "is not a database of this program", "use another file")
        if (!(yield* any(sql`SELECT 1 FROM pragma_integrity_check WHERE integrity_check = 'ok'`)))
          return yield* new StoreUnavailable({ database: subject, kind: "corrupt" })
        const history = yield* recordedSchema(sql)
        yield* Effect.catchIf(checkHistory(subject, history), canMigrate, () => Effect.void)
        return { file, bytes: statSync(file).size, schema: history.latest }
      }),
    { subject }
  ).pipe(Effect.scoped)

/** Writes a copy of the database to the new `file`, with everything that was committed before the start. */
export const backup = (place: DatabasePlace, file: string) =>
  Effect.gen(function* () {
    yield* refusePostgres(place)
    const target = resolve(file)
    const database = yield* locateFile(place.databasePath, false)
    const taken = refuse(`the file ${target}`, "exists already", "choose another name for the copy")
    if (existsSync(target)) return yield* taken
    // SQLite would read it as that of the copy, and find other data there than was checked.
    const log = ["-wal", "-journal"].map((suffix) => `${target}${suffix}`).find((file) => existsSync(file))
    yield* failWhen(
      log !== undefined,
      `${log}`,
      "is left of another database of that name",
      "stop what has it open. Then remove it together with that database, or choose another name for the copy"
    )
    const partial = yield* partialFile(target)
    yield* copyDatabase(database, partial)
    const facts = yield* checkDatabase(partial, `the copy of ${nameOf(database)}`)
    yield* Effect.catchIf(
      operate(target, () => publish(partial, target, { isNew: true })),
      ({ code }) => code === "EEXIST",
      () => taken
    )
    return { ...facts, file: target }
  }).pipe(
    advise(
      "choose an existing, writable folder with free space; if the database is damaged, restore an earlier backup"
    ),
    Effect.scoped
  )

/** Reads a backup from end to end; fails unless this version can restore it. Changes nothing. */
export const verifyBackup = (file: string) =>
  advise("check the name of the file, or use another backup")(checkDatabase(resolve(file), nameOf(file)))

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
const lockDatabase = (database: string): Effect.Effect<void, StoreUnavailable, Scope.Scope> =>
  onFile(
    database,
    (sql) => Effect.forEach(locking, (statement) => run(sql.unsafe(statement)), { discard: true }),
    { readonly: false }
  ).pipe(
    // A connection in exclusive mode only invalidates the journal of its last commit, and never deletes it.
    Effect.zipRight(operate(database, () => rmSync(`${database}-journal`, { force: true }))),
    Effect.catchAll((failure) => {
      if (failure.kind === "corrupt") return Effect.void
      return failure.kind === "locked"
        ? refuse(nameOf(database), "is in use", "stop all servers and tools that have it open, and try again")
        : failure
    })
  )

const moveCompanions = (from: string, to: string): void => {
  for (const suffix of companions)
    if (existsSync(`${from}${suffix}`)) renameSync(`${from}${suffix}`, `${to}${suffix}`)
}

/**
 * Moves the copy to the database's name; the old database, with its companions, is kept as `aside`. At every moment the name
 * leads to a complete database, and never to a new one with the log of the old. After a failure before the rename all is as it was.
 */
const swap = (partial: string, target: string, aside: string): Stored<void> =>
  operate(target, () => {
    if (existsSync(target)) {
      keepOwner(partial, target)
      linkSync(target, aside)
    }
    moveCompanions(target, aside)
    publish(partial, target)
  }).pipe(
    Effect.tapError(() =>
      Effect.sync(() => {
        if (identityOf(aside) !== identityOf(target)) return
        moveCompanions(aside, target)
        rmSync(aside, { force: true })
      })
    )
  )

/**
 * Replaces the database, which no server may have open, by a copy of the backup `file`. An existing database is replaced only
 * with `overwrite`, and kept as `aside`. `unfiled` reports were not filed in the backup: they are searched for before they are sent.
 */
export const restore = (place: DatabasePlace, file: string, overwrite: boolean) =>
  Effect.gen(function* () {
    yield* refusePostgres(place)
    const source = resolve(file)
    const named = resolve(place.databasePath)
    // The database stays where a link leads to.
    const database = existsSync(named) ? realpathSync(named) : named
    const { schema } = yield* verifyBackup(source)
    yield* failWhen(
      identityOf(database) === identityOf(source),
      source,
      "is the database itself",
      "name the backup to restore"
    )
    const refuseExisting = Effect.suspend(() =>
      failWhen(
        existsSync(database) && !overwrite,
        `the database ${database}`,
        "exists already",
        "choose another name, or add --overwrite"
      )
    )
    yield* refuseExisting
    yield* operate(database, () => createFolder(dirname(database)))
    const partial = yield* partialFile(database)
    yield* copyDatabase(source, partial)
    const unfiled = yield* Effect.scoped(onFile(partial, reconcile, { readonly: false }))
    const bytes = statSync(partial).size
    // A server may have made one while the copy was written.
    yield* refuseExisting
    const replaced = existsSync(database)
    if (replaced) yield* lockDatabase(database)
    // Only root can give it to another account, which may own the folder: a volume of Kubernetes belongs to root.
    else yield* Effect.ignore(Effect.try(() => keepOwner(partial, dirname(database))))
    const at = new Date(yield* Clock.currentTimeMillis).toISOString().replaceAll(/[-:.]/g, "")
    const aside = `${database}.before-${at}`
    yield* swap(partial, database, aside)
    return { file: database, bytes, schema, aside: replaced ? Option.some(aside) : Option.none(), unfiled }
  }).pipe(advise("check the space on the disk and the rights of this account"), Effect.scoped)
