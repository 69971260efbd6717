/** Times and numbers of delivery. Production uses `production`; tests lower them. */
import * as Duration from "effect/Duration"

/** Milliseconds unless noted otherwise. */
export interface DeliveryLimits {
  /** Lease of a delivery without a heartbeat. Another process takes over a dead holder's delivery after this time. */
  readonly lease: number
  /** Lease of telemetry records. It has no heartbeat: a request is cut off before the lease ends. */
  readonly telemetryLease: number
  /** How long a stop of the process waits for the answer to a telemetry request; at most a quarter of the grace period. */
  readonly telemetryStopGrace: number
  /** Between two searches for telemetry records whose holder died. */
  readonly telemetryPollInterval: number
  /** How long the first telemetry record waits for others to fill its batch. */
  readonly batchDelay: number
  /** The first backoff after a failure. */
  readonly firstBackoff: number
  /** Between two attempts at a destination whose settings an operator must repair, and at a table whose key is unknown. */
  readonly probeInterval: number
  /** Between two writes to the tracker (issue-tracker.md 3). */
  readonly writeSpacing: number
  /** Writes in any hour, a count. Below GitHub's 500, which also include writes by people (issue-tracker.md 3). */
  readonly hourlyWrites: number
  /** From a send with unknown outcome to each search for its issue, rising. Later searches use the last one. */
  readonly searchDelays: ReadonlyArray<number>
  /** From a repeated send to the search for duplicate issues (issue-tracker.md 4.6). */
  readonly sweepDelay: number
}

export const production: DeliveryLimits = {
  lease: 10_000,
  telemetryLease: 12_000,
  telemetryStopGrace: 5_000,
  telemetryPollInterval: 1_500,
  batchDelay: 1_000,
  firstBackoff: 1_000,
  probeInterval: 5 * 60_000,
  writeSpacing: 1_000,
  hourlyWrites: 450,
  searchDelays: [5_000, 15_000, 40_000],
  sweepDelay: Duration.toMillis("1 hour")
}
