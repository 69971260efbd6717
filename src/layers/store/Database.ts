/** How every repository reads and writes: one transaction a write, one translation of what goes wrong. */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type { Fragment } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { recurWithin } from "../../services/MonotonicTime.ts"
import type { StoreUnavailable } from "../../services/Store.ts"
import { type DatabaseFailure, isLocked, toStoreUnavailable } from "./StoreErrors.ts"

/** What workers wait for. */
export type Work = "deliveries" | "spool"

export interface Database {
  /** Like `SQLite database /var/lib/music.sqlite`. */
  readonly name: string
  readonly sql: SqlClient.SqlClient
  /** Only for a single statement: two of them may see different states. */
  readonly read: <A>(
    operation: string,
    statement: Effect.Effect<A, DatabaseFailure>
  ) => Effect.Effect<A, StoreUnavailable>
  /**
   * Commits all of `body` or nothing. `committed` runs after the commit, even when the caller no longer waits. A failure may
   * also mean that the answer to the commit was lost, so every write must be harmless when it is repeated: it names its rows by
   * keys that stay, changes only what it still holds, or leaves something that ends by itself, like a lease.
   */
  readonly write: <A>(
    operation: string,
    body: Effect.Effect<A, DatabaseFailure>,
    committed?: (result: A) => Effect.Effect<void>
  ) => Effect.Effect<A, StoreUnavailable>
  /** Inside a write, before anything else: one at a time for everybody who names the same thing. */
  readonly alone: (thing: string) => Effect.Effect<void, SqlError>
  /** Ends a SELECT inside a write: locks its rows, and passes over those that another transaction has locked. */
  readonly skipLocked: Fragment
  /** Inside a write: once it is committed, the workers of other processes hear of it. */
  readonly announce: (work: Work) => Effect.Effect<void, SqlError>
  /** Tells what other processes announced, until the scope closes; rather once too often than once too seldom. */
  readonly announced: (heard: (work: Work) => void) => Effect.Effect<void, never, Scope.Scope>
}

/** What the two kinds of database do differently. */
export interface Dialect extends Pick<Database, "alone" | "skipLocked" | "announce" | "announced"> {
  readonly read: <A>(statement: Effect.Effect<A, DatabaseFailure>) => Effect.Effect<A, DatabaseFailure>
  readonly transaction: <A>(
    body: Effect.Effect<A, DatabaseFailure>,
    committed: (result: A) => Effect.Effect<void>
  ) => Effect.Effect<A, DatabaseFailure>
  /** Around every access: what becomes of it when its caller goes away. */
  readonly access: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
}

export interface DatabaseOptions {
  readonly name: string
  /** Milliseconds for which an access that found a lock in its way is tried again. */
  readonly lockWait: number
  readonly dialect: Dialect
}

const lockPause = "10 millis"

export const makeDatabase = (
  sql: SqlClient.SqlClient,
  { dialect, lockWait, name }: DatabaseOptions
): Database => {
  const { alone, announce, announced, skipLocked } = dialect

  // Waiting here leaves the thread to other requests.
  const patiently = <A>(effect: Effect.Effect<A, DatabaseFailure>) =>
    Effect.retry(effect, {
      while: isLocked,
      schedule: Schedule.spaced(lockPause).pipe(Schedule.jittered, Schedule.intersect(recurWithin(lockWait)))
    })

  /** Told by name when it fails, and seen by name in a trace. */
  const access = <A>(operation: string, effect: Effect.Effect<A, DatabaseFailure>) =>
    patiently(effect).pipe(
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
