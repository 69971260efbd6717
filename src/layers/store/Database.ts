/** How every repository reads and writes: one transaction a write, one translation of what goes wrong. */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import type { StoreUnavailable } from "../../services/Store.ts"
import { type DatabaseFailure, isLocked, unavailable } from "./Failures.ts"

export interface Database {
  /** Like `SQLite database /var/lib/music.sqlite`. */
  readonly name: string
  readonly sql: SqlClient.SqlClient
  /** Only for a single statement: two of them may see different states. */
  readonly read: <A>(
    operation: string,
    statement: Effect.Effect<A, DatabaseFailure>
  ) => Effect.Effect<A, StoreUnavailable>
  /** Commits all of `body` or nothing. `committed` runs after the commit, even when the caller no longer waits. */
  readonly write: <A>(
    operation: string,
    body: Effect.Effect<A, DatabaseFailure>,
    committed?: (result: A) => Effect.Effect<void>
  ) => Effect.Effect<A, StoreUnavailable>
  /** Inside a write: one at a time for everybody who names the same thing. */
  readonly alone: (thing: string) => Effect.Effect<void, SqlError>
}

export interface DatabaseOptions {
  readonly name: string
  /** Milliseconds that a lock of another process is waited for. */
  readonly lockWait: number
  /** Looked at before every access; fails when what was opened is no longer the database. */
  readonly present: Effect.Effect<void, StoreUnavailable>
}

const lockPause = "10 millis"

export const makeDatabase = (sql: SqlClient.SqlClient, options: DatabaseOptions): Database => {
  // Taking the write lock at the start: a transaction that reads first could not be sure to get it any more.
  const begin = sql.onDialectOrElse({ sqlite: () => "BEGIN IMMEDIATE", orElse: () => "BEGIN" })

  // Waiting outside of SQLite leaves the thread to other requests.
  const patiently = <A>(effect: Effect.Effect<A, DatabaseFailure>) =>
    Effect.retry(effect, {
      while: isLocked,
      schedule: Schedule.spaced(lockPause).pipe(Schedule.jittered, Schedule.upTo(options.lockWait))
    })

  /**
   * `sql.withTransaction` makes a defect of a commit or rollback that fails, and SQLite rolls back by itself when the disk is full.
   * A SQLite transaction never leaves the thread, so that its lock is held as briefly as can be.
   */
  const transaction = <A>(
    body: Effect.Effect<A, DatabaseFailure>,
    committed: (result: A) => Effect.Effect<void>
  ): Effect.Effect<A, DatabaseFailure> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const connection = yield* restore(sql.reserve)
        const run = (statement: string) => connection.execute(statement, [], undefined)
        yield* run(begin)
        const exit = yield* restore(body).pipe(
          Effect.provideService(SqlClient.TransactionConnection, [connection, 0]),
          Effect.zipLeft(run("COMMIT")),
          Effect.exit
        )
        yield* Exit.isSuccess(exit) ? committed(exit.value) : Effect.ignore(run("ROLLBACK"))
        return yield* exit
      }).pipe(Effect.scoped)
    ).pipe(Effect.withMaxOpsBeforeYield(Number.MAX_SAFE_INTEGER))

  /** Told by name when it fails, and seen by name in a trace. */
  const access = <A>(operation: string, effect: Effect.Effect<A, DatabaseFailure>) =>
    options.present.pipe(
      Effect.zipRight(patiently(effect)),
      Effect.mapError(unavailable(options.name, operation)),
      Effect.withSpan(operation, { captureStackTrace: false })
    )

  return {
    name: options.name,
    sql,
    read: access,
    write: (operation, body, committed = () => Effect.void) =>
      access(operation, transaction(body, committed)),
    // SQLite has one writer anyway.
    alone: (thing) =>
      sql.onDialectOrElse({
        pg: () => Effect.asVoid(sql`SELECT pg_advisory_xact_lock(hashtextextended(${thing}, 0))`),
        orElse: () => Effect.void
      })
  }
}
