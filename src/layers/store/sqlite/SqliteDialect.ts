import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Function from "effect/Function"
import type { StoreUnavailable } from "../../../services/Store.ts"
import type { Dialect } from "../Database.ts"
import type { DatabaseFailure } from "../StoreErrors.ts"

/** One connection and one writer at a time. `present` fails when what was opened is no longer the database. */
export const sqliteDialect = (
  sql: SqlClient.SqlClient,
  present: Effect.Effect<void, StoreUnavailable>
): Dialect => {
  /**
   * `sql.withTransaction` makes a defect of a commit or rollback that fails, and SQLite rolls back by itself when the disk is full.
   * A transaction never leaves the thread, so that its lock is held as briefly as can be.
   */
  const transaction = <A>(
    body: Effect.Effect<A, DatabaseFailure>,
    committed: (result: A) => Effect.Effect<void>
  ): Effect.Effect<A, DatabaseFailure> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const connection = yield* restore(sql.reserve)
        const run = (statement: string) => connection.execute(statement, [], undefined)
        // The write lock first: a transaction that reads first could not be sure to get it any more.
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
    // There is one writer anyway.
    alone: () => Effect.void,
    skipLocked: sql.literal(""),
    // Others see the work at their next look.
    announce: () => Effect.void,
    announced: () => Effect.void
  }
}
