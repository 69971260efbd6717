/**
 * The files of a database: where they are, how they are made, so that only their owner may read them, and how the owner's driver opens them,
 * whose connections work without leaving the thread.
 */
import {
  closeSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  realpathSync,
  statSync
} from "node:fs"
import { stat, statfs } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import * as Reactivity from "@effect/experimental/Reactivity"
import { type SqlClient, TransactionConnection } from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { errorCode } from "../../../services/ErrorCode.ts"
import { type StoreSize, StoreUnavailable } from "../../../services/Store.ts"
import type { Statements } from "../../../services/store/Statements.ts"
import { type DatabaseFailure, toStoreUnavailable } from "../../../services/store/StoreUnavailable.ts"

export const nameOf = (path: string): string => `SQLite database ${resolve(path)}`

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true

/** Makes a folder and those above it. Node's own recursive way never returns where none can be, as below `/proc`. */
export const createFolder = (path: string): void => {
  if (isFolder(path)) return
  createFolder(dirname(path))
  const made = Either.try({ try: () => mkdirSync(path, { mode: 0o700 }), catch: identity })
  // Another process may have made it meanwhile.
  if (!isFolder(path)) Either.getOrThrowWith(made, identity)
}

/**
 * Makes an empty file, and its folder. Synchronous, and never for an existing file: closing that would drop the locks that this
 * process has on it.
 */
export const createFile = (path: string): void => {
  if (existsSync(path)) return
  createFolder(dirname(path))
  closeSync(openSync(path, "a", 0o600))
}

/**
 * Gives `file` the owner of `other`, never through a link. What root makes beside a database still belongs to the account that runs
 * the server.
 */
export const keepOwner = (file: string, other: string): void => {
  const { gid, uid } = statSync(other)
  // A group has no rights here, and only root may give a file to a foreign one.
  if (lstatSync(file).uid !== uid) lchownSync(file, uid, gid)
}

/**
 * The database file at `path`, which is made with `create`. Links are followed, as SQLite does: its other files are beside the
 * real one.
 */
export const locateFile = (path: string, create: boolean): Effect.Effect<string, StoreUnavailable> => {
  const database = nameOf(path)
  return Effect.try({
    try: () => {
      if (create) createFile(resolve(path))
      return realpathSync(path)
    },
    // One that this user may not see is not missing.
    catch: (error) =>
      errorCode(error) === "ENOENT" && !create
        ? new StoreUnavailable({
            database,
            kind: "schema",
            code: "ENOENT",
            phrase: "does not exist",
            advice: "set MUSIC_DATABASE_PATH to the server's file, or create one with music-backend migrate"
          })
        : toStoreUnavailable(database)(error)
  })
}

/** Identity of the file at a path; undefined when there is none, or the path leads through something else than folders. */
export const identityOf = (path: string): string | undefined => {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    return found === undefined ? undefined : `${found.dev}:${found.ino}`
  } catch {
    return undefined
  }
}

/** Of the database at `path`. It opens neither file: closing one would drop the locks that this process has on it. */
export const sizeOf = (path: string): Effect.Effect<StoreSize, StoreUnavailable> =>
  Effect.tryPromise({
    try: async () => {
      const [data, log, disk] = await Promise.all([stat(path), stat(`${path}-wal`), statfs(dirname(path))])
      return { data: data.size, file: Option.some({ log: log.size, free: disk.bavail * disk.bsize }) }
    },
    catch: toStoreUnavailable(nameOf(path))
  })

/** What the driver says of a statement that it did not begin. */
const notPrepared = "Failed to prepare statement "

/** A failure to prepare is a defect here. */
const unprepared =
  (connection: Connection) =>
  (text: string, values: ReadonlyArray<unknown> = []) =>
    Effect.catchAllDefect(
      Effect.suspend(() => connection.executeUnprepared(text, values, undefined)),
      (cause) => Effect.fail(new SqlError({ cause, message: "Failed to execute statement" }))
    )

/**
 * The driver keeps the result of preparing a statement, also a failure: a table that was missing, or a lock, would fail the statement
 * for ever. So such a statement is prepared once more.
 */
const preparingAgain = (connection: Connection): Connection => {
  const execute = (text: string, values: ReadonlyArray<unknown>) =>
    Effect.catchIf(
      connection.execute(text, values, undefined),
      ({ message }) => message === notPrepared,
      () => unprepared(connection)(text, values)
    )
  return { ...connection, execute, executeRaw: execute }
}

export interface SqliteConnection {
  readonly sql: SqlClient
  /** Runs a statement that is not kept prepared. */
  readonly say: (statement: string) => Effect.Effect<unknown, SqlError>
  /** Runs statements on the connection. */
  readonly on: <A>(statements: Statements<A>) => Effect.Effect<A, DatabaseFailure>
}

/**
 * One connection, closed with the scope. Imported only when needed: its native addon is slow to load, and may be missing or built for
 * another version of Node. `disableWAL`, because the driver would wait for locks while it sets the log: callers set it.
 */
export const openConnection = (
  database: string,
  file: string,
  { readonly = false } = {}
): Effect.Effect<SqliteConnection, StoreUnavailable, Scope.Scope> =>
  Effect.promise(() => import("@effect/sql-sqlite-node/SqliteClient")).pipe(
    Effect.flatMap(({ make }) =>
      make({
        filename: file,
        readonly,
        disableWAL: true,
        prepareCacheSize: 500,
        prepareCacheTTL: Duration.infinity
      })
    ),
    Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make),
    // Taken once, not for each transaction: no other code uses it.
    Effect.flatMap((sql) => Effect.map(Effect.scoped(sql.reserve), (connection) => ({ sql, connection }))),
    Effect.mapBoth({
      onSuccess: ({ connection, sql }) => {
        const service = TransactionConnection.of([preparingAgain(connection), 0])
        return { sql, say: unprepared(connection), on: Effect.provideService(TransactionConnection, service) }
      },
      onFailure: toStoreUnavailable(database)
    }),
    // The driver reports nothing as a failure.
    Effect.catchAllDefect((defect) => {
      const code = errorCode(defect)
      if (/^SQLITE_/.test(code)) return Effect.fail(toStoreUnavailable(database)(defect))
      return new StoreUnavailable({
        database,
        kind: "other",
        phrase: `cannot be opened: its driver better-sqlite3 does not load (${code})`,
        advice: "run npm rebuild better-sqlite3 with this version of Node, or npm ci"
      })
    })
  )
