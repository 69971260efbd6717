import type { Stored } from "./StoreUnavailable.ts"

/** Removes old rows, a few hundred a call, and returns how many. Bounds are milliseconds since the epoch. */
export interface Retention {
  /** Only reports whose delivery is over. */
  readonly reports: (createdBefore: number) => Stored<number>
  /** The same for reports without a verified reporter, which removed ones are too. */
  readonly anonymousReports: (createdBefore: number) => Stored<number>
  readonly webhooks: (receivedBefore: number) => Stored<number>
  /** Only deliveries that are over; those of a report that was not filed only once the report is gone. */
  readonly deliveries: (finishedBefore: number) => Stored<number>
  /** Only inactive registrations: a missing row means the same. */
  readonly recipients: (changedBefore: number) => Stored<number>
  readonly loginOutcomes: (recordedBefore: number) => Stored<number>
  /** Only ended ones. */
  readonly sessionDigests: (endedBefore: number) => Stored<number>
  /** The list of refused telemetry records. */
  readonly refusals: (refusedBefore: number) => Stored<number>
}
