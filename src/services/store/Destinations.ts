import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { TableName } from "../../schema/Telemetry.ts"
import type { Database } from "./Database.ts"
import { Flag, OptionalText, overwritten, toFlag, values, Whole } from "./Rows.ts"
import { all, first, run, type Statements } from "./Statements.ts"

/** The names of the destinations. */
export const trackerDestination = "tracker"
export const tablesDestination = "tables"
/** A table whose key the service may not know. */
export const tableDestination = (table: TableName): string => `table ${table}`

const hour = 3_600_000

/** The state of a destination's circuit breaker, for all processes and across restarts. */
const DestinationState = Schema.Struct({
  /** Failures in a row. */
  failures: Whole,
  /** The destination refused our settings; an operator must act. */
  stopped: Flag,
  pausedUntil: Whole,
  lastFailure: OptionalText
})
type DestinationState = typeof DestinationState.Type

/** Milliseconds: no pause or lease ends later, and no write is reserved for later, unless a clock was ahead. Clocks may differ by a minute. */
export const longestAhead = hour + 60_000

/** Milliseconds: a write of the next seconds waits its turn, and is no pause. */
const ownTurn = 10_000

/** `settings`: it refused them; `failure`: it failed or asked for a pause; `pace`: the writes of this hour are used up. */
export const pauseReasons = ["settings", "failure", "pace"] as const

/** A destination that takes nothing now. */
const DestinationPause = Schema.Struct({
  name: Schema.String,
  reason: Schema.Literal(...pauseReasons),
  until: Whole,
  /** The failure that caused it; none for the pace. */
  lastFailure: OptionalText
})
export type DestinationPause = typeof DestinationPause.Type

const neverFailed: DestinationState = {
  failures: 0,
  stopped: false,
  pausedUntil: 0,
  lastFailure: Option.none()
}

export const makeDestinations = ({ read, sql, write }: Database) => {
  const state = (name: string): Statements<DestinationState> =>
    Effect.map(
      first(DestinationState)(sql`
        SELECT failures, stopped, paused_until, last_failure FROM destinations WHERE name = ${name}`),
      Option.getOrElse(() => neverFailed)
    )

  /** Returns the previous state, read under the same lock, so that exactly one process sees each transition. */
  const change = (operation: string, name: string, next: (before: DestinationState) => DestinationState) =>
    Effect.tap(state(name), (before) => {
      const after = next(before)
      if (after === before) return Effect.void
      const columns = { stopped: toFlag(after.stopped), lastFailure: Option.getOrNull(after.lastFailure) }
      return run(sql`
        INSERT INTO destinations ${values(sql, { name, ...after, ...columns })}
        ON CONFLICT (name) DO UPDATE SET
          ${overwritten(sql, "failures", "stopped", "paused_until", "last_failure")}`)
    }).pipe(write("reports", operation))

  return {
    /** A destination without a row has never failed. */
    find: (name: string) => state(name).pipe(read("Destinations.find")),
    /** Counts one more failure in a row; a pause is never shortened, except that of a clock that was ahead, and a stop stays. */
    failed: (
      name: string,
      failed: { readonly pausedUntil: number; readonly stopped: boolean; readonly failure: string }
    ) =>
      change("Destinations.failed", name, ({ failures, pausedUntil, stopped }) => ({
        failures: failures + 1,
        stopped: stopped || failed.stopped,
        pausedUntil: Math.max(
          failed.pausedUntil,
          pausedUntil > failed.pausedUntil + longestAhead ? 0 : pausedUntil
        ),
        lastFailure: Option.some(failed.failure)
      })),
    /** Resets the failures. Only an accepted write ends a stop: a read proves no right to write. */
    answered: (name: string, { wrote }: { readonly wrote: boolean }) =>
      change("Destinations.answered", name, (before) =>
        before.failures === 0 || (before.stopped && !wrote)
          ? before
          : { ...neverFailed, pausedUntil: before.pausedUntil }
      ),
    /**
     * After an operator's repair, or with the settings of a process that starts: ends the pauses of destinations that refused the settings,
     * and what waited for that of the tracker is due at `now`. The stop stays until a write is accepted. Other pauses stay.
     */
    resume: (now: number) =>
      Effect.gen(function* () {
        const isPaused = sql`stopped = 1 AND paused_until > ${now}`
        yield* run(sql`
          UPDATE deliveries SET available_at = ${now}
          WHERE kind = 'report' AND state = 'waiting' AND finished_at IS NULL AND available_at > ${now}
            AND EXISTS (SELECT 1 FROM destinations WHERE name = ${trackerDestination} AND ${isPaused})`)
        // Without its failure, so that a refusal that comes again is logged again.
        yield* run(sql`UPDATE destinations SET last_failure = NULL WHERE stopped = 1`)
        yield* run(sql`UPDATE destinations SET paused_until = ${now} WHERE ${isPaused}`)
      }).pipe(write("reports", "Destinations.resume")),
    /**
     * Reserves the next time for a write, for all processes together: `spacing` milliseconds after the last one, and at most
     * `hourly` in any hour.
     */
    reserveWrite: (
      name: string,
      { now, spacing, hourly }: { readonly now: number; readonly spacing: number; readonly hourly: number }
    ) =>
      Effect.gen(function* () {
        yield* run(sql`
          DELETE FROM destination_writes
          WHERE destination = ${name} AND (written_at <= ${now - hour} OR written_at > ${now + longestAhead})`)
        const newest = yield* all(Schema.Struct({ writtenAt: Whole }))(sql`
          SELECT written_at FROM destination_writes
          WHERE destination = ${name} ORDER BY written_at DESC LIMIT ${hourly}`)
        const last = newest[0]?.writtenAt ?? Number.NEGATIVE_INFINITY
        const hourAgo = newest[hourly - 1]?.writtenAt ?? Number.NEGATIVE_INFINITY
        const at = Math.max(now, last + spacing, hourAgo + hour)
        yield* run(sql`INSERT INTO destination_writes (destination, written_at) VALUES (${name}, ${at})`)
        return at
      }).pipe(write("reports", "Destinations.reserveWrite")),
    /** All pauses at `now`, and that of the tracker's pace. Seconds between two writes are no pause. */
    pauses: (now: number) =>
      all(DestinationPause)(sql`
        SELECT name, CASE WHEN stopped = 1 THEN 'settings' ELSE 'failure' END AS reason,
          paused_until AS until, last_failure
        FROM destinations WHERE paused_until > ${now} AND paused_until <= ${now + longestAhead}
        UNION ALL
        SELECT destination AS name, 'pace' AS reason, MAX(written_at) AS until, NULL AS last_failure
        FROM destination_writes
        WHERE destination = ${trackerDestination} AND written_at > ${now + ownTurn}
          AND written_at <= ${now + longestAhead}
        GROUP BY destination`).pipe(read("Destinations.pauses"))
  }
}

export type Destinations = ReturnType<typeof makeDestinations>
