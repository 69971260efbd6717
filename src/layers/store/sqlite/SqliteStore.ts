/** The embedded store: one SQLite file, private to its owner, whose commits survive a power cut. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { StoreUnavailable } from "../../../services/Store.ts"
import { any } from "../../../services/store/Statements.ts"
import type { DatabaseFailure } from "../../../services/store/StoreUnavailable.ts"
import { type Driver, makeAccess } from "../../../services/store/Database.ts"
import { applicationId, migrationsTable, type OpenedDatabase, openSchema } from "../migrations/Migrations.ts"
import { identityOf, locateFile, nameOf, openConnection, sizeOf } from "./SqliteFiles.ts"

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
  inMemory,
  // A read opens the log, which then stays open as long as the connection.
  "SELECT COUNT(*) FROM sqlite_master"
]

/** Opens or creates a database of this version's schema: a connection that writes, and one that reads and waits for no write. */
export const openDatabase = (
  path: string,
  { lockWait = 5_000, migrate: migrates = true }: SqliteOptions = {}
): Effect.Effect<OpenedDatabase, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const name = nameOf(path)
    const file = yield* locateFile(path, migrates)
    const { on: onWriter, say, sql } = yield* openConnection(name, file)
    const { on: onReader, say: sayToReader } = yield* openConnection(name, file)
    const opened = identityOf(file)

    const access = makeAccess({ name, lockWait })
    const opening = <A>(attempt: Effect.Effect<A, DatabaseFailure>) => access("Store.open", attempt)
    yield* opening(say(withoutWaiting))
    // An application id of 0 is a new file, or one whose first opening did not finish.
    const isOwn = yield* opening(
      onWriter(
        any(sql`
        SELECT 1 FROM pragma_application_id WHERE application_id = ${applicationId} OR application_id = 0 AND (
          NOT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table')
          OR EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ${migrationsTable}))`)
      )
    )
    if (!isOwn)
      return yield* new StoreUnavailable({
        database: name,
        kind: "schema",
        code: "foreign",
        phrase: "belongs to another program",
        advice: "set MUSIC_DATABASE_PATH to a file in a folder that this user may write"
      })
    for (const setting of settings) yield* opening(say(setting))
    for (const setting of [withoutWaiting, inMemory]) yield* opening(sayToReader(setting))

    // Before it is open, another process, the last to close the database, may remove the log.
    const log = identityOf(`${file}-wal`)
    // SQLite would keep writing to moved files, and lose the commits.
    const usable = Effect.suspend(() =>
      identityOf(file) === opened && identityOf(`${file}-wal`) === log
        ? Effect.void
        : new StoreUnavailable({
            database: name,
            kind: "other",
            phrase: "is gone: its file was moved or deleted",
            advice: "move the file back, or set MUSIC_DATABASE_PATH to its new path"
          })
    )
    const commit = say("COMMIT")
    // SQLite may have rolled back already.
    const rollBack = Effect.ignore(say("ROLLBACK"))
    const transaction: Driver["transaction"] = (_lane, operations, body) =>
      usable.pipe(
        Effect.zipRight(say(`/* ${operations} */ BEGIN IMMEDIATE`)),
        Effect.zipRight(onWriter(body)),
        Effect.zipLeft(commit),
        Effect.tapErrorCause(() => rollBack),
        Effect.uninterruptible
      )
    const driver: Driver = {
      name,
      sql,
      lockWait,
      hasOneWriter: true,
      transaction,
      read: (query) => Effect.zipRight(usable, onReader(query)),
      size: sizeOf(file),
      pool: Option.none
    }
    return yield* openSchema(driver, migrates)
  })
