import type { Statement } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type DestinationState, type Destinations, trackerDestination } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { all, first, run, type Statements } from "../Statements.ts"
import { priorities } from "./DeliveryRows.ts"
import { Flag, OptionalText, toFlag, Whole } from "./Rows.ts"

const hour = 3_600_000

const Row = Schema.Struct({
  failures: Whole,
  stopped: Flag,
  pausedUntil: Whole,
  lastFailure: OptionalText
})

/** Milliseconds: a write of the next seconds waits its turn, and is no pause. */
const ownTurn = 10_000

const Pause = Schema.Struct({
  name: Schema.String,
  reason: Schema.Literal("settings", "failure", "pace"),
  until: Whole,
  lastFailure: OptionalText
})

const neverFailed: DestinationState = {
  failures: 0,
  stopped: false,
  pausedUntil: 0,
  lastFailure: Option.none()
}

const writtenAt = all(Schema.Struct({ writtenAt: Whole }))

export const makeDestinations = ({ read, sql, write }: Database): Destinations => {
  const state = (name: string): Statements<DestinationState> =>
    Effect.map(
      first(Row)(sql`
        SELECT failures, stopped, paused_until, last_failure FROM destinations WHERE name = ${name}`),
      Option.getOrElse(() => neverFailed)
    )

  /** Returns the previous state, so that exactly one process sees each transition. */
  const change = (
    operation: string,
    name: string,
    statementFor: (before: DestinationState) => Statement<object> | undefined
  ) =>
    write("reports")(
      operation,
      Effect.tap(state(name), (before) => {
        const statement = statementFor(before)
        return statement === undefined ? Effect.void : run(statement)
      })
    )

  return {
    find: (name) => read("Destinations.find", state(name)),
    failed: (name, { now, pausedUntil, stopped, failure }) =>
      change(
        "Destinations.failed",
        name,
        () => sql`
          INSERT INTO destinations (name, failures, stopped, paused_until, last_failure, changed_at)
          VALUES (${name}, 1, ${toFlag(stopped)}, ${pausedUntil}, ${failure}, ${now})
          ON CONFLICT (name) DO UPDATE SET
            failures = destinations.failures + 1,
            stopped = CASE WHEN excluded.stopped = 1 THEN 1 ELSE destinations.stopped END,
            paused_until = CASE
              WHEN excluded.paused_until > destinations.paused_until THEN excluded.paused_until
              ELSE destinations.paused_until END,
            last_failure = excluded.last_failure, changed_at = excluded.changed_at`
      ),
    answered: (name, { now, wrote }) =>
      change("Destinations.answered", name, ({ failures, stopped }) =>
        (stopped && !wrote) || (failures === 0 && !stopped)
          ? undefined
          : sql`
              UPDATE destinations SET failures = 0, stopped = 0, last_failure = NULL, changed_at = ${now}
              WHERE name = ${name}`
      ),
    resumeTracker: (now) =>
      write("reports")(
        "Destinations.resumeTracker",
        Effect.gen(function* () {
          const { pausedUntil, stopped } = yield* state(trackerDestination)
          if (!stopped || pausedUntil <= now) return
          yield* run(sql`
            UPDATE destinations SET paused_until = ${now}, changed_at = ${now} WHERE name = ${trackerDestination}`)
          yield* run(sql`
            UPDATE deliveries SET available_at = ${now}
            WHERE kind = 'report' AND state = 'waiting' AND ${sql.in("priority", Object.values(priorities))}
              AND available_at > ${now}`)
        })
      ),
    reserveWrite: (name, { now, spacing, hourly }) =>
      write("reports")(
        "Destinations.reserveWrite",
        Effect.gen(function* () {
          yield* run(sql`
            DELETE FROM destination_writes WHERE destination = ${name} AND written_at <= ${now - hour}`)
          const newest = yield* writtenAt(sql`
            SELECT written_at FROM destination_writes
            WHERE destination = ${name} ORDER BY written_at DESC LIMIT ${hourly}`)
          const last = newest[0]
          const hourAgo = newest[hourly - 1]
          const at = Math.max(
            now,
            last === undefined ? now : last.writtenAt + spacing,
            hourAgo === undefined ? now : hourAgo.writtenAt + hour
          )
          yield* run(sql`INSERT INTO destination_writes (destination, written_at) VALUES (${name}, ${at})`)
          return at
        })
      ),
    pauses: (now) =>
      read(
        "Destinations.pauses",
        all(Pause)(sql`
          SELECT name, CASE WHEN stopped = 1 THEN 'settings' ELSE 'failure' END AS reason,
            paused_until AS until, last_failure
          FROM destinations WHERE paused_until > ${now}
          UNION ALL
          SELECT destination AS name, 'pace' AS reason, MAX(written_at) AS until, NULL AS last_failure
          FROM destination_writes
          WHERE destination = ${trackerDestination} AND written_at > ${now + ownTurn}
          GROUP BY destination`)
      )
  }
}
