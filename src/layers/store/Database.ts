/** Reads and writes of all repositories: one transaction a write, locks waited for, errors translated in one place. */
import type { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { recurWithin } from "../../services/MonotonicTime.ts"
import type { StoreUnavailable } from "../../services/Store.ts"
import {
  type Database,
  interleaved,
  type Lane,
  lanes,
  type StoreSize,
  type StoreUsage
} from "../../services/store/Database.ts"
import { timeLeft } from "../../services/store/Groups.ts"
import type { Statements } from "../../services/store/Statements.ts"
import { traced } from "../../services/Tracing.ts"
import { type Commit, makeGroupCommit, type Transactions } from "./GroupCommit.ts"
import { type DatabaseFailure, isLocked, toStoreUnavailable } from "./StoreErrors.ts"

/** Where SQLite and Postgres differ. */
export interface Driver extends Transactions {
  readonly name: string
  readonly sql: SqlClient
  /** Runs a single statement. */
  readonly read: <A>(query: Statements<A>) => Effect.Effect<A, DatabaseFailure>
  /** One writer at a time: all lanes are one. */
  readonly hasOneWriter: boolean
  readonly size: Effect.Effect<StoreSize, DatabaseFailure>
  readonly pool: StoreUsage["pool"]
  /** Milliseconds for which an access that is blocked by a lock is retried. */
  readonly lockWait: number
}

/** Runs an access in a span of its name, again while it is locked: the drivers do not wait, and SQLite would block the thread. */
export const makeAccess = ({ lockWait, name }: Pick<Driver, "name" | "lockWait">) => {
  const retryFor = (millis: number) =>
    Schedule.spaced("10 millis").pipe(Schedule.jittered, Schedule.intersect(recurWithin(millis)))
  return <A, R>(
    operation: string,
    attempt: Effect.Effect<A, DatabaseFailure, R>
  ): Effect.Effect<A, StoreUnavailable, R> => {
    // A schedule is made for an access that is locked only.
    const retried = Effect.flatMap(timeLeft, (left) =>
      Effect.retry(attempt, { while: isLocked, schedule: retryFor(Math.min(lockWait, left)) })
    )
    return Effect.catchIf(attempt, isLocked, () => retried).pipe(
      Effect.mapError(toStoreUnavailable(name, operation)),
      traced(operation)
    )
  }
}

export const makeDatabase = (driver: Driver): Effect.Effect<Database, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { hasOneWriter, name, pool, read, size, sql } = driver
    const access = makeAccess(driver)
    const shared = yield* makeGroupCommit(driver, "all")
    const commits = new Map<Lane, Commit>()
    if (!hasOneWriter)
      for (const lane of lanes)
        commits.set(lane, yield* makeGroupCommit(driver, lane, interleaved.has(lane) ? "unbounded" : 1))
    return {
      name,
      sql,
      usage: { size: access("Store.size", size), pool },
      read: (operation, query) => access(operation, read(query)),
      write: (lane) => {
        const commit = commits.get(lane) ?? shared
        return (operation, body, committed) => access(operation, commit(operation, body, committed))
      }
    }
  })
