/** Opens SQLite files by the owner's driver, whose connections work without leaving the thread. */
import * as Reactivity from "@effect/experimental/Reactivity"
import type { SqliteClient } from "@effect/sql-sqlite-node/SqliteClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { errorCode } from "../../../services/ErrorCode.ts"
import { StoreUnavailable } from "../../../services/Store.ts"
import { openFailed } from "../StoreErrors.ts"

/** "musb": marks a SQLite file as a database of this program. */
export const applicationId = 0x6d757362

const driverFailed = (database: string, code: string) =>
  new StoreUnavailable({
    database,
    kind: "other",
    details: {
      phrase: `cannot be opened: its driver better-sqlite3 does not load (${code})`,
      fix: "run npm rebuild better-sqlite3 with this version of Node, or npm ci"
    }
  })

/**
 * One connection, closed with the scope. Imported only when needed: its native addon is slow to load, and may be missing or built for
 * another version of Node. `disableWAL`, because the driver would wait for locks while it sets the log: callers set it.
 */
export const openClient = (
  database: string,
  file: string,
  { readonly = false } = {}
): Effect.Effect<SqliteClient, StoreUnavailable, Scope.Scope> =>
  Effect.tryPromise({
    try: () => import("@effect/sql-sqlite-node/SqliteClient"),
    catch: (error) => driverFailed(database, errorCode(error))
  }).pipe(
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
    // The driver reports nothing as a failure here.
    Effect.catchAllDefect((defect) => {
      const code = errorCode(defect)
      return Effect.fail(/^SQLITE_/.test(code) ? openFailed(database, defect) : driverFailed(database, code))
    })
  )

/** What the driver says of a statement that it did not begin. */
const notPrepared = "Failed to prepare statement "

/**
 * The driver keeps the result of preparing a statement, also a failure: a table that was missing, or a lock, would fail the statement
 * for ever. So such a statement is prepared once more. A failure to prepare without keeping is a defect.
 */
export const preparingAgain = (connection: Connection): Connection => {
  const unprepared: Connection["executeUnprepared"] = (text, values, transform) =>
    Effect.catchAllDefect(
      Effect.suspend(() => connection.executeUnprepared(text, values, transform)),
      (cause) => Effect.fail(new SqlError({ cause, message: "Failed to execute statement" }))
    )
  return {
    ...connection,
    execute: (text, values, transform) =>
      Effect.catchIf(
        connection.execute(text, values, transform),
        ({ message }) => message === notPrepared,
        () => unprepared(text, values, transform)
      ),
    executeRaw: (text, values) => unprepared(text, values, undefined),
    executeUnprepared: unprepared
  }
}
