/**
 * A database as the repositories use it. Simultaneous writes share a transaction, and so one sync of the disk; each is answered after the
 * COMMIT. Locks are waited for, and errors translated, in one place.
 */
import type { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import { recurWithin } from "../MonotonicTime.ts"
import { traced } from "../Tracing.ts"
import { makeGroups, timeLeft } from "./Groups.ts"
import type { Statements } from "./Statements.ts"
import { type DatabaseFailure, isBusy, type Stored, toStoreUnavailable } from "./StoreUnavailable.ts"

/**
 * Tables that are written together. One transaction of a lane runs at a time, whatever process began it, so that its statements see
 * what others committed, and need no further lock:
 *
 * - `reports`: with their removals and sums, deliveries and destinations;
 * - `people`: recipients, the inbox and digests of sessions;
 * - `spool`: with its counts, and ids of delivered and refused records;
 * - `logins`: outcomes of logins, planes, calls to IAM, the last backup;
 * - `schema`: migrations.
 */
const lanes = ["reports", "people", "spool", "logins", "schema"] as const
export type Lane = (typeof lanes)[number]

/** Bytes. */
export interface StoreSize {
  readonly data: number
  /** Of SQLite: the log beside the file, and what is free for both. */
  readonly file: Option.Option<{ readonly log: number; readonly free: number }>
}

/** The connections of this process's pool. */
interface PoolUse {
  readonly limit: number
  readonly used: number
  /** Accesses that wait for a connection. */
  readonly waiting: number
}

/** Where SQLite and Postgres differ. */
export interface Driver {
  /** Like `SQLite database /var/lib/music.sqlite`. */
  readonly name: string
  /** Composes statements. */
  readonly sql: SqlClient
  /** Runs a single statement. */
  readonly read: <A>(query: Statements<A>) => Effect.Effect<A, DatabaseFailure>
  /**
   * Commits all of the statements or nothing, uninterrupted. `operations` name it, in the server's list of sessions too.
   *
   * Not `sql.withTransaction`: there a failed COMMIT is a defect, and the COMMIT of an aborted transaction, which Postgres answers with a
   * successful ROLLBACK, is a success. And no savepoints: after some errors SQLite ends the transaction itself, and the next savepoint
   * would begin another one.
   */
  readonly transaction: <A>(
    lane: string,
    operations: string,
    body: Statements<A>
  ) => Effect.Effect<A, DatabaseFailure>
  /** One writer at a time: all lanes are one. */
  readonly hasOneWriter: boolean
  readonly size: Effect.Effect<StoreSize, DatabaseFailure>
  /** Without the database, so also while it hangs. None for SQLite, which has one connection. */
  readonly pool: () => Option.Option<PoolUse>
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
  <A, R>(operation: string, attempt: Effect.Effect<A, DatabaseFailure, R>) => {
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

export const makeDatabase = (driver: Driver) =>
  Effect.gen(function* () {
    const { name, pool, sql, transaction } = driver
    const access = makeAccess(driver)
    const makeCommit = (lane: string) =>
      makeGroups((writes: ReadonlyArray<PendingWrite>) => {
        const operations = [...new Set(writes.map(({ operation }) => operation))].sort().join(" ")
        return Effect.tap(
          transaction(
            lane,
            operations,
            Effect.forEach(writes, ({ body }) => body)
          ),
          () => {
            for (const { committed } of writes) committed()
          }
        )
      })
    const shared = yield* makeCommit("all")
    const commits = new Map<Lane, typeof shared>()
    if (!driver.hasOneWriter) for (const lane of lanes) commits.set(lane, yield* makeCommit(lane))
    return {
      name,
      sql,
      usage: { size: access("Store.size", driver.size), pool },
      /** A single statement: two of them may see different states. */
      read:
        (operation: string) =>
        <A>(query: Statements<A>): Stored<A> =>
          access(operation, driver.read(query)),
      /**
       * Commits all of the statements or nothing. `committed` runs after the commit, even when the caller was interrupted. After a failure the
       * commit may have happened and its answer been lost, so every write must be idempotent: it names its rows by stable keys, changes
       * only rows that it still holds, or leaves something that expires, like a lease.
       */
      write: <A>(lane: Lane, operation: string, committed: (result: A) => void = () => {}) => {
        const commit = commits.get(lane) ?? shared
        return (body: Statements<A>): Stored<A> =>
          access(
            operation,
            Effect.suspend(() => {
              let result = Option.none<A>()
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

export interface Database extends Effect.Effect.Success<ReturnType<typeof makeDatabase>> {}
