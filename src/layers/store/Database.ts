/** Reads and writes of all repositories: one transaction a write, locks waited for, errors translated in one place. */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import * as Schedule from "effect/Schedule"
import { recurWithin } from "../../services/MonotonicTime.ts"
import type { StoreSize, StoreUnavailable, StoreUsage } from "../../services/Store.ts"
import { traced } from "../../services/Tracing.ts"
import type { Query, Steps } from "./Query.ts"
import { type TraceStatement, traceStatements, untraced } from "./StatementSpans.ts"
import { timeLeft } from "./RequestDeadline.ts"
import { type DatabaseFailure, isLocked, toStoreUnavailable } from "./StoreErrors.ts"

/** A write: one statement, or a generator of several. It is called again when its transaction had no effect. */
export type Body<A> = () => Query<A> | Steps<A>

export interface Database {
  /** Like `SQLite database /var/lib/music.sqlite`. */
  readonly name: string
  /** Composes statements. */
  readonly sql: SqlClient.SqlClient
  /** A single statement: two of them may see different states. */
  readonly read: <A>(operation: string, query: Query<A>) => Effect.Effect<A, StoreUnavailable>
  /**
   * Commits all of `body` or nothing. `committed` runs after the commit, even when the caller was interrupted. After a failure
   * the commit may have happened and its answer been lost, so every write must be idempotent: it names its rows by stable
   * keys, changes only rows that it still holds, or leaves something that expires, like a lease.
   */
  readonly write: <A>(
    operation: string,
    body: Body<A>,
    committed?: (result: A) => void
  ) => Effect.Effect<A, StoreUnavailable>
  /** Ends a SELECT inside a write: locks its rows, and skips those that another transaction has locked. */
  readonly skipLocked: Fragment
  /** Simultaneous writes share a commit. */
  readonly groupsWrites: boolean
  readonly usage: StoreUsage
}

export interface Transaction<A> {
  readonly operation: string
  readonly body: Body<A>
  readonly committed: (result: A) => void
}

/** Operations in which SQLite and Postgres differ. */
export interface Dialect extends Pick<Database, "skipLocked" | "groupsWrites"> {
  readonly read: <A>(query: Query<A>, trace: TraceStatement) => Effect.Effect<A, DatabaseFailure>
  readonly write: <A>(transaction: Transaction<A>, trace: TraceStatement) => Effect.Effect<A, DatabaseFailure>
  readonly size: (trace: TraceStatement) => Effect.Effect<StoreSize, DatabaseFailure>
  readonly pool: StoreUsage["pool"]
}

export interface DatabaseOptions {
  readonly name: string
  /** Milliseconds for which an access that is blocked by a lock is retried. */
  readonly lockWait: number
  readonly dialect: Dialect
}

const lockPause = "10 millis"

const nothing = () => undefined

/** An access of the database, which may be started again. */
export type Access = <A>(
  operation: string,
  attempt: (trace: TraceStatement) => Effect.Effect<A, DatabaseFailure>
) => Effect.Effect<A, StoreUnavailable>

/** Waits for locks: the drivers do not, and SQLite would block the thread. */
export const makeAccess = ({ lockWait, name }: Pick<DatabaseOptions, "name" | "lockWait">): Access => {
  const lockRetries = (within: number) =>
    Schedule.spaced(lockPause).pipe(Schedule.jittered, Schedule.intersect(recurWithin(within)))
  /** `failed` was the first attempt: the wait begins with it. */
  const retryWhileLocked = <A>(failed: DatabaseFailure, attempt: Effect.Effect<A, DatabaseFailure>) => {
    let attempts = 0
    return Effect.flatMap(timeLeft, (left) =>
      Effect.retry(
        Effect.suspend(() => {
          attempts += 1
          return attempts === 1 ? Effect.fail(failed) : attempt
        }),
        { while: isLocked, schedule: lockRetries(Math.min(lockWait, left)) }
      )
    )
  }
  return (operation, attempt) => {
    const fail = toStoreUnavailable(name, operation)
    const settled = (trace: TraceStatement) =>
      Effect.catchAll(attempt(trace), (error) =>
        isLocked(error)
          ? Effect.mapError(retryWhileLocked(error, attempt(trace)), fail)
          : Effect.fail(fail(error))
      )
    return FiberRef.getWith(FiberRef.currentTracerEnabled, (isTracing) =>
      isTracing ? traced(operation)(Effect.flatMap(traceStatements, settled)) : settled(untraced)
    )
  }
}

export const makeDatabase = (
  sql: SqlClient.SqlClient,
  { dialect, ...options }: DatabaseOptions
): Database => {
  const { groupsWrites, skipLocked } = dialect
  const access = makeAccess(options)
  return {
    name: options.name,
    sql,
    groupsWrites,
    skipLocked,
    usage: { size: access("Store.size", dialect.size), pool: dialect.pool },
    read: (operation, query) => access(operation, (trace) => dialect.read(query, trace)),
    write: (operation, body, committed = nothing) =>
      access(operation, (trace) => dialect.write({ operation, body, committed }, trace))
  }
}
