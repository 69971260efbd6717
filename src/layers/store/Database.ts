/** Reads and writes of all repositories: one transaction a write, locks waited for, errors translated in one place. */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type { Fragment } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { recurWithin } from "../../services/MonotonicTime.ts"
import type { StoreUnavailable } from "../../services/Store.ts"
import { type DatabaseFailure, isLocked, toStoreUnavailable } from "./StoreErrors.ts"

/** Queues that workers poll. */
export type WorkQueue = "deliveries" | "spool"

export interface Database {
  /** Like `SQLite database /var/lib/music.sqlite`. */
  readonly name: string
  readonly sql: SqlClient.SqlClient
  /** For a single statement: two of them may see different states. */
  readonly read: <A>(
    operation: string,
    statement: Effect.Effect<A, DatabaseFailure>
  ) => Effect.Effect<A, StoreUnavailable>
  /**
   * Commits all of `body` or nothing. `committed` runs after the commit, even when the caller was interrupted. After a failure
   * the commit may have happened and its answer been lost, so every write must be idempotent: it names its rows by stable
   * keys, changes only rows that it still holds, or leaves something that expires, like a lease.
   */
  readonly write: <A>(
    operation: string,
    body: Effect.Effect<A, DatabaseFailure>,
    committed?: (result: A) => Effect.Effect<void>
  ) => Effect.Effect<A, StoreUnavailable>
  /** Inside a write, before anything else: takes the lock of this name, for all processes, until the transaction ends. */
  readonly alone: (name: string) => Effect.Effect<void, SqlError>
  /** Ends a SELECT inside a write: locks its rows, and skips those that another transaction has locked. */
  readonly skipLocked: Fragment
  /** Inside a write: its commit wakes the workers of other processes. */
  readonly announce: (queue: WorkQueue) => Effect.Effect<void, SqlError>
  /** Calls `heard` for announcements of other processes, until the scope closes. It may be called without one, but none is missed. */
  readonly announced: (heard: (queue: WorkQueue) => void) => Effect.Effect<void, never, Scope.Scope>
}

/** Operations in which SQLite and Postgres differ. */
export interface Dialect extends Pick<Database, "alone" | "skipLocked" | "announce" | "announced"> {
  readonly read: <A>(statement: Effect.Effect<A, DatabaseFailure>) => Effect.Effect<A, DatabaseFailure>
  readonly transaction: <A>(
    body: Effect.Effect<A, DatabaseFailure>,
    committed: (result: A) => Effect.Effect<void>
  ) => Effect.Effect<A, DatabaseFailure>
  /** Around every access: decides what an interruption of the caller does to it. */
  readonly access: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
}

export interface DatabaseOptions {
  readonly name: string
  /** Milliseconds for which an access that is blocked by a lock is retried. */
  readonly lockWait: number
  readonly dialect: Dialect
}

const lockPause = "10 millis"

export const makeDatabase = (
  sql: SqlClient.SqlClient,
  { dialect, lockWait, name }: DatabaseOptions
): Database => {
  const { alone, announce, announced, skipLocked } = dialect

  // The drivers do not wait for locks: SQLite would block the thread.
  const lockRetries = Schedule.spaced(lockPause).pipe(
    Schedule.jittered,
    Schedule.intersect(recurWithin(lockWait))
  )
  const retryWhileLocked = <A>(effect: Effect.Effect<A, DatabaseFailure>) =>
    Effect.retry(effect, { while: isLocked, schedule: lockRetries })

  const access = <A>(operation: string, effect: Effect.Effect<A, DatabaseFailure>) =>
    retryWhileLocked(effect).pipe(
      Effect.mapError(toStoreUnavailable(name, operation)),
      Effect.withSpan(operation, { captureStackTrace: false }),
      dialect.access
    )

  return {
    name,
    sql,
    alone,
    announce,
    announced,
    skipLocked,
    read: (operation, statement) => access(operation, dialect.read(statement)),
    write: (operation, body, committed = () => Effect.void) =>
      access(operation, dialect.transaction(body, committed))
  }
}
