/** The embedded store: one SQLite file, private to its owner, whose commits survive a power cut. */
import { existsSync } from "node:fs"
import { type SqlClient, TransactionConnection } from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { StoreUnavailable } from "../../../services/Store.ts"
import { type Driver, makeAccess } from "../Database.ts"
import { makeTransaction } from "../GroupCommit.ts"
import { migrate, migrationsTable, type OpenedDatabase, openSchema } from "../migrations/Migrations.ts"
import { Whole } from "../../../services/store/Rows.ts"
import { first, run, type Statements } from "../../../services/store/Statements.ts"
import { applicationId, openClient, preparingAgain } from "./SqliteClient.ts"
import { locateFile, nameOf, sizeOf, watchFiles } from "./SqliteFiles.ts"

interface SqliteOptions {
  /** Milliseconds to wait for a lock of another process; default 5 s. */
  readonly lockWait?: number
  /** Creates the file and migrates an older schema, or refuses both; default true. */
  readonly migrate?: boolean
}

/** Each transaction waits for the lock itself: SQLite's own wait would block the thread. */
const withoutWaiting = "PRAGMA busy_timeout = 0"

/** A full or read-only /tmp would fail accesses otherwise. */
const inMemory = "PRAGMA temp_store = MEMORY"

const settings = [
  "PRAGMA journal_mode = WAL",
  // A committed request survives a power cut.
  "PRAGMA synchronous = FULL",
  "PRAGMA foreign_keys = ON",
  inMemory,
  // A read opens the log, which then stays open as long as the connection.
  "SELECT COUNT(*) FROM sqlite_master"
]

const Owner = Schema.Struct({ id: Whole, tables: Whole, migrated: Whole })

/** An application id of 0 is a new file, or one whose first opening did not finish. */
const isOwn = (sql: SqlClient): Statements<boolean> =>
  Effect.map(
    first(Owner)(sql`
      SELECT (SELECT application_id FROM pragma_application_id) AS id, COUNT(*) AS tables,
        COALESCE(SUM(name = ${migrationsTable}), 0) AS migrated
      FROM sqlite_master WHERE type = 'table'`),
    Option.exists(
      ({ id, migrated, tables }) => id === applicationId || (id === 0 && (tables === 0 || migrated > 0))
    )
  )

/** Opens or creates a database of this version's schema: a connection that writes, and one that reads and waits for no write. */
export const openDatabase = (
  path: string,
  { lockWait = 5_000, migrate: migrates = true }: SqliteOptions = {}
): Effect.Effect<OpenedDatabase, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const name = nameOf(path)
    // A driver that does not load is reported also where there is no file yet, and makes none.
    if (!existsSync(path)) yield* Effect.scoped(openClient(name, ":memory:"))
    const file = yield* locateFile(path, { create: migrates })
    const sql = yield* openClient(name, file)
    const readers = yield* openClient(name, file)
    const files = watchFiles(file)
    const unusable = (kind: "other" | "schema", phrase: string, fix: string, code?: string) =>
      new StoreUnavailable({ database: name, kind, code, details: { phrase, fix } })

    let isClosed = false
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        isClosed = true
      })
    )
    const usable = Effect.suspend(() => {
      // The last process to close a database removes its log.
      if (isClosed) return unusable("other", "is closed", "start the server again")
      return files.arePresent()
        ? Effect.void
        : unusable(
            "other",
            "is gone: its file was moved or deleted",
            "move the file back, or set MUSIC_DATABASE_PATH to its new path"
          )
    })

    const access = makeAccess({ name, lockWait })
    const opening = <A>(connection: Connection, statements: Statements<A>) =>
      access("Store.open", Effect.provideService(statements, TransactionConnection, [connection, 0]))
    // Taken once, not for each transaction: the store's one writer is alone, and its one reader has no transaction.
    const writer = preparingAgain(yield* Effect.scoped(access("Store.open", sql.reserve)))
    const reader = preparingAgain(yield* Effect.scoped(access("Store.open", readers.reserve)))
    yield* opening(writer, run(sql.unsafe(withoutWaiting)))
    if (!(yield* opening(writer, isOwn(sql))))
      return yield* unusable(
        "schema",
        "belongs to another program",
        "set MUSIC_DATABASE_PATH to a file in a folder that this user may write",
        "foreign"
      )
    for (const setting of settings) yield* opening(writer, run(sql.unsafe(setting)))
    for (const setting of [withoutWaiting, inMemory]) yield* opening(reader, run(sql.unsafe(setting)))
    files.watchLog()

    const driver: Driver = {
      name,
      sql,
      lockWait,
      hasOneWriter: true,
      withConnection: (use) => Effect.zipRight(usable, use(writer)),
      begin: () => "BEGIN IMMEDIATE",
      pipelines: false,
      isCommitted: () => true,
      read: (query) =>
        Effect.zipRight(usable, Effect.provideService(query, TransactionConnection, [reader, 0])),
      size: sizeOf(file),
      pool: Option.none
    }
    const migration = access(
      "Store.migrate",
      Effect.flatten(makeTransaction(driver, "schema")(["Store.migrate"], migrate(sql, name)))
    )
    return yield* openSchema(driver, migrates ? Option.some(migration) : Option.none())
  })
