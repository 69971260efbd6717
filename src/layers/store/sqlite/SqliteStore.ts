/** The embedded store: one SQLite file, private to its owner, whose commits survive a power cut. */
import { closeSync, existsSync, mkdirSync, openSync } from "node:fs"
import { dirname, resolve } from "node:path"
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqlClient from "@effect/sql/SqlClient"
import { SqlError } from "@effect/sql/SqlError"
import type { Statement } from "@effect/sql/Statement"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { Store, StoreUnavailable } from "../../../services/Store.ts"
import { type Database, makeDatabase } from "../Database.ts"
import { migrationFailed, openFailed } from "../StoreErrors.ts"
import { applicationId, writeMark } from "./ApplicationId.ts"
import { checkReadable, migrate, migrationsTable, prepareSchema } from "../migrations/Migrations.ts"
import { makeStore } from "../repositories/Repositories.ts"
import { first, Whole } from "../repositories/Rows.ts"
import { sqliteDialect } from "./SqliteDialect.ts"
import { watchFiles } from "./SqliteFiles.ts"

export interface SqliteOptions {
  /** Milliseconds that a lock of another process is waited for; 5 s when not given. */
  readonly lockWait?: number
  /** Without it, an absent file and an older schema are refused; it is done when not told. */
  readonly migrate?: boolean
  /** An older schema is taken as it is; for what every version's schema allows. */
  readonly older?: boolean
}

const defaultLockWait = 5_000

/**
 * Folder and file for their owner only; SQLite gives its `-wal` and `-shm` files the mode of the file.
 * Without a pause, and never for a file that exists: closing it would drop the locks that this process has on it.
 */
const createFile = (path: string): void => {
  if (existsSync(path)) return
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  closeSync(openSync(path, "a", 0o600))
}

// The wait for a lock is `DatabaseOptions.lockWait`; SQLite's own would hold up the thread.
const withoutWaiting = "busy_timeout = 0"
const pragmas = [
  "journal_mode = WAL",
  // An answered request is on the disk, also after a power cut.
  "synchronous = FULL",
  "foreign_keys = ON"
]

/** Whatever reads the file opens its log as well, and holds it as long as the connection lasts. */
const anyRead = "SELECT COUNT(*) FROM sqlite_master"

const Owner = Schema.Struct({ id: Whole, tables: Whole, migrated: Whole })

/**
 * The first statement on a connection reads the schema, so preparing it fails while another process has the file to itself;
 * the client would remember that for longer than it lasts, and makes a defect of it when it prepares for once only.
 */
const unremembered = <A extends object>(statement: Statement<A>) =>
  Effect.catchAllDefect(statement.unprepared, (cause) =>
    Effect.fail(new SqlError({ cause, message: "Failed to prepare statement" }))
  )

/** Nothing is written to a file that another program made; a mark of 0 is nobody's, or that of a file which was never opened to its end. */
const refuseForeign = ({ name, read, sql }: Database) =>
  read(
    "Store.open",
    first(Owner)(
      unremembered(sql`
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
      // Set below, where a failure has a type.
      disableWAL: true,
      prepareCacheSize: 500,
      // The client remembers statements that failed to prepare as well: not for long.
      prepareCacheTTL: "5 seconds"
    }).pipe(
      Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make),
      Effect.catchAllDefect((defect) => Effect.fail(opening(defect)))
    )
    const closed = yield* Ref.make(false)
    yield* Effect.addFinalizer(() => Ref.set(closed, true))
    const files = yield* watchFiles(file, name)
    // The last to close a database takes its log away.
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
    yield* files.joined
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
    // At every start: only a write shows that the file can be written.
    if (migrating) yield* database.write("Store.open", sql.unsafe(writeMark))
    return database
  })

/** A store on one SQLite file. Several processes may share it. */
export const storeAt = (path: string, options?: SqliteOptions): Layer.Layer<Store, StoreUnavailable> =>
  Layer.scoped(Store, Effect.flatMap(openDatabase(path, options), makeStore))
