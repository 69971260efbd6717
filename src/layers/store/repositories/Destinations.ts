import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { beyondReason } from "../../../services/ClockSkew.ts"
import type { DestinationState, Destinations } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { all, Flag, first, OptionalText, toFlag, Whole } from "./Rows.ts"

const hour = 3_600_000

const Row = Schema.Struct({
  failures: Whole,
  stopped: Flag,
  paused_until: Whole,
  last_failure: OptionalText
})

const neverFailed: DestinationState = {
  failures: 0,
  stopped: false,
  pausedUntil: 0,
  lastFailure: Option.none()
}

const toState = (row: typeof Row.Type): DestinationState => ({
  failures: row.failures,
  stopped: row.stopped,
  pausedUntil: row.paused_until,
  lastFailure: row.last_failure
})

export const makeDestinations = ({ sql, read, write, alone }: Database): Destinations => {
  const state = (name: string) =>
    first(Row)(sql`
      SELECT failures, stopped, paused_until, last_failure FROM destinations WHERE name = ${name}`).pipe(
      Effect.map(Option.match({ onNone: () => neverFailed, onSome: toState }))
    )

  /** Whoever sees a change first is told so, and nobody else: what was is read under the lock that the change is made under. */
  const alter = (name: string, change: (before: DestinationState) => Effect.Effect<unknown, SqlError>) =>
    Effect.gen(function* () {
      yield* alone(`destination ${name}`)
      const before = yield* state(name)
      yield* change(before)
      return before
    })

  return {
    find: (name) => read("Destinations.find", state(name)),
    failed: (name, { now, pausedUntil, stopped, failure }) =>
      write(
        "Destinations.failed",
        alter(
          name,
          () => sql`
          INSERT INTO destinations (name, failures, stopped, paused_until, last_failure, changed_at)
          VALUES (${name}, 1, ${toFlag(stopped)}, ${pausedUntil}, ${failure}, ${now})
          ON CONFLICT (name) DO UPDATE SET
            failures = destinations.failures + 1,
            stopped = CASE WHEN excluded.stopped = 1 THEN 1 ELSE destinations.stopped END,
            paused_until = CASE
              WHEN excluded.paused_until > destinations.paused_until
                OR destinations.paused_until > ${beyondReason(now)} THEN excluded.paused_until
              ELSE destinations.paused_until END,
            last_failure = excluded.last_failure, changed_at = excluded.changed_at`
        )
      ),
    answered: (name, { now, wrote }) =>
      write(
        "Destinations.answered",
        alter(name, ({ failures, stopped }) =>
          (stopped && !wrote) || (failures === 0 && !stopped)
            ? Effect.void
            : sql`
                UPDATE destinations SET failures = 0, stopped = 0, last_failure = NULL, changed_at = ${now}
                WHERE name = ${name}`
        )
      ),
    reserveWrite: (name, { now, spacing, hourly }) =>
      write(
        "Destinations.reserveWrite",
        Effect.gen(function* () {
          yield* alone(`destination ${name}`)
          // Nothing is ever booked an hour ahead: what stands there was written by a clock that was wrong.
          yield* sql`
            DELETE FROM destination_writes
            WHERE destination = ${name} AND (written_at <= ${now - hour} OR written_at > ${now + hour})`
          const newest = yield* all(Schema.Struct({ written_at: Whole }))(sql`
            SELECT written_at FROM destination_writes
            WHERE destination = ${name} ORDER BY written_at DESC LIMIT ${hourly}`)
          const last = newest[0]
          const hourAgo = newest[hourly - 1]
          const at = Math.max(
            now,
            last === undefined ? now : last.written_at + spacing,
            hourAgo === undefined ? now : hourAgo.written_at + hour
          )
          yield* sql`INSERT INTO destination_writes (destination, written_at) VALUES (${name}, ${at})`
          return at
        })
      )
  }
}
