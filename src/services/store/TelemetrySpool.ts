import type { TableName } from "../../schema/Telemetry.ts"
import type { TableRecord } from "../Tables.ts"
import type { Stored } from "./StoreUnavailable.ts"

export interface SpoolEntry extends TableRecord {
  /** Bytes of `json`, which the spool's bound counts. */
  readonly bytes: number
  readonly acceptedAt: number
}

export type SpoolAdmission = "accepted" | "full"

export interface TelemetrySpool {
  /**
   * Commits a batch, or refuses all of it when the spool would pass the bound (bytes). Records whose id is waiting already, or
   * was delivered within 24 h, are counted as duplicates.
   */
  readonly offer: (
    entries: ReadonlyArray<SpoolEntry>,
    bound: { readonly limitBytes: number }
  ) => Stored<SpoolAdmission>
  /** Leases the oldest entries of these tables for shipping: at most `count` of them and about `bytes`. */
  readonly lease: (request: {
    readonly tables: ReadonlySet<TableName>
    readonly count: number
    readonly bytes: number
    readonly now: number
    readonly leaseUntil: number
    readonly owner: string
  }) => Stored<ReadonlyArray<SpoolEntry>>
  /**
   * Removes leased entries from the spool and counts them. Ids of delivered ones are remembered for 24 h; refused ones
   * are listed with the service's code.
   */
  readonly settle: (result: {
    readonly owner: string
    readonly now: number
    readonly delivered: ReadonlyArray<string>
    readonly duplicates: ReadonlyArray<string>
    readonly refused: ReadonlyArray<{ readonly recordId: string; readonly code: string }>
  }) => Stored<void>
  /** Gives leased entries back. */
  readonly release: (owner: string, recordIds: ReadonlyArray<string>) => Stored<void>
  /**
   * Drops entries older than `acceptedBefore`, and forgets delivered ids older than `deliveredBefore` and the oldest beyond
   * `deliveredAtMost`; in small batches.
   */
  readonly expire: (bounds: {
    readonly acceptedBefore: number
    readonly deliveredBefore: number
    readonly deliveredAtMost: number
  }) => Stored<void>
  /** Per table: accepted = delivered + duplicates + expired + refused + waiting. */
  readonly counts: Stored<ReadonlyArray<SpoolCounts>>
}

export interface SpoolCounts {
  readonly table: string
  readonly accepted: number
  readonly delivered: number
  readonly duplicates: number
  readonly expired: number
  readonly refused: number
  readonly waiting: number
  readonly waitingBytes: number
}
