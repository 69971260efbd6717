import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Function from "effect/Function"
import type { StoreUnavailable } from "../../../services/Store.ts"
import type { Dialect } from "../Database.ts"
import type { DatabaseFailure } from "../StoreErrors.ts"

/** One connection, one writer at a time. `present` fails when the path no longer leads to the opened file. */
export const sqliteDialect = (
  sql: SqlClient.SqlClient,
  present: Effect.Effect<void, StoreUnavailable>
): Dialect => {
  /**
   * Not `sql.withTransaction`, which turns a failed COMMIT or ROLLBACK into a defect; on a full disk SQLite rolls back by itself.
   * The fiber does not yield inside a transaction, so that the lock is held briefly.
   */
  const transaction = <A>(
    body: Effect.Effect<A, DatabaseFailure>,
    committed: (result: A) => Effect.Effect<void>
  ): Effect.Effect<A, DatabaseFailure> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const connection = yield* restore(sql.reserve)
        const run = (statement: string) => connection.execute(statement, [], undefined)
        // Takes the write lock first: after a read it might not be available any more.
        yield* run("BEGIN IMMEDIATE")
        const exit = yield* restore(body).pipe(
          Effect.provideService(SqlClient.TransactionConnection, [connection, 0]),
          Effect.zipLeft(run("COMMIT")),
          Effect.exit
        )
        yield* Exit.isSuccess(exit) ? committed(exit.value) : Effect.ignore(run("ROLLBACK"))
        return yield* exit
      }).pipe(Effect.scoped)
    ).pipe(Effect.withMaxOpsBeforeYield(Number.MAX_SAFE_INTEGER))

  return {
    read: (statement) => Effect.zipRight(present, statement),
    transaction: (body, committed) => Effect.zipRight(present, transaction(body, committed)),
    access: Function.identity,
    // SQLite has one writer at a time.
    alone: () => Effect.void,
    skipLocked: sql.literal(""),
    // Other processes find the work at their next poll.
    announce: () => Effect.void,
    announced: () => Effect.void
  }
}
