/** A database as the repositories use it. */
import type { SqlClient } from "@effect/sql/SqlClient"
import type * as Option from "effect/Option"
import type { Statements } from "./Statements.ts"
import type { Stored } from "./StoreUnavailable.ts"

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
export const lanes = ["reports", "people", "spool", "logins", "schema"] as const
export type Lane = (typeof lanes)[number]

/** Commits all of `body` or nothing. */
export type Write = <A>(operation: string, body: Statements<A>, committed?: (result: A) => void) => Stored<A>

export interface Database {
  /** Like `SQLite database /var/lib/music.sqlite`. */
  readonly name: string
  /** Composes statements. */
  readonly sql: SqlClient
  /** A single statement: two of them may see different states. */
  readonly read: <A>(operation: string, query: Statements<A>) => Stored<A>
  /**
   * `committed` runs after the commit, even when the caller was interrupted. After a failure the commit may have happened and its answer
   * been lost, so every write must be idempotent: it names its rows by stable keys, changes only rows that it still holds, or leaves
   * something that expires, like a lease.
   */
  readonly write: (lane: Lane) => Write
  readonly usage: StoreUsage
}

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
  readonly idle: number
  /** Accesses that wait for a connection. */
  readonly waiting: number
}

export interface StoreUsage {
  readonly size: Stored<StoreSize>
  /** Without the database, so also while it hangs. None for SQLite, which has one connection. */
  readonly pool: () => Option.Option<PoolUse>
}
