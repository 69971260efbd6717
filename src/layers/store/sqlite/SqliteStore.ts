/** The embedded store: one SQLite file, private to its owner, whose commits survive a power cut. */
import { closeSync, existsSync, mkdirSync, openSync } from "node:fs"
import { dirname, resolve } from "node:path"
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqlClient from "@effect/sql/SqlClient"
import { SqlError } from "@effect/sql/SqlError"
import type { Statement } from "@effect/sql/Statement"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { snakeToCamel } from "effect/String"
import { StoreUnavailable } from "../../../services/Store.ts"
import { type Database, makeDatabase } from "../Database.ts"
import { migrationFailed, openFailed } from "../StoreErrors.ts"
import { applicationId, writeMark } from "./ApplicationId.ts"
import { checkReadable, migrate, migrationsTable, prepareSchema } from "../migrations/Migrations.ts"
import { first, Whole } from "../repositories/Rows.ts"
import { sqliteDialect } from "./SqliteDialect.ts"
import { watchFiles } from "./SqliteFiles.ts"

interface SqliteOptions {
  /** Milliseconds to wait for a lock of another process; default 5 s. */
  readonly lockWait?: number
  /** Creates the file and migrates an older schema, or refuses both; default true. */
  readonly migrate?: boolean
  /** Accepts an older schema as it is, for statements that every version's schema allows. */
  readonly older?: boolean
}

const defaultLockWait = 5_000

/**
 * Folder and file are private; SQLite gives its `-wal` and `-shm` files the mode of the file. Synchronous, and never for an
 * existing file: closing that would drop the locks that this process has on it.
 */
const createFile = (path: string): void => {
  if (existsSync(path)) return
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  closeSync(openSync(path, "a", 0o600))
}

// `DatabaseOptions.lockWait` waits for locks; SQLite's own wait would block the thread.
const withoutWaiting = "busy_timeout = 0"
const pragmas = [
  "journal_mode = WAL",
  // A committed request survives a power cut.
  "synchronous = FULL",
  "foreign_keys = ON"
]

/** A read opens the log, which then stays open as long as the connection. */
const anyRead = "SELECT COUNT(*) FROM sqlite_master"

const Owner = Schema.Struct({ id: Whole, tables: Whole, migrated: Whole })

/**
 * The first statement on a connection reads the schema, so preparing it fails while another process has the file locked. The
 * client caches that failure, so the statement is not cached; a failure to prepare an uncached one is a defect, caught here.
 */
const uncached = <A extends object>(statement: Statement<A>) =>
  Effect.catchAllDefect(statement.unprepared, (cause) =>
    Effect.fail(new SqlError({ cause, message: "Failed to prepare statement" }))
  )

/** Refuses a file of another program. An application id of 0 is a new file, or one whose first opening did not finish. */
const refuseForeign = ({ name, read, sql }: Database) =>
  read(
    "Store.open",
    first(Owner)(
      uncached(sql`
        SELECT (SELECT application_id FROM pragma_application_id) AS id, COUNT(*) AS tables,
          COALESCE(SUM(name = ${migrationsTable}), 0) AS migrated
        FROM sqlite_master WHERE type = 'table'`)
    )
  ).pipe(
    Effect.filterOrFail(
      Option.exists(
        ({ id, migrated, tables }) => id === applicationId || (id === 0 && (tables === 0 || migrated > 0))
      ),
      () => new StoreUnavailable({ database: name, problem: { kind: "foreign" } })
    )
  )

/** Opens or creates a database of this version's schema. */
export const openDatabase = (
  path: string,
  { lockWait = defaultLockWait, migrate: migrating = true, older = false }: SqliteOptions = {}
): Effect.Effect<Database, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const file = resolve(path)
    const name = `SQLite database ${file}`
    const opening = (error: unknown) => openFailed(name, error)

    if (migrating) yield* Effect.try({ try: () => createFile(file), catch: opening })
    else if (!existsSync(file))
      return yield* new StoreUnavailable({ database: name, problem: { kind: "absent_file" } })
    const sql = yield* SqliteClient.make({
      filename: file,
      // Set below, where a failure is typed.
      disableWAL: true,
      transformResultNames: snakeToCamel,
      prepareCacheSize: 500,
      // Short, since the client also caches statements that failed to prepare.
      prepareCacheTTL: "5 seconds"
    }).pipe(
      Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make),
      Effect.catchAllDefect((defect) => Effect.fail(opening(defect)))
    )
    const closed = yield* Ref.make(false)
    yield* Effect.addFinalizer(() => Ref.set(closed, true))
    const files = yield* watchFiles(file, name)
    // The last process to close a database removes its log.
    const present = Effect.if(Ref.get(closed), {
      onTrue: () => Effect.fail(new StoreUnavailable({ database: name, problem: { kind: "closed" } })),
      onFalse: () => files.present
    })
    const database = makeDatabase(sql, { name, lockWait, dialect: sqliteDialect(sql, present) })

    const set = (pragma: string) => database.read("Store.open", sql.unsafe(`PRAGMA ${pragma}`))
    yield* set(withoutWaiting)
    yield* refuseForeign(database)
    for (const pragma of pragmas) yield* set(pragma)
    yield* database.read("Store.open", sql.unsafe(anyRead))
    yield* files.watchLog
    const migration = database.write(
      "Store.migrate",
      migrate.pipe(
        Effect.provideService(SqlClient.SqlClient, sql),
        Effect.catchTag("MigrationError", (error) => Effect.fail(migrationFailed(name, error))),
        Effect.catchAllDefect((defect) => Effect.fail(migrationFailed(name, defect)))
      )
    )
    if (older) yield* checkReadable(database)
    else yield* prepareSchema(database, migrating ? Option.some(migration) : Option.none())
    // Only a write shows that the file is writable.
    if (migrating) yield* database.write("Store.open", sql.unsafe(writeMark))
    return database
  })
