import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import pg from "pg"
import type { Dialect } from "../Database.ts"
import { type DatabaseFailure, isConnectionLost } from "../StoreErrors.ts"

const lost = (cause: Cause.Cause<DatabaseFailure>): boolean =>
  Option.exists(Cause.failureOption(cause), isConnectionLost)

/** The pool would reuse a connection with a pending answer or an open transaction; it drops one that was ended. */
const discard = (connection: Connection): Effect.Effect<void> =>
  Effect.sync(() => {
    if ("pg" in connection && connection.pg instanceof pg.Client) connection.pg.end(() => undefined)
  })

/** Postgres answers the COMMIT of a failed transaction with a successful ROLLBACK. */
const commit = (connection: Connection): Effect.Effect<void, SqlError> =>
  Effect.flatMap(connection.executeRaw("COMMIT", []), (result) =>
    typeof result === "object" && result !== null && "command" in result && result.command === "COMMIT"
      ? Effect.void
      : Effect.fail(new SqlError({ message: "Nothing was committed", cause: new Error("Rolled back") }))
  )

/**
 * Independent of the server's defaults. READ COMMITTED: after waiting for a lock, a statement sees the changes of its previous
 * holder. READ WRITE: a standby refuses at once.
 */
const begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

/** A pool of connections to a server that may go away and come back at any time. */
export const pgDialect = (
  sql: SqlClient.SqlClient,
  notify: Pick<Dialect, "announce" | "announced">
): Dialect => {
  /** Uses one connection, and discards it when it is lost. */
  const session = <A>(
    use: (connection: Connection) => Effect.Effect<A, DatabaseFailure>
  ): Effect.Effect<A, DatabaseFailure> =>
    Effect.gen(function* () {
      const connection = yield* sql.reserve
      const exit = yield* use(connection).pipe(
        Effect.provideService(SqlClient.TransactionConnection, [connection, 0]),
        Effect.exit
      )
      if (Exit.isFailure(exit) && lost(exit.cause)) yield* discard(connection)
      return yield* exit
    }).pipe(Effect.scoped)

  return {
    read: (statement) => session(() => statement),
    transaction: (body, committed) =>
      session((connection) =>
        Effect.gen(function* () {
          const run = (statement: string) => connection.execute(statement, [], undefined)
          yield* run(begin)
          const exit = yield* Effect.exit(Effect.zipLeft(body, commit(connection)))
          if (Exit.isSuccess(exit)) yield* committed(exit.value)
          else if (!lost(exit.cause)) yield* Effect.catchAll(run("ROLLBACK"), () => discard(connection))
          return yield* exit
        })
      ),
    // An interrupted caller does not wait, and the access runs to its end: interrupting a wait for a connection would leak it, and
    // a request to cancel a statement could cancel the next one.
    access: (effect) => Effect.disconnect(Effect.uninterruptible(effect)),
    alone: (name) => Effect.asVoid(sql`SELECT pg_advisory_xact_lock(hashtextextended(${name}, 0))`),
    skipLocked: sql.literal("FOR UPDATE SKIP LOCKED"),
    ...notify
  }
}
