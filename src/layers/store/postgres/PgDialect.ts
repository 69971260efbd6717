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

/** A pool takes back a connection that still waits for an answer, and one with an open transaction: not one that was ended. */
const discard = (connection: Connection): Effect.Effect<void> =>
  Effect.sync(() => {
    if ("pg" in connection && connection.pg instanceof pg.Client) connection.pg.end(() => undefined)
  })

/** Postgres answers a commit of what has failed with a rollback, and calls that a success. */
const commit = (connection: Connection): Effect.Effect<void, SqlError> =>
  Effect.flatMap(connection.executeRaw("COMMIT", []), (result) =>
    typeof result === "object" && result !== null && "command" in result && result.command === "COMMIT"
      ? Effect.void
      : Effect.fail(new SqlError({ message: "Nothing was committed", cause: new Error("Rolled back") }))
  )

/**
 * Whatever the server's defaults are: each statement sees what was committed before it, so that who waited for a lock sees what its
 * holder did; and a server that only reads now says so at once.
 */
const begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

/** Many connections of a pool, whose server may go away and come back at any time. */
export const pgDialect = (
  sql: SqlClient.SqlClient,
  signs: Pick<Dialect, "announce" | "announced">
): Dialect => {
  /** A connection for as long as it is used, and never to be used again after it failed. */
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
    // A caller who goes away does not wait, and what he began goes to its end: an interrupted wait for a connection would lose
    // the connection, and the request that cancels a statement may meet the next one.
    access: (effect) => Effect.disconnect(Effect.uninterruptible(effect)),
    alone: (thing) => Effect.asVoid(sql`SELECT pg_advisory_xact_lock(hashtextextended(${thing}, 0))`),
    skipLocked: sql.literal("FOR UPDATE SKIP LOCKED"),
    ...signs
  }
}
