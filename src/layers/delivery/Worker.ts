/** What all workers share: their loop, the backoff, and requests whose outcome is recorded even when the process stops. */
import * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import type { StoreUnavailable } from "../../services/Store.ts"

/** Milliseconds. */
export interface BackoffPolicy {
  /** After the first failure; doubles with each further one. */
  readonly first: number
  readonly longest: number
}

/** Keeps the power finite; every policy reaches its longest delay long before. */
const mostDoublings = 30

/** Milliseconds until the next attempt after `failures` in a row, with a jitter of a fifth. */
export const backoffDelay = ({ first, longest }: BackoffPolicy, failures: number): Effect.Effect<number> =>
  Effect.map(Random.nextRange(0.8, 1.2), (jitter) =>
    Math.round(Math.min(longest, first * 2 ** Math.min(mostDoublings, failures - 1)) * jitter)
  )

/** Short, so that waiting work continues soon after the database returns. */
const outageBackoff: BackoffPolicy = { first: 1_000, longest: 5_000 }
const defectBackoff: BackoffPolicy = { first: 1_000, longest: 30_000 }

/** Between attempts at one round. Never ends. */
const retries = Schedule.forever.pipe(
  Schedule.intersect(Schedule.identity<Cause.Cause<StoreUnavailable>>()),
  Schedule.addDelayEffect(([count, cause]) =>
    backoffDelay(Option.isSome(Cause.failureOption(cause)) ? outageBackoff : defectBackoff, count + 1)
  )
)

/**
 * Repeats `round` forever, and tries it again while the database is away or it has a defect. Logs each defect, and of an outage the begin
 * and the end.
 */
export const repeatRounds =
  (worker: string) =>
  <R>(round: Effect.Effect<unknown, StoreUnavailable, R>): Effect.Effect<never, never, R> =>
    Effect.gen(function* () {
      const away = yield* Ref.make(false)
      const logFailure = (cause: Cause.Cause<StoreUnavailable>) =>
        Option.match(Cause.failureOption(cause), {
          onNone: () => Effect.logError(`${worker} failed and restarts`, Cause.pretty(cause)),
          onSome: ({ reason }) =>
            Effect.flatMap(Ref.getAndSet(away, true), (known) =>
              (known ? Effect.logDebug : Effect.logWarning)(`${worker}: waiting for the database`, { reason })
            )
        })
      const logRecovery = Effect.flatMap(Ref.getAndSet(away, false), (wasAway) =>
        wasAway ? Effect.logInfo(`${worker}: the database answers again`) : Effect.void
      )
      return yield* Effect.sandbox(round).pipe(
        Effect.tapError(logFailure),
        Effect.retry(retries),
        // The schedule never ends, so no failure is left; the type does not show it.
        Effect.orDie,
        Effect.zipRight(logRecovery),
        Effect.forever
      )
    })

/**
 * Records the outcome of a request even when it is interrupted, by a stop of the process or the loss of a lease: the
 * request then has `grace` to end, and its outcome is recorded before the interruption continues.
 */
export const uninterruptedRequest =
  <A, E, B, E2>(grace: Duration.DurationInput, record: (exit: Exit.Exit<A, E>) => Effect.Effect<B, E2>) =>
  (request: Effect.Effect<A, E>): Effect.Effect<B, E2> =>
    Effect.gen(function* () {
      // A child fiber would be interrupted together with this one, before its outcome is known.
      const fiber = yield* Effect.forkDaemon(Effect.interruptible(Effect.exit(request)))
      const answer = Effect.map(Fiber.await(fiber), Exit.flatten)
      const lateAnswer = Effect.interruptible(answer).pipe(
        Effect.timeoutOption(grace),
        Effect.flatMap(
          Option.match({
            onNone: () => Effect.map(Fiber.interrupt(fiber), Exit.flatten),
            onSome: Effect.succeed
          })
        )
      )
      const exit = yield* Effect.interruptible(answer).pipe(
        // The interruption drops the error channel, so a failure is only logged.
        Effect.onInterrupt(() => Effect.ignoreLogged(Effect.flatMap(lateAnswer, record)))
      )
      return yield* record(exit)
    }).pipe(Effect.uninterruptible)
