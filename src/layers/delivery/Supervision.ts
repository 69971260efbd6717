/** Restarts a background worker that breaks. */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { type BackoffPolicy, backoffSchedule } from "./Backoff.ts"

const restartBackoff: BackoffPolicy = { first: 1_000, longest: 30_000 }
/** A worker that ran for longer than this had recovered: its next failure counts as the first. */
const recoveredAfter = Duration.toMillis(Duration.minutes(1))

/** The input is how many milliseconds the worker ran. Not `Schedule.resetAfter`, which goes by the wall clock. */
const restarts = backoffSchedule(restartBackoff).pipe(
  Schedule.intersect(Schedule.identity<number>()),
  Schedule.resetWhen(([, ranFor]) => ranFor > recoveredAfter)
)

/** Runs a worker that never ends by itself. Logs its failures and restarts it after 1 to 30 s. */
export const supervised =
  (name: string) =>
  <E, R>(worker: Effect.Effect<never, E, R>): Effect.Effect<never, never, R> =>
    Effect.gen(function* () {
      const startedAt = yield* monotonicMillis
      const cause = yield* Effect.flip(Effect.sandbox(worker))
      yield* Effect.logError(`${name} failed and restarts`, Cause.pretty(cause))
      return yield* Effect.fail((yield* monotonicMillis) - startedAt)
    }).pipe(
      Effect.retry(restarts),
      // The schedule never ends, so no failure is left; the type does not show it.
      Effect.orDie
    )
