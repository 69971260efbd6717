/** Opens SQLite files by the owner's driver, whose connections work without leaving the thread. */
import * as Reactivity from "@effect/experimental/Reactivity"
import { type SqlClient, TransactionConnection } from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { errorCode } from "../../../services/ErrorCode.ts"
import { StoreUnavailable } from "../../../services/Store.ts"
import type { Statements } from "../../../services/store/Statements.ts"
import { type DatabaseFailure, toStoreUnavailable } from "../../../services/store/StoreUnavailable.ts"

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
    // Taken once, not for each transaction: nobody else uses it.
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
      const details = {
        phrase: `cannot be opened: its driver better-sqlite3 does not load (${code})`,
        fix: "run npm rebuild better-sqlite3 with this version of Node, or npm ci"
      }
      return Effect.fail(new StoreUnavailable({ database, kind: "other", details }))
    })
  )
