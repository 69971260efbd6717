/** Times and numbers of delivery. Production takes these; tests lower them. */
import * as Duration from "effect/Duration"

/** Milliseconds where nothing else is said. */
export interface DeliveryLimits {
  /** For how long a worker holds a delivery without a heartbeat: what a dead one held is taken up by then. */
  readonly lease: number
  /** The same for telemetry records. No heartbeat: a request is cut off in time before its end. */
  readonly telemetryLease: number
  /** For how long a stop of the process waits for the answer to what telemetry has sent; a quarter of the grace period at most. */
  readonly telemetryStop: number
  /** Between two looks for telemetry whose holder died. */
  readonly telemetryLook: number
  /** How long a first telemetry record waits for company. */
  readonly gathering: number
  /** The first pause after a failure; it doubles from there. */
  readonly firstPause: number
  /** Between tries of a destination that an operator must repair, and of a table whose key is unknown. */
  readonly repairPause: number
  /** Between two writes to the tracker (issue-tracker.md 3). */
  readonly writeSpacing: number
  /** Writes in any hour: below GitHub's 500, which people's own writes count into (issue-tracker.md 3). */
  readonly hourlyWrites: number
  /** When duplicates are looked for once more, after a report that was sent more than once (issue-tracker.md 4.6). */
  readonly sweepDelay: number
}

export const production: DeliveryLimits = {
  lease: 10_000,
  telemetryLease: 12_000,
  telemetryStop: 5_000,
  telemetryLook: 1_500,
  gathering: 1_000,
  firstPause: 1_000,
  repairPause: 5 * 60_000,
  writeSpacing: 1_000,
  hourlyWrites: 450,
  sweepDelay: Duration.toMillis("1 hour")
}
