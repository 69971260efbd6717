/** The embedded store: one SQLite file, private to its owner, whose commits survive a power cut. */
import { closeSync, existsSync, mkdirSync, openSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqlClient from "@effect/sql/SqlClient"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { Settings } from "../../services/Settings.ts"
import { Store, type StoreUnavailable } from "../../services/Store.ts"
import { type Database, makeDatabase } from "./Database.ts"
import { goneDatabase, notMigrated, notOpened } from "./Failures.ts"
import { checkSchema, migrate, refuseNewerSchema } from "./Migrations.ts"
import { makeStore } from "./Repositories.ts"

export interface SqliteOptions {
  /** Milliseconds that a lock of another process is waited for; 5 s when not given. */
  readonly lockWait?: number
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

/** SQLite goes on writing to a file that was moved or deleted, and what it commits is lost. */
const sameFile = (path: string, name: string): Effect.Effect<Effect.Effect<void, StoreUnavailable>> =>
  Effect.sync(() => {
    const identity = () => {
      const found = statSync(path, { throwIfNoEntry: false })
      return found === undefined ? undefined : `${found.dev}:${found.ino}`
    }
    const opened = identity()
    return Effect.suspend(() => (identity() === opened ? Effect.void : Effect.fail(goneDatabase(name))))
  })

const pragmas = [
  // The wait for a lock is `DatabaseOptions.lockWait`; SQLite's own would hold up the thread.
  "busy_timeout = 0",
  "journal_mode = WAL",
  // An answered request is on the disk, also after a power cut.
  "synchronous = FULL",
  "foreign_keys = ON"
]

/** "musb": marks the file as ours. It is written at every start, because only a write shows that the file can be written. */
const applicationId = 0x6d757362

/** Opens or creates a database and brings it to this version's schema. */
export const openDatabase = (
  path: string,
  { lockWait = defaultLockWait }: SqliteOptions = {}
): Effect.Effect<Database, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const file = resolve(path)
    const name = `SQLite database ${file}`
    const opening = (error: unknown) => notOpened(name, error)

    yield* Effect.try({ try: () => createFile(file), catch: opening })
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
    const present = yield* sameFile(file, name)
    const database = makeDatabase(sql, { name, lockWait, present })

    for (const pragma of pragmas) yield* database.read("Store.open", sql.unsafe(`PRAGMA ${pragma}`))
    yield* database.write(
      "Store.migrate",
      migrate.pipe(
        Effect.provideService(SqlClient.SqlClient, sql),
        Effect.catchTag("MigrationError", (error) => Effect.fail(notMigrated(name, error))),
        Effect.catchAllDefect((defect) => Effect.fail(notMigrated(name, defect))),
        Effect.zipRight(sql.unsafe(`PRAGMA application_id = ${applicationId}`))
      )
    )
    yield* refuseNewerSchema(database)
    yield* checkSchema(database)
    return database
  })

/** A store on one SQLite file. Several processes may share it. */
export const storeAt = (path: string, options?: SqliteOptions): Layer.Layer<Store, StoreUnavailable> =>
  Layer.scoped(Store, Effect.flatMap(openDatabase(path, options), makeStore))

/** The store at `MUSIC_DATABASE_PATH`; its failure says which file could not be used, and why. */
export const SqliteStore: Layer.Layer<Store, StoreUnavailable, Settings> = Layer.unwrapEffect(
  Effect.map(Settings, ({ databasePath }) => storeAt(databasePath))
)
