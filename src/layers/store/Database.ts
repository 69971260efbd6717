/**
 * Reads and writes of all repositories. Simultaneous writes of a lane share a transaction, and so one sync of the disk; each is answered
 * after the COMMIT. Locks are waited for, and errors translated, in one place.
 */
import type { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { recurWithin } from "../../services/MonotonicTime.ts"
import type { StoreUnavailable } from "../../services/Store.ts"
import { type Database, lanes, type StoreSize, type StoreUsage } from "../../services/store/Database.ts"
import { makeGroups, timeLeft } from "../../services/store/Groups.ts"
import type { Statements } from "../../services/store/Statements.ts"
import { type DatabaseFailure, isBusy, toStoreUnavailable } from "../../services/store/StoreUnavailable.ts"
import { traced } from "../../services/Tracing.ts"

/** Where SQLite and Postgres differ. */
export interface Driver {
  readonly name: string
  readonly sql: SqlClient
  /** Runs a single statement. */
  readonly read: <A>(query: Statements<A>) => Effect.Effect<A, DatabaseFailure>
  /**
   * Commits all of the statements or nothing, uninterrupted. `operations` name it in the server's list of sessions.
   *
   * Not `sql.withTransaction`: there a failed COMMIT is a defect, and the COMMIT of an aborted transaction, which Postgres answers with a
   * successful ROLLBACK, is a success. And no savepoints: after some errors SQLite ends the transaction itself, and the next savepoint
   * would begin another one.
   */
  readonly transaction: <A>(
    lane: string,
    operations: ReadonlyArray<string>,
    body: Statements<A>
  ) => Effect.Effect<A, DatabaseFailure>
  /** One writer at a time: all lanes are one. */
  readonly hasOneWriter: boolean
  readonly size: Effect.Effect<StoreSize, DatabaseFailure>
  readonly pool: StoreUsage["pool"]
  /** Milliseconds for which an access that is blocked by a lock is retried. */
  readonly lockWait: number
}

/** Recurs after 10 ms, and then up to 100 ms. */
const pauses = Schedule.exponential("10 millis").pipe(
  Schedule.union(Schedule.spaced("100 millis")),
  Schedule.jittered
)

/** Runs an access in a span of its name, again while it is locked: the drivers do not wait, and SQLite would block the thread. */
export const makeAccess =
  ({ lockWait, name }: Pick<Driver, "name" | "lockWait">) =>
  <A, R>(
    operation: string,
    attempt: Effect.Effect<A, DatabaseFailure, R>
  ): Effect.Effect<A, StoreUnavailable, R> => {
    // A schedule is made for an access that is locked only.
    const retried = Effect.flatMap(timeLeft, (left) =>
      Effect.retry(attempt, {
        while: isBusy,
        schedule: Schedule.intersect(pauses, recurWithin(Math.min(lockWait, left)))
      })
    )
    return Effect.catchIf(attempt, isBusy, () => retried).pipe(
      Effect.mapError(toStoreUnavailable(name, operation)),
      traced(operation)
    )
  }

/** A write of one caller. */
interface PendingWrite {
  readonly operation: string
  readonly body: Statements<void>
  /** Runs after the COMMIT, also when the caller has left. */
  readonly committed: () => void
}

export const makeDatabase = (driver: Driver): Effect.Effect<Database, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { hasOneWriter, name, pool, read, size, sql, transaction } = driver
    const access = makeAccess(driver)
    const makeCommit = (lane: string) =>
      makeGroups((writes: ReadonlyArray<PendingWrite>) => {
        const operations = writes.map(({ operation }) => operation)
        return Effect.tap(transaction(lane, operations, Effect.forEach(writes, ({ body }) => body)), () => {
          for (const { committed } of writes) committed()
        })
      })
    const shared = yield* makeCommit("all")
    const commits = new Map<string, typeof shared>()
    if (!hasOneWriter) for (const lane of lanes) commits.set(lane, yield* makeCommit(lane))
    return {
      name,
      sql,
      usage: { size: access("Store.size", size), pool },
      read: (operation, query) => access(operation, read(query)),
      write: (lane) => {
        const commit = commits.get(lane) ?? shared
        return (operation, body, committed = () => undefined) =>
          access(
            operation,
            Effect.suspend(() => {
              let result = Option.none<Effect.Effect.Success<typeof body>>()
              const kept = Effect.map(body, (value) => {
                result = Option.some(value)
              })
              const write = { operation, body: kept, committed: () => Option.map(result, committed) }
              return Effect.map(commit(write), () => Option.getOrThrow(result))
            })
          )
      }
    }
  })
