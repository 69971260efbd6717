import type * as Option from "effect/Option"
import type { TableName } from "../../schema/Telemetry.ts"
import type { Stored } from "./StoreUnavailable.ts"

/** The names of the destinations. */
export const trackerDestination = "tracker"
export const tablesDestination = "tables"
/** A table whose key the service may not know. */
export const tableDestination = (table: TableName): string => `table ${table}`

/** The state of a destination's circuit breaker, for all processes and across restarts. */
export interface DestinationState {
  /** Failures in a row. */
  readonly failures: number
  /** The destination refused our settings; an operator must act. */
  readonly stopped: boolean
  readonly pausedUntil: number
  readonly lastFailure: Option.Option<string>
}

/** A destination that takes nothing now. */
export interface DestinationPause {
  readonly name: string
  /** `settings`: it refused them; `failure`: it failed or asked for a pause; `pace`: the writes of this hour are used up. */
  readonly reason: "settings" | "failure" | "pace"
  readonly until: number
  /** The failure that caused it; none for the pace. */
  readonly lastFailure: Option.Option<string>
}

export interface Destinations {
  /** A destination without a row has never failed. */
  readonly find: (name: string) => Stored<DestinationState>
  /**
   * Counts one more failure in a row; a pause is never shortened, and a stop stays. Returns the previous state, read under
   * the same lock, so that exactly one process sees each transition.
   */
  readonly failed: (
    name: string,
    trouble: {
      readonly now: number
      readonly pausedUntil: number
      readonly stopped: boolean
      readonly failure: string
    }
  ) => Stored<DestinationState>
  /**
   * Resets the failures. Only an accepted write ends a stop: a read proves no right to write. Returns the previous state,
   * as `failed` does.
   */
  readonly answered: (
    name: string,
    answer: { readonly now: number; readonly wrote: boolean }
  ) => Stored<DestinationState>
  /**
   * After an operator's repair: ends the pause of a tracker that refused the settings, and what waited for its end is due at `now`. The
   * stop stays until a write is accepted. Other pauses stay.
   */
  readonly resumeTracker: (now: number) => Stored<void>
  /**
   * Reserves the next time for a write, for all processes together: `spacing` milliseconds after the last one, and at most
   * `hourly` in any hour.
   */
  readonly reserveWrite: (
    name: string,
    pace: { readonly now: number; readonly spacing: number; readonly hourly: number }
  ) => Stored<number>
  /** All pauses at `now`, and that of the tracker's pace. Seconds between two writes are no pause. */
  readonly pauses: (now: number) => Stored<ReadonlyArray<DestinationPause>>
}
