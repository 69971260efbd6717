/** The embedded store: one SQLite file, private to its owner, whose commits survive a power cut. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { StoreUnavailable } from "../../../services/Store.ts"
import { type Database, makeAccess, makeDatabase } from "../Database.ts"
import { first, run } from "../Query.ts"
import { openFailed } from "../StoreErrors.ts"
import { applicationId, writeMark } from "./ApplicationId.ts"
import { migrate, migrationsTable, type OpenedDatabase, prepareSchema } from "../migrations/Migrations.ts"
import { Whole } from "../repositories/Rows.ts"
import { loadAddon } from "./SqliteAddon.ts"
import { openConnection } from "./SqliteConnection.ts"
import { migrateInTransaction, sqliteDialect } from "./SqliteDialect.ts"
import { locateFile, nameOf, sizeOf, watchFiles } from "./SqliteFiles.ts"

interface SqliteOptions {
  /** Milliseconds to wait for a lock of another process; default 5 s. */
  readonly lockWait?: number
  /** Creates the file and migrates an older schema, or refuses both; default true. */
  readonly migrate?: boolean
}

const defaultLockWait = 5_000

// `DatabaseOptions.lockWait` waits for locks; SQLite's own wait would block the thread.
const withoutWaiting = "busy_timeout = 0"
const pragmas = [
  "journal_mode = WAL",
  // A committed request survives a power cut.
  "synchronous = FULL",
  "foreign_keys = ON",
  // A savepoint keeps what it changes in a temporary file otherwise: a full or read-only /tmp would fail writes.
  "temp_store = MEMORY"
]

/** A read opens the log, which then stays open as long as the connection. */
const anyRead = "SELECT COUNT(*) FROM sqlite_master"

const Owner = Schema.Struct({ id: Whole, tables: Whole, migrated: Whole })

/** Refuses a file of another program. An application id of 0 is a new file, or one whose first opening did not finish. */
const refuseForeign = ({ name, read, sql }: Database) =>
  read(
    "Store.open",
    first(Owner)(sql`
      SELECT (SELECT application_id FROM pragma_application_id) AS id, COUNT(*) AS tables,
        COALESCE(SUM(name = ${migrationsTable}), 0) AS migrated
      FROM sqlite_master WHERE type = 'table'`)
  ).pipe(
    Effect.filterOrFail(
      Option.exists(
        ({ id, migrated, tables }) => id === applicationId || (id === 0 && (tables === 0 || migrated > 0))
      ),
      () =>
        new StoreUnavailable({
          database: name,
          kind: "schema",
          code: "foreign",
          details: {
            phrase: "belongs to another program",
            fix: "set MUSIC_DATABASE_PATH to a file in a folder that this user may write"
          }
        })
    )
  )

/** Opens or creates a database of this version's schema. */
export const openDatabase = (
  path: string,
  { lockWait = defaultLockWait, migrate: migrating = true }: SqliteOptions = {}
): Effect.Effect<OpenedDatabase, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const name = nameOf(path)
    const driver = yield* loadAddon(name)
    const file = yield* locateFile(path, { create: migrating })
    const connection = yield* openConnection(driver, file, (error) => openFailed(name, error))
    const { sql } = connection
    const files = watchFiles(file)
    let closed = false
    const unusable = (phrase: string, fix: string) =>
      new StoreUnavailable({ database: name, kind: "other", details: { phrase, fix } })
    const problem = () => {
      // The last process to close a database removes its log.
      if (closed) return unusable("is closed", "start the server again")
      return files.arePresent()
        ? undefined
        : unusable(
            "is gone: its file was moved or deleted",
            "move the file back, or set MUSIC_DATABASE_PATH to its new path"
          )
    }
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        closed = true
      })
    )
    const dialect = yield* sqliteDialect(connection, problem, () => sizeOf(file))
    const database = makeDatabase(sql, { name, lockWait, dialect })

    const set = (pragma: string) => database.read("Store.open", run(sql.unsafe(`PRAGMA ${pragma}`)))
    yield* set(withoutWaiting)
    yield* refuseForeign(database)
    for (const pragma of pragmas) yield* set(pragma)
    yield* database.read("Store.open", run(sql.unsafe(anyRead)))
    files.watchLog()
    const migration = makeAccess({ name, lockWait })("Store.migrate", () =>
      migrateInTransaction(connection, migrate(sql, name))
    )
    const schema = yield* prepareSchema(database, migrating ? Option.some(migration) : Option.none())
    // Only a write shows that the file is writable.
    if (migrating) yield* database.write("Store.open", () => run(sql.unsafe(writeMark)))
    return { ...database, schema }
  })
