import type * as Option from "effect/Option"
import type { Stored } from "./StoreUnavailable.ts"

/** Bytes. */
export interface StoreSize {
  readonly data: number
  /** Of SQLite: the log beside the file, and what is free for both. */
  readonly file: Option.Option<{ readonly log: number; readonly free: number }>
}

/** The connections of this process's pool. */
export interface PoolUse {
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
